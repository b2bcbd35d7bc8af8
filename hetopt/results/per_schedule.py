"""What a search for the best schedule found about one schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from hetopt.problem.training.choices import ScheduleName

ScheduleStatus = Literal[
    "optimal", "feasible", "refuted", "infeasible", "unknown", "passed-over"
]

#: Default numbers of chunks per stage to try for schedules with several.
USUAL_CHUNKS = (2, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleBound:
    """One schedule, with its best known plan's time and a lower bound.

    Attributes
    ----------
    chunks
        Chunks of every stage; more than 1 if the schedule has several.
    warmup_epsilon
        Of ``h-1f1b``; None with other schedules.
    status
        ``optimal``: its best plan is known; ``feasible``: a plan is known that may not
        be its best; ``refuted``: it has no better plan than the reported one;
        ``infeasible``: it has no plan; ``unknown``: none of these; ``passed-over``: it
        cannot be searched, or the launcher does not run it.
    objective_s
        Time of its best known plan; None: none is known, or cost decides.
    lower_bound_s
        Lower bound on its plans' time; None: none is known, or there is no plan.
    reason
        Why it was not searched; None if it was, or if its device time refutes it.
    """

    schedule: ScheduleName
    status: ScheduleStatus
    objective_s: float | None = None
    lower_bound_s: float | None = None
    reason: str | None = None
    chunks: int = 1
    warmup_epsilon: float | None = None
