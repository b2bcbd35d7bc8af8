"""A plan with its times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hetopt.plans.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedPlan:
    """A checked plan with both of its times, in seconds.

    Attributes
    ----------
    objective_s
        Value of the objective, if that is neither of the times; else None.
    """

    plan: Plan
    closed_form_s: float
    iteration_time_s: float
    objective_s: float | None = None

    def time_s(self, objective: str) -> float:
        """Return the time that is minimised: simulated, as UniAP counts, or closed."""
        if objective == "simulated":
            return self.iteration_time_s
        return self.closed_form_s if self.objective_s is None else self.objective_s

    def times_to_json(self) -> dict[str, float]:
        """Return the times as plain JSON data."""
        data = {} if self.objective_s is None else {"objective_s": self.objective_s}
        return data | {
            "closed_form_s": self.closed_form_s,
            "iteration_time_s": self.iteration_time_s,
        }

    def to_json(self) -> dict[str, Any]:
        """Return the times and the plan as plain JSON data."""
        return {**self.times_to_json(), "plan": self.plan.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PricedPlan:
        """Read a plan and its times; raises KeyError, TypeError or ValueError."""
        return cls(
            plan=Plan.from_json(data["plan"]),
            closed_form_s=data["closed_form_s"],
            iteration_time_s=data["iteration_time_s"],
            objective_s=data.get("objective_s"),
        )
