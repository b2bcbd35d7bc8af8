"""The report of ``hetopt simulate``: how the time of an iteration is spent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from hetopt.base.words import counted
from hetopt.cost.table.ticks import TICK_S
from hetopt.report.drawing.sheet import labelled, sheet
from hetopt.report.rows import simulation_rows
from hetopt.report.summary import cost_lines, share_line
from hetopt.schedule.run import EventKind

if TYPE_CHECKING:
    from hetopt.plans.plan import Plan
    from hetopt.pricing.price import Price
    from hetopt.pricing.several import SeveralPrice
    from hetopt.report.drawing.sheet import Part, Sheet
    from hetopt.results.money import Cost
    from hetopt.schedule.run import CriticalEvent, Simulation

SIMULATION_SCHEMA = "hetopt-simulation/1"


def simulation_report(
    plan: Plan, price: Price, run: Simulation, cost: Cost | None = None
) -> list[Part]:
    """Return what ``hetopt simulate`` prints: stages, and the critical path."""
    return [
        simulated_stages(plan, run),
        labelled(
            (
                ("simulated", f"{price.iteration_time_s:.6f} s"),
                ("closed form", f"{price.closed_form_s:.6f} s"),
                *cost_lines(cost),
                ("critical path", _path(run.critical_path())),
            )
        ),
    ]


def simulated_stages(plan: Plan, run: Simulation) -> Sheet:
    """Return the table of the stages' activity in a pipeline."""
    return sheet(
        ("stage", "cluster", "busy s", "idle", "first forward s", "last backward s"),
        (
            (
                row.stage,
                row.cluster,
                f"{row.busy_s:.4f}",
                f"{row.idle_share:.1%}",
                f"{row.first_forward_s:.4f}",
                f"{row.last_backward_s:.4f}",
            )
            for row in simulation_rows(plan, run)
        ),
        left=("cluster",),
    )


def several_simulation_report(plan: Plan, price: SeveralPrice) -> list[Part]:
    """Return what ``hetopt simulate`` prints of several pipelines."""
    parts: list[Part] = []
    ends = []
    runs = zip(plan.pipelines, price.prices, price.simulations, strict=True)
    for number, (pipeline, own, run) in enumerate(runs):
        parts += [
            share_line(number, pipeline),
            simulated_stages(plan.alone(number), run),
        ]
        ends.append(
            (
                f"pipeline {number}",
                f"{own.iteration_time_s:.6f} s simulated by itself, "
                f"{own.closed_form_s:.6f} s in closed form; "
                f"critical path: {_path(run.critical_path())}",
            )
        )
    whole = (
        ("simulated", f"{price.iteration_time_s:.6f} s, with gradients added up"),
        ("closed form", f"{price.closed_form_s:.6f} s"),
    )
    return [*parts, labelled((*whole, *ends))]


def _path(critical: tuple[CriticalEvent, ...]) -> str:
    path = ", ".join(
        f"{kind} {time_s:.4f} s" for kind, time_s in sorted(_parts(critical).items())
    )
    return f"{counted(len(critical), 'event')}: {path}"


def simulation_to_json(
    plan: Plan, price: Price, run: Simulation, cost: Cost | None = None
) -> dict[str, Any]:
    """Return the run as plain JSON data; see ``hetopt schema simulation``."""
    return {
        **_head(plan, price),
        **({} if cost is None else {"cost": cost.to_json()}),
        **_run_to_json(plan, run),
    }


def several_simulation_to_json(plan: Plan, price: SeveralPrice) -> dict[str, Any]:
    """Return the runs of several pipelines as plain JSON data."""
    return {
        **_head(plan, price),
        "pipelines": [
            {
                "iteration_time_s": own.iteration_time_s,
                "closed_form_s": own.closed_form_s,
                **_run_to_json(plan.alone(number), run),
            }
            for number, (own, run) in enumerate(
                zip(price.prices, price.simulations, strict=True)
            )
        ],
    }


def _head(plan: Plan, price: Price | SeveralPrice) -> dict[str, Any]:
    return {
        "schema": SIMULATION_SCHEMA,
        "problem_digest": plan.problem_digest,
        "table_digest": plan.table_digest,
        "iteration_time_s": price.iteration_time_s,
        "closed_form_s": price.closed_form_s,
    }


def _run_to_json(plan: Plan, run: Simulation) -> dict[str, Any]:
    critical = run.critical_path()
    return {
        "stages": [row._asdict() for row in simulation_rows(plan, run)],
        "critical_path": {"events": len(critical), "duration_s": _parts(critical)},
    }


def _parts(critical: tuple[CriticalEvent, ...]) -> dict[EventKind, float]:
    """Return the seconds of every kind of event, without kinds that take none."""
    found: dict[EventKind, int] = {}
    for event in critical:
        took_ns = event.end_ns - event.start_ns
        if took_ns:
            found[event.kind] = found.get(event.kind, 0) + took_ns
    return {kind: found[kind] * TICK_S for kind in get_args(EventKind) if kind in found}
