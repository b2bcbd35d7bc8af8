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


def comparison(contents: Contents) -> str:
    """Return the section; empty for a single plan."""
    plans = contents.plans
    if len(plans) == 1:
        return ""
    times_s = [plan.price.iteration_time_s for plan in plans]
    apart = differences(times_s, min(times_s))
    priced = any(plan.cost is not None for plan in plans)
    cells = [_cells(plan, priced=priced) for plan in plans]
    compared = sheet(
        [*cells[0]],
        ([*each.values()] for each in cells),
        left=("file", "schedule", "clusters"),
    )
    drawn = bars([_bar(*pair) for pair in zip(plans, apart, strict=True)])
    return drawn + table([compared], "the plans compared")


def _bar(plan: ReportedPlan, against_best: str) -> Bar:
    time_s = plan.price.iteration_time_s
    text = f"{rounded(time_s, plan.digits)} s, {against_best}"
    return Bar(plan.name, text, (Span("sure", 0.0, time_s),))


def _cells(plan: ReportedPlan, *, priced: bool) -> dict[str, object]:
    """Return the cells of a plan by their columns."""
    price, pipeline = plan.price, plan.plan.pipeline
    fullest = max(
        need / usable
        for need, usable in zip(price.memory_bytes, price.usable_bytes, strict=True)
    )
    cost = None if plan.cost is None else plan.cost.per_trillion_tokens
    return {
        "file": plan.name,
        "stages x micro-batches": f"{len(pipeline.stages)} x {pipeline.microbatches}",
        "schedule": named_schedule(plan.plan),
        "devices": plan.plan.devices,
        "closed form s": f"{price.closed_form_s:.4f}",
        "simulated s": f"{price.iteration_time_s:.4f}",
        "tokens/s": f"{plan.tokens / plan.price.iteration_time_s:,.0f}",
        "fullest memory": f"{fullest:.0%}",
        "idle": f"{sum(price.idle_share) / len(price.idle_share):.1%}",
        **({"cost a 1e12 tokens": amount(cost)} if priced else {}),
        "clusters": chain(plan.plan),
    }
