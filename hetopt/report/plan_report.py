"""The tables and lines of reports about plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.report.drawing.sheet import labelled, sheet
from hetopt.report.rows import boundary_rows, plan_rows, stage_rows
from hetopt.report.summary import in_chunks, offloads, share_line, summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.plans.plan import Plan
    from hetopt.pricing.price import Price
    from hetopt.problem.model.model import Model
    from hetopt.problem.problem import Problem
    from hetopt.report.drawing.sheet import Part, Sheet
    from hetopt.report.rows import StageRow
    from hetopt.results.per_schedule import ScheduleBound
    from hetopt.results.priced_plan import PricedPlan
    from hetopt.results.result import Result

BYTES_PER_GB = 1e9

#: Headings that break at soft hyphens if the numbers below are short.
_RECOMPUTE, _DEVICES = "recom\u00adpute", "de\u00advices"
_CONNECTIONS, _MESSAGES = "connec\u00adtions", "messages each"


def stage_table(
    plan: Plan, *, model: Model | None = None, price: Price | None = None
) -> Sheet:
    """Return the table of stages.

    Parameters
    ----------
    model
        None leaves out the contents of stages.
    price
        None leaves out memory and times.
    """
    rows = stage_rows(model, plan, price)
    columns: list[tuple[str, Sequence[Any]]] = [
        ("stage", [row.stage for row in rows]),
        ("cluster", [row.cluster for row in rows]),
        ("units", [f"{row.first_unit}-{row.end_unit - 1}" for row in rows]),
    ]
    if model is not None:
        columns.append(("holds", [row.contents for row in rows]))
    if plan.per_unit:
        columns.append(("strategies of units", [row.strategies for row in rows]))
    else:
        columns += [
            ("d,c,t", [f"{row.dp},{row.cp},{row.tp}" for row in rows]),
        ]
        if any(row.ep * row.etp > 1 for row in rows):
            columns.append(("e,x", [f"{row.ep},{row.etp}" for row in rows]))
        columns.append((_RECOMPUTE, [row.recompute for row in rows]))
    columns.append((_DEVICES, [row.devices for row in rows]))
    if price is not None:
        columns += [
            ("memory GB", [_memory(row) for row in rows]),
            (
                "fwd/bwd ms",
                [f"{row.forward_ms:.2f}/{row.backward_ms:.2f}" for row in rows],
            ),
        ]
    columns.append(("warm-ups", [row.warmup for row in rows]))
    if price is not None:
        columns.append(("idle", [f"{row.idle_share:.1%}" for row in rows]))
    return sheet(
        [name for name, _ in columns],
        zip(*(cells for _, cells in columns), strict=True),
        left=("cluster", "holds", _RECOMPUTE, "strategies of units"),
        optional=("holds",),
    )


def stage_tables(
    plan: Plan,
    *,
    model: Model | None = None,
    prices: Sequence[Price] | None = None,
) -> list[Part]:
    """Return the tables of stages of all pipelines, each with a line on its share.

    Parameters
    ----------
    model
        See ``stage_table``.
    prices
        One for each pipeline; None leaves out memory and times.
    """
    known = prices or (None,) * len(plan.pipelines)
    if len(plan.pipelines) == 1 and plan.pipeline.mix is None:
        return [stage_table(plan, model=model, price=known[0])]
    parts: list[Part] = []
    for number, (pipeline, price) in enumerate(zip(plan.pipelines, known, strict=True)):
        own = plan.alone(number)
        parts += [
            share_line(number, pipeline),
            stage_table(own, model=model, price=price),
        ]
    return parts


def _memory(row: StageRow) -> str:
    return (
        f"{row.memory_bytes / BYTES_PER_GB:.1f} of "
        f"{row.usable_bytes / BYTES_PER_GB:.1f}"
    )


def boundary_table(
    plan: Plan, price: Price, *, problem: Problem | None = None
) -> Sheet:
    """Return the table of boundaries between stages.

    Parameters
    ----------
    problem
        None leaves out the connections that carry a boundary.
    """
    rows = boundary_rows(plan, price, problem)
    columns: list[tuple[str, Sequence[Any]]] = [
        ("boundary", [f"{row.stage}-{row.stage + 1}" for row in rows]),
        ("clusters", [" -> ".join(dict.fromkeys(row.clusters)) for row in rows]),
        ("resharding", [row.resharding for row in rows]),
    ]
    if any(row.connections for row in rows):
        columns += [
            (
                _CONNECTIONS,
                ["" if not row.connections else row.connections for row in rows],
            ),
            (
                _MESSAGES,
                ["" if row.messages is None else f"{row.messages:g}" for row in rows],
            ),
            (
                "shared Gbps",
                [
                    "" if row.bytes_per_s is None else f"{row.bytes_per_s * 8e-9:.4g}"
                    for row in rows
                ],
            ),
        ]
    columns += [
        ("transfer ms", [f"{row.transfer_ms:.3f}" for row in rows]),
        ("occupancy ms", [f"{row.occupancy_ms:.3f}" for row in rows]),
    ]
    return sheet(
        [name for name, _ in columns],
        zip(*(cells for _, cells in columns), strict=True),
        left=("clusters", "resharding"),
    )


def alternatives_table(plans: tuple[PricedPlan, ...]) -> Sheet:
    """Return the table that compares the reported plan with the next best."""
    return sheet(
        ("rank", "p", "q", "devices", "closed form s", "simulated s", "clusters"),
        (
            (
                row.rank,
                row.stages,
                row.microbatches,
                row.devices,
                f"{row.closed_form_s:.4f}",
                f"{row.iteration_time_s:.4f}",
                row.clusters,
            )
            for row in plan_rows(plans)
        ),
        left=("clusters",),
    )


def schedules_table(schedules: Sequence[ScheduleBound]) -> Sheet:
    """Return the table of results for each schedule that was searched."""
    return sheet(
        ("schedule", "status", "best plan s", "lower bound s", "search s"),
        (
            (
                in_chunks(each.schedule, each.chunks),
                each.status,
                _seconds(each.objective_s),
                _seconds(each.lower_bound_s),
                f"{each.search_time_s:.1f}",
            )
            for each in schedules
            if each.status != "passed-over"
        ),
        left=("schedule", "status"),
    )


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def plan_report(
    result: Result,
    best: PricedPlan,
    *,
    problem: Problem | None = None,
    prices: Sequence[Price] | None = None,
    notes: Sequence[str] = (),
) -> list[Part]:
    """Return everything that ``hetopt plan`` prints about a result with a plan.

    Parameters
    ----------
    problem, prices
        Without them the report has only what the result contains; one price for each
        pipeline.
    notes
        Notes on the latencies, a line each.
    """
    model, plan = None if problem is None else problem.model, best.plan
    parts = stage_tables(plan, model=model, prices=prices)
    alike = len(plan.pipelines) == 1 and plan.pipeline.mix is None
    if prices is not None and alike and len(plan.pipeline.stages) > 1:
        parts += [boundary_table(plan, prices[0], problem=problem)]
    parts += [labelled(summary(result, best)), *notes]
    if problem is not None:
        used = {s.cluster for each in plan.pipelines for s in each.stages}
        parts += offloads(own for own in problem.clusters if own.name in used)
    if result.schedules:
        parts += ["", schedules_table(result.schedules)]
    if result.alternatives:
        parts += ["", alternatives_table((best, *result.alternatives))]
    return parts
