"""A plan with its times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

from hetopt.base.fields import Seconds
from hetopt.base.file_record import FileRecord
from hetopt.plans.plan import Plan


class Times(Protocol):
    """What pricing or checking a plan returns."""

    @property
    def closed_form_s(self) -> float:
        """The closed form, in seconds."""

    @property
    def iteration_time_s(self) -> float:
        """The simulated time, in seconds."""


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

    @classmethod
    def of(cls, plan: Plan, times: Times) -> Self:
        """Return a plan with the times that it was found to take."""
        return cls(
            plan=plan,
            closed_form_s=times.closed_form_s,
            iteration_time_s=times.iteration_time_s,
        )

    def time_s(self, objective: str) -> float:
        """Return the time that is minimised: simulated, as UniAP counts, or closed."""
        if objective == "simulated":
            return self.iteration_time_s
        return self.closed_form_s if self.objective_s is None else self.objective_s
