"""Variants of a problem: as a table, CSV and JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import MinLen

from hetopt.base.csv_rows import csv_text
from hetopt.base.fields import Digest, NotNegative, Seconds
from hetopt.base.file_record import ASIDE, FileRecord
from hetopt.export.back.differences import SPLIT, Change, changes
from hetopt.plans.plan import Plan
from hetopt.problem.digest import problem_digest
from hetopt.report.drawing.sheet import by_column, labelled
from hetopt.report.rounding import differences, rounded
from hetopt.report.summary import FORMS, amount, cost_text, gap_text, latencies
from hetopt.results.money import Cost
from hetopt.results.result import Status, Time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hetopt.report.drawing.sheet import Part
    from hetopt.results.result import Objective, Result
    from hetopt.whatif.solving import Answer
    from hetopt.whatif.variants import Variant

_DAY_S = 86400


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(FileRecord):
    """The reported values of one variant; times in seconds, None without a plan.

    Attributes
    ----------
    problem_digest
        Of the variant's problem; None if there is no problem.
    time_s
        The minimised time: in closed form, or simulated.
    against_base
        By how much it is longer than in the first row, as a share.
    plan_changes
        Changes from the plan of the first row.
    reason
        Why there is no plan.
    """

    change: str
    problem_digest: Digest | None
    status: Status | Literal["failed"]
    time_s: Annotated[float | None, ASIDE] = None
    closed_form_s: Seconds | None
    iteration_time_s: Seconds | None
    against_base: float | None
    lower_bound_s: Seconds | None
    gap: float | None
    tokens_per_s: NotNegative | None
    tokens_per_day: NotNegative | None
    cost: Cost | None
    plan_changes: tuple[Change, ...]
    reason: str | None
    plan: Plan | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Whatif(FileRecord):
    """What ``hetopt whatif --json`` prints: variants of a problem.

    Attributes
    ----------
    rows
        The problem as it is comes first.
    """

    SCHEMA: ClassVar[str] = "hetopt-whatif/1"

    problem: str
    objective: Time
    rows: Annotated[tuple[Row, ...], MinLen(1)]

    def time_s(self, row: Row) -> float | None:
        """Return the time of a row that is minimised."""
        simulated = self.objective == "simulated"
        return row.iteration_time_s if simulated else row.closed_form_s


_CSV_COLUMNS = (
    *("change", "status", "closed_form_s", "iteration_time_s", "against_base"),
    *("lower_bound_s", "gap", "tokens_per_s", "tokens_per_day", "cost.per_hour"),
    *("cost.per_iteration", "cost.per_trillion_tokens", "plan_changes", "reason"),
)


def whatif_csv(found: Sequence[Row]) -> str:
    """Return one line per variant, with unrounded numbers."""

    def plan_changes(row: Row) -> str:
        return "; ".join(map(change_text, row.plan_changes))

    return csv_text(_CSV_COLUMNS, found, {"plan_changes": plan_changes})


def rows(variants: Sequence[Variant], answers: Sequence[Answer]) -> list[Row]:
    """Return one row for every variant; others are compared with the first."""
    base = answers[0].result
    return [
        _row(variant, answer, base)
        for variant, answer in zip(variants, answers, strict=True)
    ]


def _row(variant: Variant, answer: Answer, base: Result | None) -> Row:
    result = answer.result
    best = None if result is None else result.best
    plan = None if best is None else best.plan
    time_s, base_s = _time_s(result), _time_s(base)
    before = None if base is None or base.best is None else base.best.plan
    problem, digest = variant.problem, None
    if problem is not None:
        # The plan's problem has one schedule, and what its launcher knows.
        digest = plan.problem_digest if plan else problem_digest(problem)
    status: Status | Literal["failed"] = "failed"
    if result is not None:
        status = result.status
    elif problem is None:
        status = "infeasible"
    tokens = result.tokens_per_s if result else None
    return Row(
        change=variant.change,
        problem_digest=digest,
        status=status,
        time_s=time_s,
        closed_form_s=best.closed_form_s if best else None,
        iteration_time_s=best.iteration_time_s if best else None,
        against_base=time_s / base_s - 1 if time_s and base_s else None,
        lower_bound_s=result.lower_bound_s if result else None,
        gap=result.gap if result else None,
        tokens_per_s=tokens,
        tokens_per_day=None if tokens is None else tokens * _DAY_S,
        cost=result.cost if result else None,
        plan_changes=changes(before, plan) if before and plan else (),
        reason=result.reason if result else answer.failure,
        plan=plan,
    )


def _time_s(result: Result | None) -> float | None:
    """Return the minimised time; None without a plan."""
    if result is None or result.best is None:
        return None
    return result.best.time_s(result.objective)


def whatif_report(
    found: Sequence[Row], objective: Objective, base: Result | None
) -> list[Part]:
    """Return what ``hetopt whatif`` prints.

    Parameters
    ----------
    base
        Result of the unchanged problem; None if there is none.
    """
    priced = any(row.cost is not None for row in found)
    against = differences([row.time_s for row in found], found[0].time_s)
    costs = [row.cost.per_trillion_tokens if row.cost else None for row in found]
    columns: list[tuple[str, list[str]]] = [
        ("change", [row.change for row in found]),
        (f"{FORMS[objective]} s", _each((row.time_s for row in found), rounded)),
        ("against base", against),
        ("tokens/s", _each((row.tokens_per_s for row in found), rounded)),
        (
            "tokens a day, 1e9",
            _each((row.tokens_per_day for row in found), lambda x: rounded(x / 1e9)),
        ),
        *([("cost a 1e12 tokens", [*map(amount, costs)])] if priced else []),
        ("gap", _each((row.gap for row in found), gap_text)),
        ("plan", ["", *map(_described, found[1:])]),
    ]
    lines = [(row.change, f"no plan: {row.reason}") for row in found if not row.plan]
    lines += [
        (row.change, f"cost {cost_text(row.cost)}")
        for row in found
        if row.cost is not None and row.cost.unpriced
    ]
    if base is not None:
        lines.append(("latencies", latencies(base)))
    return [
        by_column(columns, left=("change", "plan")),
        labelled(lines),
    ]


def _each(values: Iterable[float | None], text: Callable[[float], str]) -> list[str]:
    return ["-" if value is None else text(value) for value in values]


def _described(row: Row) -> str:
    """Return the changes of a variant's plan in a few words."""
    if row.plan is None:
        return "-" if row.status == "failed" else row.status
    if not row.plan_changes:
        return "the same" if row.against_base is not None else ""
    return "; ".join(
        each.what if each.what == SPLIT else change_text(each)
        for each in row.plan_changes
    )


def change_text(change: Change) -> str:
    """Return a change of the plan in a few words."""
    cluster = "" if change.cluster is None else f"{change.cluster} "
    return f"{cluster}{change.what} {change.before} -> {change.after}"
