"""What it costs to keep to plans that a launcher can run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hetopt.problem.training.choices import ScheduleName


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """What it costs to keep to plans that a launcher can run.

    Attributes
    ----------
    launcher
        Its name.
    schedule
        Of the plan without these limits: the one that was asked for.
    closed_form_s, iteration_time_s
        Of that plan; None if the time was up before one was found.
    proven
        Whether that plan is proven optimal.
    """

    launcher: str
    schedule: ScheduleName
    closed_form_s: float | None
    iteration_time_s: float | None
    proven: bool

    def to_json(self) -> dict[str, Any]:
        """Return this as plain JSON data."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}
