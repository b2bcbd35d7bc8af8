"""Draws rows and lines as text, with rich."""

from __future__ import annotations

import io
import os
import shutil
from typing import IO, TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from hetopt.report.rows import boundary_rows, plan_rows, stage_rows
from hetopt.report.summary import summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

    from hetopt.plans import Plan
    from hetopt.pricing import Price
    from hetopt.problem.model import Model
    from hetopt.result import PricedPlan, Result
    from hetopt.schedule.simulator import Simulation

#: Columns of output that goes to a file or a pipe: wide enough to break no row.
PIPE_WIDTH = 200
#: Terminals narrower than this get the stage table without what stages hold.
WIDE = 110
BYTES_PER_GB = 1e9


def is_terminal(stream: IO[str] | None) -> bool:
    """Whether a person with a capable terminal looks at ``stream``."""
    return (
        stream is not None
        and not stream.closed
        and stream.isatty()
        and os.environ.get("TERM") not in ("dumb", "unknown")
    )


def width_of(stream: IO[str] | None) -> int:
    """Return the columns that ``stream`` has room for."""
    if is_terminal(stream):
        return max(shutil.get_terminal_size().columns, 40)
    return PIPE_WIDTH


def draw(parts: Iterable[RenderableType], stream: IO[str] | None) -> str:
    """Return ``parts`` as text that suits ``stream``; colour only on a terminal."""
    terminal = is_terminal(stream)
    console = Console(
        file=io.StringIO(),
        force_terminal=terminal,
        color_system="standard" if terminal else None,
        no_color=not terminal or "NO_COLOR" in os.environ or None,
        width=width_of(stream),
        emoji=False,
        highlight=False,
        markup=False,
    )
    with console.capture() as capture:
        for part in parts:
            console.print(part, soft_wrap=isinstance(part, str))
    lines = capture.get().split("\n")
    return "\n".join(line.rstrip() for line in lines)


def table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, left: Sequence[str] = ()
) -> Table:
    """Return a table whose columns are right-aligned, but for those in ``left``."""
    drawn = Table(
        box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False
    )
    for name in columns:
        drawn.add_column(
            name, justify="left" if name in left else "right", overflow="fold"
        )
    for row in rows:
        drawn.add_row(*(str(cell) for cell in row))
    return drawn


def labelled(lines: Iterable[tuple[str, str]]) -> Table:
    """Return lines as two columns without a head."""
    drawn = Table(box=None, show_header=False, pad_edge=False)
    drawn.add_column(no_wrap=True, style="bold")
    drawn.add_column(overflow="fold")
    for label, text in lines:
        drawn.add_row(label, text)
    return drawn


def stage_table(model: Model, plan: Plan, price: Price, *, wide: bool) -> Table:
    """Return the table of stages; what each holds is only in the wide one."""
    columns = [
        "stage",
        "cluster",
        "units",
        "holds",
        "d,c,t",
        "recom-\npute",
        "de-\nvices",
        "memory\nGB",
        "fwd/bwd\nms",
        "warm-\nups",
        "idle",
    ]
    rows: list[list[Any]] = [
        [
            row.stage,
            row.cluster,
            f"{row.first_unit}-{row.end_unit - 1}",
            row.contents,
            f"{row.dp},{row.cp},{row.tp}",
            row.recompute,
            row.devices,
            f"{row.memory_bytes / BYTES_PER_GB:.1f}"
            f" of {row.usable_bytes / BYTES_PER_GB:.1f}",
            f"{row.forward_ms:.2f}/{row.backward_ms:.2f}",
            row.warmup,
            f"{row.idle_share:.1%}",
        ]
        for row in stage_rows(model, plan, price)
    ]
    if plan.per_unit:
        _name_strategies(model, plan, price, columns, rows)
    if not wide:
        holds = columns.index("holds")
        del columns[holds]
        for cells in rows:
            del cells[holds]
    left = ("cluster", "holds", "recom-\npute", "strategies of units")
    return table(columns, rows, left=left)


def _name_strategies(
    model: Model, plan: Plan, price: Price, columns: list[str], rows: list[list[Any]]
) -> None:
    """Put the strategies of the units in the place of the stage's."""
    degrees, recompute = columns.index("d,c,t"), columns.index("recom-\npute")
    columns[degrees] = "strategies of units"
    del columns[recompute]
    for cells, row in zip(rows, stage_rows(model, plan, price), strict=True):
        cells[degrees] = row.strategies
        del cells[recompute]


def boundary_table(plan: Plan, price: Price) -> Table:
    """Return the table of boundaries between stages."""
    return table(
        ("boundary", "clusters", "resharding", "transfer ms", "occupancy ms"),
        (
            (
                f"{row.stage}-{row.stage + 1}",
                row.clusters[0]
                if row.clusters[0] == row.clusters[1]
                else " -> ".join(row.clusters),
                row.resharding,
                f"{row.transfer_ms:.3f}",
                f"{row.occupancy_ms:.3f}",
            )
            for row in boundary_rows(plan, price)
        ),
        left=("clusters", "resharding"),
    )


def alternatives_table(plans: tuple[PricedPlan, ...]) -> Table:
    """Return the table that compares the reported plan with the next best."""
    return table(
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


def plan_report(
    model: Model, result: Result, best: PricedPlan, price: Price, *, wide: bool = True
) -> list[RenderableType]:
    """Return everything ``hetopt plan`` prints about a result with a plan."""
    parts: list[RenderableType] = [stage_table(model, best.plan, price, wide=wide)]
    if len(best.plan.pipeline.stages) > 1:
        parts += [boundary_table(best.plan, price)]
    parts += [labelled(summary(result, best))]
    if result.alternatives:
        parts += ["", alternatives_table((best, *result.alternatives))]
    return parts


def simulation_report(
    plan: Plan, price: Price, run: Simulation
) -> list[RenderableType]:
    """Return what ``hetopt simulate`` prints: stages, and the critical path."""
    critical = run.critical_path()
    stages = table(
        ("stage", "cluster", "busy s", "idle", "first forward s", "last backward s"),
        (
            (
                index,
                stage.cluster,
                f"{activity.busy_ns / 1e9:.4f}",
                f"{activity.idle_share:.1%}",
                f"{run.forward_start_ns[index, 0] / 1e9:.4f}",
                f"{run.backward_end_ns[index, -1] / 1e9:.4f}",
            )
            for index, (stage, activity) in enumerate(
                zip(plan.pipeline.stages, run.stages, strict=True)
            )
        ),
        left=("cluster",),
    )
    path = ", ".join(
        f"{kind} {time / 1e9:.4f} s"
        for kind, time in sorted(critical.duration_ns().items())
        if time
    )
    return [
        stages,
        labelled(
            (
                ("simulated", f"{price.iteration_time_s:.6f} s"),
                ("closed form", f"{price.closed_form_s:.6f} s"),
                ("critical path", f"{len(critical)} events: {path}"),
            )
        ),
    ]
