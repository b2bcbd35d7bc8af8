"""What a search of the best schedule found out about one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.problem.training.choices import ScheduleName

ScheduleStatus = Literal[
    "optimal", "feasible", "refuted", "infeasible", "unknown", "passed-over"
]

#: What stands for the best of all named schedules, where one is asked for.
BEST: Literal["best"] = "best"

#: Chunks of a stage that are tried where schedules with several are, unless others are
#: asked for.
USUAL_CHUNKS = (2, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleBound:
    """One schedule, and what its plans take at least.

    Attributes
    ----------
    chunks
        Of every stage; more than 1 where the schedule has several.
    status
        ``optimal``: its best plan is known; ``feasible``: a plan is known that may not
        be its best; ``refuted``: it has no better plan than the reported one, whatever
        it has; ``infeasible``: it has no plan; ``unknown``: none of these;
        ``passed-over``: it was not to be searched.
    objective_s
        What its best known plan takes, by what is minimised; None: none is known.
    lower_bound_s
        No plan of it takes less; None: nothing is known, or there is no plan.
    search_time_s
        Wall-clock seconds.
    reason
        Why it was not searched; None if it was.
    """

    schedule: ScheduleName
    status: ScheduleStatus
    objective_s: float | None = None
    lower_bound_s: float | None = None
    search_time_s: float = 0.0
    reason: str | None = None
    chunks: int = 1

    @property
    def counts(self) -> bool:
        """Whether some plan of it could be the reported one."""
        return self.status not in ("infeasible", "passed-over")

    def to_json(self) -> dict[str, Any]:
        """Return this as plain JSON data."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ScheduleBound:
        """Read what ``to_json`` wrote; raises KeyError or TypeError."""
        return cls(**{name: data[name] for name in cls.__dataclass_fields__})
