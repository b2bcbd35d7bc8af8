"""What limits a plan, and what more resources would save: in sentences and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import MinLen

from hetopt.base.fields import Seconds
from hetopt.base.file_record import FileRecord
from hetopt.export.back.differences import Change
from hetopt.plans.plan import Plan
from hetopt.report.plan_report import BYTES_PER_GB, stage_table
from hetopt.report.rounding import percent, rounded
from hetopt.report.summary import gap_text
from hetopt.report.whatif.mixing import TITLE, mixing_report
from hetopt.report.whatif.table import change_text
from hetopt.results.result import Status
from hetopt.whatif.mixing import Mixing
from hetopt.whatif.reasons import Kind, Limits, PathPart, critical_parts, limits_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.pricing.price import Price
    from hetopt.problem.problem import Problem
    from hetopt.report.drawing.sheet import Part
    from hetopt.report.whatif.table import Row
    from hetopt.whatif.reasons import Question

#: Shares of the time below this count as 0.
_NOTHING = 5e-5
#: Most parts of the critical path that are named.
_MOST_PARTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionAnswered(FileRecord):
    """What more of a resource would save.

    Attributes
    ----------
    kind
        One more GB a device, one more node, twice the bandwidth; the use of a cluster
        that is left out.
    """

    kind: Kind
    clusters: Annotated[tuple[str, ...], MinLen(1)]
    status: Status | Literal["failed"]
    closed_form_s: Seconds | None
    lower_bound_s: Seconds | None
    saves: float | None
    plan_changes: tuple[Change, ...]
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasons(FileRecord):
    """What ``hetopt explain --json`` prints of one plan.

    Attributes
    ----------
    limits
        The stage that computes longest, and the share of the simulated iteration; the
        stage whose memory is the fullest, and how full.
    critical
        What the longest chain of events of the simulated iteration is made of.
    best_s
        Closed form of the best plan, with which answers are compared.
    mixing
        Each cluster alone; None if there is only one.
    """

    SCHEMA: ClassVar[str] = "hetopt-reasons/1"

    closed_form_s: Seconds
    iteration_time_s: Seconds
    plan: Plan
    limits: Limits
    critical: Annotated[tuple[PathPart, ...], MinLen(1)]
    best_s: Seconds | None
    answers: tuple[QuestionAnswered, ...]
    mixing: Mixing | None


def reasons_report(
    problem: Problem,
    plan: Plan,
    price: Price,
    base: Row,
    answers: Sequence[tuple[Question, Row]],
    mixing: Mixing | None,
) -> list[Part]:
    """Return what ``hetopt explain`` prints of one plan.

    Parameters
    ----------
    base
        Row of the unchanged problem.
    answers
        Questions, each with the row of the problem that answers it.
    mixing
        None if there is only one cluster.
    """
    mixed = [] if mixing is None else ["", TITLE, "", *mixing_report(mixing)]
    return [
        stage_table(plan, model=problem.model, price=price),
        "",
        *_limits(plan, price),
        *_standing(price, base),
        *(_sentence(question, row) for question, row in answers),
        *mixed,
    ]


def reasons_of(
    plan: Plan,
    price: Price,
    base: Row,
    answers: Sequence[tuple[Question, Row]],
    mixing: Mixing | None,
) -> Reasons:
    """Return the same for a file."""
    return Reasons(
        closed_form_s=price.closed_form_s,
        iteration_time_s=price.iteration_time_s,
        plan=plan,
        limits=limits_of(price),
        critical=tuple(critical_parts(price)),
        best_s=base.closed_form_s,
        answers=tuple(
            QuestionAnswered(
                kind=question.kind,
                clusters=question.clusters,
                status=row.status,
                closed_form_s=row.closed_form_s,
                lower_bound_s=row.lower_bound_s,
                saves=None if row.against_base is None else -row.against_base,
                plan_changes=row.plan_changes,
                reason=row.reason,
            )
            for question, row in answers
        ),
        mixing=mixing,
    )


def _limits(plan: Plan, price: Price) -> Iterator[str]:
    limits, stages = limits_of(price), plan.pipeline.stages
    pace, full = limits.pace_stage, limits.full_stage
    yield (
        f"Stage {pace} on {stages[pace].cluster} sets the pace: it is busy for "
        f"{limits.pace_share:.1%} of the iteration."
    )
    yield (
        f"Memory is fullest on stage {full}, on {stages[full].cluster}: "
        f"{price.memory_bytes[full] / BYTES_PER_GB:.1f} of "
        f"{price.usable_bytes[full] / BYTES_PER_GB:.1f} GB are used."
    )
    parts = critical_parts(price)
    named = [_part_text(part, plan) for part in parts[:_MOST_PARTS]]
    if rest := sum(part.share for part in parts[_MOST_PARTS:]):
        named.append(f"{rest:.1%} elsewhere")
    yield f"The longest chain of the simulated iteration: {', '.join(named)}."


def _part_text(part: PathPart, plan: Plan) -> str:
    if part.stage is None:
        return f"{part.share:.1%} transfers"
    what = "passes" if part.kind == "passes" else "adding up gradients"
    cluster = plan.pipeline.stages[part.stage].cluster
    return f"{part.share:.1%} {what} of stage {part.stage} on {cluster}"


def _standing(price: Price, base: Row) -> Iterator[str]:
    """Yield which time the answers are about, and if the plan is the best by it."""
    if base.closed_form_s is None or base.iteration_time_s is None:
        return
    behind = price.closed_form_s / base.closed_form_s - 1
    if behind > _NOTHING:
        yield (
            f"Another plan takes {rounded(base.closed_form_s)} s in closed form, this "
            f"one {percent(behind)} more; simulated, they take "
            f"{rounded(base.iteration_time_s)} and {rounded(price.iteration_time_s)} "
            "s. What follows is about the closed form, and compares with that other "
            "plan."
        )
    else:
        yield (
            f"What follows is about the closed form, in which the plan takes "
            f"{rounded(price.closed_form_s)} s; simulated, it takes "
            f"{rounded(price.iteration_time_s)} s."
        )


def _sentence(question: Question, row: Row) -> str:
    """Return one answer as a sentence."""
    subject = row.change[0].upper() + row.change[1:]
    proven = "" if row.status == "optimal" else f" (not proven: {gap_text(row.gap)})"
    if row.closed_form_s is None or row.against_base is None:
        return f"{subject}: {row.reason or 'nothing is known'}."
    time_s, saved = f"{rounded(row.closed_form_s)} s", -row.against_base
    if question.kind == "unused":
        name = question.clusters[0]
        if abs(saved) < _NOTHING:
            return (
                f"{name} is not used: the best plan that uses it takes {time_s}, no "
                f"more{proven}."
            )
        return (
            f"{name} is not used: the best plan that uses it takes {time_s}, "
            f"{percent(saved)} more{proven}."
        )
    if abs(saved) < _NOTHING:
        return f"{subject} would save nothing{proven}."
    verb = "save" if saved > 0 else "cost"
    how = "; ".join(map(change_text, row.plan_changes)) or "the same plan"
    return f"{subject} would {verb} {percent(saved)}: {time_s}, by {how}{proven}."
