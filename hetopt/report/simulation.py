"""What ``hetopt simulate`` tells: where the time of an iteration goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.cost.table import TICK_S
from hetopt.report.rows import simulation_rows
from hetopt.report.sheet import labelled, sheet
from hetopt.report.summary import cost_lines

if TYPE_CHECKING:
    from hetopt.money import Cost
    from hetopt.plans import Plan
    from hetopt.pricing import Price
    from hetopt.report.sheet import Part
    from hetopt.schedule.simulator import CriticalPath, Simulation
    from hetopt.schedule.times import EventKind

SIMULATION_SCHEMA = "hetopt-simulation/1"


def simulation_report(
    plan: Plan, price: Price, run: Simulation, cost: Cost | None = None
) -> list[Part]:
    """Return what ``hetopt simulate`` prints: stages, and the critical path."""
    critical = run.critical_path()
    stages = sheet(
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
    path = ", ".join(
        f"{kind} {time_s:.4f} s" for kind, time_s in sorted(_parts(critical).items())
    )
    return [
        stages,
        labelled(
            (
                ("simulated", f"{price.iteration_time_s:.6f} s"),
                ("closed form", f"{price.closed_form_s:.6f} s"),
                *cost_lines(cost),
                ("critical path", f"{len(critical)} events: {path}"),
            )
        ),
    ]


def simulation_to_json(
    plan: Plan, price: Price, run: Simulation, cost: Cost | None = None
) -> dict[str, Any]:
    """Return the run as plain JSON data; see ``hetopt schema simulation``."""
    critical = run.critical_path()
    return {
        "schema": SIMULATION_SCHEMA,
        "problem_digest": plan.problem_digest,
        "table_digest": plan.table_digest,
        "iteration_time_s": price.iteration_time_s,
        "closed_form_s": price.closed_form_s,
        **({} if cost is None else {"cost": cost.to_json()}),
        "stages": [row._asdict() for row in simulation_rows(plan, run)],
        "critical_path": {"events": len(critical), "duration_s": _parts(critical)},
    }


def _parts(critical: CriticalPath) -> dict[EventKind, float]:
    """Return the seconds of every kind of event that takes any."""
    return {
        kind: time_ns * TICK_S
        for kind, time_ns in critical.duration_ns().items()
        if time_ns
    }
