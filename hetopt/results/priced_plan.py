"""A plan with its times."""

from __future__ import annotations

from dataclasses import dataclass

from hetopt.base.fields import Seconds
from hetopt.base.file_record import FileRecord
from hetopt.plans.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedPlan(FileRecord):
    """A checked plan with both of its times, in seconds.

    Attributes
    ----------
    objective_s
        Value of the objective, if that is neither of the times; else None.
    iteration_time_s
        Simulated, event by event.
    """

    objective_s: Seconds | None = None
    closed_form_s: Seconds
    iteration_time_s: Seconds
    plan: Plan

    def time_s(self, objective: str) -> float:
        """Return the time that is minimised: simulated, as UniAP counts, or closed."""
        if objective == "simulated":
            return self.iteration_time_s
        return self.closed_form_s if self.objective_s is None else self.objective_s
