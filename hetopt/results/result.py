"""The result of a solver: a plan, its times, and how every (p, q) was settled."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from hetopt.base.shown import Shown
from hetopt.results.claims import Branched, Reached
from hetopt.results.crossing import Crossing
from hetopt.results.launch import Launch
from hetopt.results.money import Cost
from hetopt.results.priced_plan import PricedPlan
from hetopt.results.settlement import How, Settlement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.cost.table.table import CostTable, SourceKind
    from hetopt.errors import InputError
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.principles import Relaxable
    from hetopt.results.claims import Json

RESULT_SCHEMA = "hetopt-result/1"

Status = Literal["optimal", "feasible", "infeasible", "unknown"]
#: What is minimised: the closed form, the simulated time, the price of an iteration in
#: closed form, or UniAP's objective.
Objective = Literal["closed", "simulated", "cost", "uniap"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Result(Branched, Shown):
    """Outcome of one search.

    Attributes
    ----------
    best
        The reported plan, or None.
    alternatives
        The next best plans, best first; each differs from the others in stages,
        micro-batches, clusters, strategies or stages per cluster, and by more than
        an exchange of identical clusters.
    lower_bound_s
        Valid lower bound on the objective over the whole space; None if none is known
        or nothing is feasible.
    gap
        (value - lower bound) / value of the reported plan; None without a plan.
    search_time_s
        Wall-clock seconds.
    relaxed
        Principles that plans need not keep; status, bound and gap are for the space
        without them.
    choice
        Why ``auto`` chose this solver, or what the solver had to do without.
    launch
        If only plans that a launcher can run were searched: the plan without that
        limit. Status, bound and gap are for plans that the launcher can run.
    cost
        Cost of the plan, if the problem has prices.
    asked
        The options of ``hetopt plan`` that were not the usual ones; None if it was not
        asked on the command line.
    over, claims
        What was branched over, and what is claimed (``hetopt.results.claims``); then
        settlements are at most those of the reported plan's problem. None if nothing
        was branched over.
    lower_cost
        Valid lower bound on the cost of an iteration, if that is minimised.
    stability
        How far each coefficient may move until another plan is better, if that was
        asked for.
    reason
        Why there is no plan, in one line; None only if there is one.
    interrupted
        Whether the user stopped the search; not part of the file.
    journal_failure
        Why the journal could not be written to the end; not part of the file.
    problem, table
        What was planned, under the plan's schedule; None if unknown. ``hetopt.plan``
        gives them, for reports and exports; not part of the file.

    Examples
    --------
    ``print`` shows the report of ``hetopt plan``, and a notebook the same tables.

    >>> import hetopt
    >>> result = hetopt.plan("problem.yaml", top=2)
    >>> result.status, len(result.alternatives)
    ('optimal', 1)
    >>> result.best.closed_form_s <= result.alternatives[0].closed_form_s
    True
    """

    status: Status
    objective: Objective = "closed"
    solver: str
    best: PricedPlan | None
    alternatives: tuple[PricedPlan, ...] = ()
    lower_bound_s: float | None
    gap: float | None
    search_time_s: float
    settlements: tuple[Settlement, ...]
    tokens_per_s: float | None
    mfu: float | None
    mfu_used: float | None
    table_kinds: Mapping[str, SourceKind]
    relaxed: tuple[Relaxable, ...] = ()
    choice: str | None = None
    launch: Launch | None = None
    cost: Cost | None = None
    asked: Json | None = None
    over: tuple[Json, ...] = ()
    claims: Json | None = None
    lower_cost: float | None = None
    stability: tuple[Crossing, ...] | None = None
    reason: str | None = None
    interrupted: bool = False
    journal_failure: InputError | None = None
    problem: Problem | None = field(default=None, compare=False)
    table: CostTable | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.best is None and not self.reason:
            open_ = self.status != "infeasible"
            reason = "stopped without a plan" if open_ else "the solver gives no reason"
            object.__setattr__(self, "reason", reason)

    def reached(self) -> Reached:
        """Return what the search came to, to compare schedules with."""
        best, costs = self.best, self.objective == "cost"
        own = None
        if best is not None:
            own = best.plan.schedule, best.plan.chunks, best.plan.warmup_epsilon
        impossible = self.status == "infeasible"
        return Reached(
            own=own,
            best_s=None if best is None or costs else best.time_s(self.objective),
            least_s=math.inf if impossible else self.lower_bound_s or 0.0,
            proven=self.status == "optimal",
        )

    @property
    def ranks_are_proven(self) -> bool:
        """Whether the alternatives are proven to be the next best plans.

        The status is about the best plan alone: the time may end before all others are
        settled.
        """
        return self.status == "optimal" and "unsettled" not in self.settled

    @property
    def settled(self) -> dict[str, int]:
        """Number of (p, q) by how they were settled, in the order of ``How``."""
        counts = Counter(settlement.how for settlement in self.settlements)
        return {how: counts[how] for how in get_args(How) if counts[how]}

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain JSON data; see ``hetopt schema result``."""
        best, costs = self.best, self.cost
        known = {"objective_s": best.objective_s if best else None}
        moves = self.stability
        optional = {
            "solver_choice": self.choice,
            "relaxed": list(self.relaxed) or None,
            "launch": None if self.launch is None else asdict(self.launch),
            "cost": None if costs is None else costs.to_json(),
            "asked": self.asked,
            "over": list(self.over) or None,
            "claims": self.claims,
            "lower_cost": self.lower_cost,
            "stability": None if moves is None else [each.to_json() for each in moves],
        }
        return {
            "schema": RESULT_SCHEMA,
            "status": self.status,
            "objective": self.objective,
            "iteration_time_s": best.iteration_time_s if best else None,
            "closed_form_s": best.closed_form_s if best else None,
            **(known if self.objective == "uniap" else {}),
            "lower_bound_s": self.lower_bound_s,
            "gap": self.gap,
            "search_time_s": self.search_time_s,
            "tokens_per_s": self.tokens_per_s,
            "mfu": self.mfu,
            "mfu_used": self.mfu_used,
            "settled": self.settled,
            "settlements": [asdict(each) for each in self.settlements],
            "solver": self.solver,
            **{name: each for name, each in optional.items() if each is not None},
            "table_kinds": dict(self.table_kinds),
            "reason": self.reason,
            "plan": best.plan.to_json() if best else None,
            "alternatives": [each.to_json() for each in self.alternatives],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Result:
        """Read what ``to_json`` wrote; raises KeyError, TypeError or ValueError."""
        launch, cost = data.get("launch"), data.get("cost")
        stability = data.get("stability")
        same = (
            *("status", "objective", "solver", "lower_bound_s", "gap"),
            *("search_time_s", "tokens_per_s", "mfu", "mfu_used", "table_kinds"),
        )
        return cls(
            best=None if data["plan"] is None else PricedPlan.from_json(data),
            alternatives=tuple(map(PricedPlan.from_json, data["alternatives"])),
            settlements=tuple(Settlement(**each) for each in data["settlements"]),
            relaxed=tuple(data.get("relaxed", ())),
            choice=data.get("solver_choice"),
            launch=None if launch is None else Launch(**launch),
            cost=None if cost is None else Cost.from_json(cost),
            asked=data.get("asked"),
            over=tuple(data.get("over", ())),
            claims=data.get("claims"),
            lower_cost=data.get("lower_cost"),
            stability=None
            if stability is None
            else tuple(map(Crossing.from_json, stability)),
            reason=data["reason"],
            **{name: data[name] for name in same},
        )
