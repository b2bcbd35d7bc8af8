"""Check a result's claims about each schedule if the best of all was searched."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from hetopt.base.words import counted
from hetopt.check.plan.reading import (
    choice,
    choices,
    items,
    mapping,
    number,
    text,
    whole,
)
from hetopt.check.plan.schedule.schedules import STEPS
from hetopt.problem.training.choices import SCHEDULES
from hetopt.problem.training.training import EPSILONS, written_epsilon
from hetopt.results.per_schedule import ScheduleBound, ScheduleStatus
from hetopt.results.settlement import OPTIMALITY_GAP

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hetopt.plans.plan import Plan
    from hetopt.problem.training.choices import ScheduleName

#: Relative difference up to which two numbers count as equal.
_TOLERANCE = 1e-9


class Schedules:
    """The claims of a result about each schedule.

    Raises
    ------
    InputError
        The data is not what ``ScheduleBound.to_json`` makes.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._claims = []
        for place, item in items(data, "schedules", ""):
            entry = mapping(item, place)
            choice(entry, "schedule", SCHEDULES, place)
            if "chunks" in entry:
                whole(entry, "chunks", place)
            written_epsilon(entry, place)
            choice(entry, "status", choices(ScheduleStatus), place)
            for key in ("objective_s", "lower_bound_s", "search_time_s"):
                number(entry, key, place)
            if entry.get("reason") is not None:
                text(entry, "reason", place)
            self._claims.append(
                ScheduleBound.from_json({"reason": None, "chunks": 1, **entry})
            )

    def bounds_beside(self, plan: Plan) -> list[float | None]:
        """Return the lower bounds of all schedules other than the plan's."""
        return [
            each.lower_bound_s
            for each in self._claims
            if each.counts and not _is_of(each, plan)
        ]

    def findings(self, plan: Plan | None, value: float | None) -> Iterator[str]:
        """Yield what is wrong with the claims.

        Parameters
        ----------
        plan, value
            The reported plan and its objective value; None without a plan.
        """
        counts = Counter(map(_variant, self._claims))
        named = {each.schedule for each in self._claims}
        for name in SCHEDULES:
            if name not in named:
                yield f"schedules: {name} is missing"
        if plan is not None and _variant(plan) not in counts:
            yield f"schedules: {_said(_variant(plan))}, the plan's own, is missing"
        listed = {each.warmup_epsilon for each in self._claims} - {None}
        if len(listed) > 1 and listed != {*EPSILONS}:
            wanted = ", ".join(map(str, EPSILONS))
            yield f"schedules: warmup_epsilon is not one value, nor {wanted}"
        for (name, chunks, epsilon), count in counts.items():
            if count > 1:
                said = _said((name, chunks, epsilon))
                yield f"schedules: {said} is listed {count} times, expected once"
            if STEPS[name].interleaved != (chunks > 1):
                yield f"schedules: {name} has {counted(chunks, 'chunk')}"
        for each in self._claims:
            findings = [*_alone(each), *_beside(each, value)]
            if plan is not None and value is not None and _is_of(each, plan):
                findings += _own(each, value)
            yield from (f"schedules: {each.schedule} {finding}" for finding in findings)

    def no_plan_findings(self, status: str) -> Iterator[str]:
        """Yield contradictions to a result without a plan."""
        for each in self._claims:
            if status == "infeasible" and each.counts:
                yield f"status: infeasible, but {each.schedule} is {each.status}"
            if each.objective_s is not None or each.status in ("optimal", "refuted"):
                said = f"schedules: {each.schedule} is {each.status}"
                yield f"{said}, but there is no plan"


def _is_of(claim: ScheduleBound, plan: Plan) -> bool:
    return _variant(claim) == _variant(plan)


def _variant(of: ScheduleBound | Plan) -> tuple[ScheduleName, int, float | None]:
    return of.schedule, of.chunks, of.warmup_epsilon


def _said(variant: tuple[ScheduleName, int, float | None]) -> str:
    name, chunks, epsilon = variant
    return f"{name} (chunks: {chunks}, warmup_epsilon: {epsilon})"


def _alone(claim: ScheduleBound) -> Iterator[str]:
    """Yield what is wrong with a claim by itself."""
    value, bound = claim.objective_s, claim.lower_bound_s
    if not claim.counts and not (value is None and bound is None):
        yield f"is {claim.status}, but has a plan or a bound"
    if claim.status == "passed-over" and not claim.reason:
        yield "is passed over, but no reason is given"
    if (claim.status in ("optimal", "feasible")) and value is None:
        yield f"is {claim.status}, but has no plan"
    if claim.status == "unknown" and value is not None:
        yield "is unknown, but has a plan"
    if bound is None or value is None:
        if claim.status == "optimal":
            yield "is optimal, but has no bound"
        return
    if bound > value * (1 + _TOLERANCE):
        yield f"is bounded by {bound}, and has a plan of {value}"
    if claim.status == "optimal" and _below(bound, value):
        yield f"is optimal at {value}, but bounded by {bound}"


def _beside(claim: ScheduleBound, best: float | None) -> Iterator[str]:
    """Yield contradictions to the reported plan."""
    if best is None:
        return
    value, bound = claim.objective_s, claim.lower_bound_s
    if value is not None and value < best * (1 - _TOLERANCE):
        yield f"has a plan of {value}, better than the reported {best!r}"
    if claim.status == "refuted" and (bound is None or _below(bound, best)):
        yield f"is refuted, but bounded by {bound}, the plan takes {best!r}"


def _own(claim: ScheduleBound, value: float) -> Iterator[str]:
    """Yield findings on the claim about the reported plan's own schedule."""
    if claim.status not in ("optimal", "feasible"):
        yield f"is {claim.status}, but the plan belongs to it"
    elif claim.objective_s is None or abs(claim.objective_s - value) > (
        _TOLERANCE * value
    ):
        yield f"has a plan of {claim.objective_s}, expected {value!r}"


def _below(bound: float, value: float) -> bool:
    return bound < value * (1 - OPTIMALITY_GAP - _TOLERANCE)
