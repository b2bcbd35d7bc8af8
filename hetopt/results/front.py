"""Plans that no other beats in both time and price."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from hetopt.base.fields import Positive, Seconds, Whole
from hetopt.base.file_record import ASIDE, INLINE, FileRecord
from hetopt.errors import InputError
from hetopt.problem.training.principles import Relaxable
from hetopt.results.asked import Asked
from hetopt.results.claims import Branched, Claims, Over
from hetopt.results.money import Cost
from hetopt.results.priced_plan import PricedPlan
from hetopt.results.result import Status, Time

FRONT_SCHEMA = "hetopt-front/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontPoint(FileRecord):
    """One plan of the front."""

    KEYS: ClassVar[tuple[str, ...]] = (
        *("closed_form_s", "iteration_time_s", "tokens_per_s", "cost", "plan"),
    )

    best: Annotated[PricedPlan, INLINE]
    cost: Cost
    tokens_per_s: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class Front(FileRecord, Branched):
    """What ``hetopt plan --pareto --json`` prints.

    All plans that no other beats in both time and price.

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
    reason
        Why there is no plan, if there is none; not part of the file.
    interrupted, journal_failure
        See ``Result``; not part of the file.
    """

    SCHEMA: ClassVar[str] = FRONT_SCHEMA

    status: Status
    objective: Time
    solver: str
    search_time_s: Seconds
    open: Whole
    relaxed: tuple[Relaxable, ...] = ()
    asked: Asked | None = None
    over: Over
    claims: Claims
    points: tuple[FrontPoint, ...]
    reason: Annotated[str, ASIDE] = ""
    interrupted: Annotated[bool, ASIDE] = False
    journal_failure: Annotated[InputError | None, ASIDE] = None

    def time_s(self, point: FrontPoint) -> float:
        """Return the time of a point by the front's objective."""
        return point.best.time_s(self.objective)
