"""Plans that no other beats in both time and price."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hetopt.results.claims import Branched
from hetopt.results.money import Cost
from hetopt.results.priced_plan import PricedPlan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.errors import InputError
    from hetopt.problem.training.principles import Relaxable
    from hetopt.results.claims import Json
    from hetopt.results.result import Objective, Status

FRONT_SCHEMA = "hetopt-front/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontPoint:
    """One plan of the front."""

    best: PricedPlan
    cost: Cost
    tokens_per_s: float

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FrontPoint:
        """Read what ``to_json`` wrote; raises KeyError, TypeError or ValueError."""
        return cls(
            best=PricedPlan.from_json(data),
            cost=Cost.from_json(data["cost"]),
            tokens_per_s=data["tokens_per_s"],
        )

    def to_json(self) -> dict[str, Any]:
        """Return the point as plain JSON data."""
        return {
            **self.best.times_to_json(),
            "tokens_per_s": self.tokens_per_s,
            "cost": self.cost.to_json(),
            "plan": self.best.plan.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Front(Branched):
    """All plans that no other beats in both time and price.

    Attributes
    ----------
    status
        ``optimal``: no plan beats or equals one of these in both time and price, and
        none is missing; ``feasible``: the search ended before that was shown;
        ``infeasible``: there is no plan.
    objective
        The time that is meant: ``closed`` or ``simulated``.
    points
        Ascending by price, and so descending by time.
    open
        Number of choices of nodes that may still have a better plan.
    asked, over, claims
        See ``Result``.
    interrupted, journal_failure
        See ``Result``; not part of the file.
    """

    status: Status
    objective: Objective
    solver: str
    points: tuple[FrontPoint, ...]
    search_time_s: float
    open: int
    over: tuple[Json, ...]
    claims: Json
    relaxed: tuple[Relaxable, ...] = ()
    interrupted: bool = False
    journal_failure: InputError | None = None
    asked: Json | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Front:
        """Read what ``to_json`` wrote; raises KeyError, TypeError or ValueError."""
        same = ("status", "objective", "solver", "search_time_s", "open")
        return cls(
            points=tuple(map(FrontPoint.from_json, data["points"])),
            relaxed=tuple(data.get("relaxed", ())),
            asked=data.get("asked"),
            over=tuple(data["over"]),
            claims=data["claims"],
            **{name: data[name] for name in same},
        )

    def time_s(self, point: FrontPoint) -> float:
        """Return the time of a point by the front's objective."""
        best = point.best
        simulated = self.objective == "simulated"
        return best.iteration_time_s if simulated else best.closed_form_s

    def to_json(self) -> dict[str, Any]:
        """Return the front as plain JSON data; see ``hetopt schema front``."""
        return {
            "schema": FRONT_SCHEMA,
            "status": self.status,
            "objective": self.objective,
            "solver": self.solver,
            "search_time_s": self.search_time_s,
            "open": self.open,
            **({"relaxed": list(self.relaxed)} if self.relaxed else {}),
            **({} if self.asked is None else {"asked": self.asked}),
            "over": list(self.over),
            "claims": self.claims,
            "points": [point.to_json() for point in self.points],
        }
