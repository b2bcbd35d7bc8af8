"""The section that compares several plans."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.report.drawing.sheet import sheet
from hetopt.report.page.bars import Bar, Span, bars
from hetopt.report.page.markup import table
from hetopt.report.rows import chain
from hetopt.report.summary import amount, in_chunks

if TYPE_CHECKING:
    from hetopt.report.page.contents import Contents, ReportedPlan

_COLUMNS = (
    "file",
    "p",
    "q",
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
    best_s = min(plan.price.iteration_time_s for plan in plans)
    priced = any(plan.cost is not None for plan in plans)
    names = (*_COLUMNS[:-1], *(["cost a 1e12 tokens"] if priced else []), _COLUMNS[-1])
    cells = sheet(
        names,
        (_cells(plan, priced=priced) for plan in plans),
        left=("file", "schedule", "clusters"),
    )
    drawn = bars([_bar(plan, best_s) for plan in plans])
    return drawn + table([cells], "the plans compared")


def _bar(plan: ReportedPlan, best_s: float) -> Bar:
    time_s = plan.price.iteration_time_s
    more = "fastest" if time_s == best_s else f"{time_s / best_s - 1:+.1%}"
    return Bar(plan.name, f"{time_s:.4g} s, {more}", (Span("sure", 0.0, time_s),))


def _cells(plan: ReportedPlan, *, priced: bool) -> list[object]:
    price, pipeline = plan.price, plan.plan.pipeline
    fullest = max(
        need / usable
        for need, usable in zip(price.memory_bytes, price.usable_bytes, strict=True)
    )
    cost = None if plan.cost is None else plan.cost.per_trillion_tokens
    return [
        plan.name,
        len(pipeline.stages),
        pipeline.microbatches,
        in_chunks(plan.plan.schedule, plan.plan.chunks),
        plan.plan.devices,
        f"{price.closed_form_s:.4f}",
        f"{price.iteration_time_s:.4f}",
        f"{plan.tokens_per_s:,.0f}",
        f"{fullest:.0%}",
        f"{sum(price.idle_share) / len(price.idle_share):.1%}",
        *([amount(cost)] if priced else []),
        chain(plan.plan),
    ]
