"""What a plan file says beside its certificate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from hetopt.plans.plan import Plan
    from hetopt.results.result import Objective, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a plan file says; a file with only a plan says nothing else.

    Attributes
    ----------
    plan
        None if the file says that there is none.
    relaxed, objective, solver, status
        As in ``Result``; None if the file does not say.
    lower_bound_s
        As in ``Result``; also None if it claims no bound.
    """

    #: Attributes that a result file has by the same name.
    SAME: ClassVar = ("objective", "solver", "status", "lower_bound_s")

    plan: Plan | None
    relaxed: tuple[str, ...] | None = None
    objective: Objective | None = None
    solver: str | None = None
    status: Status | None = None
    lower_bound_s: float | None = None
