"""The plan without a launcher's limits, which shows what they cost."""

from __future__ import annotations

from dataclasses import dataclass

from hetopt.base.fields import Seconds
from hetopt.base.file_record import FileRecord
from hetopt.problem.training.choices import ScheduleName


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch(FileRecord):
    """The best plan without a launcher's limits, which shows what they cost.

    Attributes
    ----------
    launcher
        Name of the launcher.
    schedule
        Schedule of that plan; the one that was asked for if there is no plan.
    closed_form_s, iteration_time_s
        Times of that plan; None if none was found.
    proven
        Whether that plan is proven optimal.
    """

    launcher: str
    schedule: ScheduleName
    closed_form_s: Seconds | None
    iteration_time_s: Seconds | None
    proven: bool
