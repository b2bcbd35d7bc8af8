"""Variants of a problem: as a table, CSV and JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import MinLen

from hetopt.base.fields import Digest, NotNegative, Seconds
from hetopt.base.file_record import ASIDE, FileRecord
from hetopt.export.back.differences import SPLIT, Change, changes
from hetopt.plans.plan import Plan
from hetopt.problem.digest import problem_digest
from hetopt.report.drawing.sheet import labelled, sheet
from hetopt.report.rounding import differences, rounded
from hetopt.report.summary import FORMS, amount, cost_text, gap_text, latencies
from hetopt.results.money import Cost
from hetopt.results.result import Status, Time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.report.drawing.sheet import Part
    from hetopt.results.result import Objective, Result
    from hetopt.whatif.solving import Answer
    from hetopt.whatif.variants import Variant

_DAY_S = 86400
_BILLION = 1e9


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


def _cost(name: str) -> Callable[[Row], object]:
    return lambda row: getattr(row.cost, name, None)


CSV_COLUMNS: Mapping[str, Callable[[Row], object]] = {
    **{
        name: attrgetter(name)
        for name in (
            *("change", "status", "closed_form_s", "iteration_time_s"),
            *("against_base", "lower_bound_s", "gap", "tokens_per_s", "tokens_per_day"),
        )
    },
    **{
        f"cost_{name}": _cost(name)
        for name in ("per_hour", "per_iteration", "per_trillion_tokens")
    },
    "plan_changes": lambda row: "; ".join(map(change_text, row.plan_changes)),
    "reason": attrgetter("reason"),
}


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
    names = ["change", f"{FORMS[objective]} s", "against base", "tokens/s"]
    names += ["tokens a day, 1e9"]
    names += ["cost a 1e12 tokens"] if priced else []
    names += ["gap", "plan"]
    lines = [(row.change, f"no plan: {row.reason}") for row in found if not row.plan]
    lines += [
        (row.change, f"cost {cost_text(row.cost)}")
        for row in found
        if row.cost is not None and row.cost.unpriced
    ]
    if base is not None:
        lines.append(("latencies", latencies(base)))
    return [
        sheet(
            names,
            (
                [*_cells(row, apart, priced=priced), _described(row) if number else ""]
                for number, (row, apart) in enumerate(zip(found, against, strict=True))
            ),
            left=("change", "plan"),
        ),
        labelled(lines),
    ]


def _cells(row: Row, against_base: str, *, priced: bool) -> list[str]:
    """Return the cells of a row, except the changes of its plan."""
    day = row.tokens_per_day
    cost = None if row.cost is None else row.cost.per_trillion_tokens
    return [
        row.change,
        "-" if row.time_s is None else rounded(row.time_s),
        against_base,
        "-" if row.tokens_per_s is None else rounded(row.tokens_per_s),
        "-" if day is None else rounded(day / _BILLION),
        *([amount(cost)] if priced else []),
        "-" if row.gap is None else gap_text(row.gap),
    ]


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
