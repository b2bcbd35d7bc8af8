"""The section that compares several plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.report.drawing.sheet import sheet
from hetopt.report.page.bars import Bar, Span, bars
from hetopt.report.page.markup import table
from hetopt.report.rounding import differences, rounded
from hetopt.report.rows import chain
from hetopt.report.summary import amount, named_schedule

if TYPE_CHECKING:
    from hetopt.report.page.contents import Contents, ReportedPlan

_COLUMNS = (
    "file",
    "stages x micro-batches",
    "schedule",
    "devices",
    "closed form s",
    "simulated s",
    "tokens/s",
    "fullest memory",
    "idle",
    "clusters",
)


def comparison(contents: Contents) -> str:
    """Return the section; empty for a single plan."""
    plans = contents.plans
    if len(plans) == 1:
        return ""
    times_s = [plan.price.iteration_time_s for plan in plans]
    apart = differences(times_s, min(times_s))
    priced = any(plan.cost is not None for plan in plans)
    names = (*_COLUMNS[:-1], *(["cost a 1e12 tokens"] if priced else []), _COLUMNS[-1])
    cells = sheet(
        names,
        (_cells(plan, priced=priced) for plan in plans),
        left=("file", "schedule", "clusters"),
    )
    drawn = bars([_bar(*pair) for pair in zip(plans, apart, strict=True)])
    return drawn + table([cells], "the plans compared")


def _bar(plan: ReportedPlan, against_best: str) -> Bar:
    time_s = plan.price.iteration_time_s
    text = f"{rounded(time_s, plan.digits)} s, {against_best}"
    return Bar(plan.name, text, (Span("sure", 0.0, time_s),))


def _cells(plan: ReportedPlan, *, priced: bool) -> list[object]:
    price, pipeline = plan.price, plan.plan.pipeline
    fullest = max(
        need / usable
        for need, usable in zip(price.memory_bytes, price.usable_bytes, strict=True)
    )
    cost = None if plan.cost is None else plan.cost.per_trillion_tokens
    return [
        plan.name,
        f"{len(pipeline.stages)} x {pipeline.microbatches}",
        named_schedule(plan.plan),
        plan.plan.devices,
        f"{price.closed_form_s:.4f}",
        f"{price.iteration_time_s:.4f}",
        f"{plan.tokens / plan.price.iteration_time_s:,.0f}",
        f"{fullest:.0%}",
        f"{sum(price.idle_share) / len(price.idle_share):.1%}",
        *([amount(cost)] if priced else []),
        chain(plan.plan),
    ]
