"""The report of ``hetopt explain --mine``: two plans, and their differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from annotated_types import MinLen

from hetopt.base.fields import Positive, Seconds, Whole
from hetopt.base.file_record import FileRecord
from hetopt.export.back.explaining import Step
from hetopt.plans.plan import Plan
from hetopt.report.drawing.sheet import labelled, sheet
from hetopt.report.plan_report import BYTES_PER_GB, stage_table
from hetopt.report.rows import chain
from hetopt.report.summary import shape
from hetopt.results.reported import Reported

if TYPE_CHECKING:
    from hetopt.export.back.differences import Change
    from hetopt.export.back.explaining import Explanation
    from hetopt.pricing.price import Price
    from hetopt.problem.model.model import Model
    from hetopt.report.drawing.sheet import Part, Sheet


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedPlan(FileRecord):
    """A plan and what it takes.

    Attributes
    ----------
    memory_bytes, usable_bytes
        Per device, by stage.
    """

    closed_form_s: Seconds
    iteration_time_s: Seconds
    memory_bytes: Annotated[tuple[Whole, ...], MinLen(1)]
    usable_bytes: Annotated[tuple[Whole, ...], MinLen(1)]
    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedMine(ExplainedPlan):
    """The user's plan.

    Attributes
    ----------
    reported
        What its files say that hetopt does not know or price.
    """

    feasible: bool
    findings: tuple[str, ...]
    reported: tuple[Reported, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedPlans(FileRecord):
    """What ``hetopt explain --mine --json`` prints: a plan and a better one."""

    SCHEMA: ClassVar[str] = "hetopt-explanation/1"

    mine: ExplainedMine
    ours: ExplainedPlan
    speedup: Mapping[Literal["closed_form", "simulated"], Positive]
    steps: tuple[Step, ...]


def explanation_report(model: Model, told: Explanation) -> list[Part]:
    """Return everything that ``hetopt explain --mine`` prints."""
    mine, ours = told.mine.price, told.ours_price
    parts: list[Part] = [
        "yours",
        stage_table(told.mine.plan, model=model, price=mine),
        "hetopt's",
        stage_table(told.ours, model=model, price=ours),
    ]
    if told.steps:
        parts += ["from yours to hetopt's, one decision after another", steps(told)]
    lines = [
        ("yours", f"{shape(told.mine.plan)}: {chain(told.mine.plan)}"),
        ("hetopt's", f"{shape(told.ours)}: {chain(told.ours)}"),
        ("closed form", _faster(mine.closed_form_s, ours.closed_form_s)),
        ("simulated", _faster(mine.iteration_time_s, ours.iteration_time_s)),
    ]
    lines += [("does not fit", text) for text in memory_findings(told)]
    lines += [("not feasible", text) for text in other_findings(told)]
    lines += [("not compared", str(each)) for each in told.mine.reported]
    return [*parts, labelled(lines)]


def steps(told: Explanation) -> Sheet:
    """Return the table of steps, with the change of both times at each."""
    price = told.mine.price
    start = (price.closed_form_s, price.iteration_time_s)
    ends = [(step.closed_form_s, step.iteration_time_s) for step in told.steps]
    rows = [("yours", f"{start[0]:.4f}", "", f"{start[1]:.4f}", "")]
    for step, (before, after) in zip(told.steps, pairwise([start, *ends]), strict=True):
        rows.append(
            (
                "; ".join(map(sentence, step.changes)),
                f"{after[0]:.4f}",
                f"{after[0] - before[0]:+.4f}",
                f"{after[1]:.4f}",
                f"{after[1] - before[1]:+.4f}",
            )
        )
    last = ends[-1]
    rows.append(
        (
            "in all",
            "",
            f"{last[0] - start[0]:+.4f}",
            "",
            f"{last[1] - start[1]:+.4f}",
        )
    )
    return sheet(
        ("decision", "closed form s", "change s", "simulated s", "change s"),
        rows,
        left=("decision",),
    )


def sentence(change: Change) -> str:
    """Return a change in words."""
    where = "" if change.cluster is None else f" on {change.cluster}"
    return f"{change.what}{where}: {change.before} -> {change.after}"


def memory_findings(told: Explanation) -> list[str]:
    """Return a line for each stage of the user's plan that needs too much memory."""
    price = told.mine.price
    return [
        f"stage {number} ({stage.cluster}) needs {need / BYTES_PER_GB:.1f} GB a "
        f"device, {usable / BYTES_PER_GB:.1f} GB are usable: "
        f"{(need - usable) / BYTES_PER_GB:.1f} GB too much"
        for number, (stage, need, usable) in enumerate(
            zip(
                told.mine.plan.pipeline.stages,
                price.memory_bytes,
                price.usable_bytes,
                strict=True,
            )
        )
        if need > usable
    ]


def other_findings(told: Explanation) -> list[str]:
    """Return the other reasons why the user's plan is not feasible."""
    if memory_findings(told):
        # Strategies that do not fit are not in the table: the same finding again.
        kept = (" memory ", "the table has no")
        return [f for f in told.mine.findings if not any(k in f for k in kept)]
    return list(told.mine.findings)


def explained(told: Explanation) -> ExplainedPlans:
    """Return an explanation for a file."""
    mine, ours = told.mine.price, told.ours_price
    return ExplainedPlans(
        mine=ExplainedMine(
            **_sides(told.mine.plan, mine),
            feasible=not told.mine.findings,
            findings=told.mine.findings,
            reported=told.mine.reported,
        ),
        ours=ExplainedPlan(**_sides(told.ours, ours)),
        speedup={
            "closed_form": mine.closed_form_s / ours.closed_form_s,
            "simulated": mine.iteration_time_s / ours.iteration_time_s,
        },
        steps=told.steps,
    )


def _sides(plan: Plan, price: Price) -> dict[str, Any]:
    names = ("closed_form_s", "iteration_time_s", "memory_bytes", "usable_bytes")
    return {"plan": plan, **{name: getattr(price, name) for name in names}}


def _faster(mine_s: float, ours_s: float) -> str:
    """Return the comparison of two times in words."""
    ratio = mine_s / ours_s
    if abs(ratio - 1) < 5e-4:
        return f"yours {mine_s:.4f} s, hetopt's {ours_s:.4f} s: as fast"
    how = f"{ratio:.2f}x as fast" if ratio >= 1.005 else f"{ratio - 1:+.2%}"
    return f"yours {mine_s:.4f} s, hetopt's {ours_s:.4f} s: {how}"
