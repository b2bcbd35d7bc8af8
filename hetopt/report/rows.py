"""Rows of tables about a plan, as plain data: numbers with units in their names."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Annotated, NamedTuple

from annotated_types import Ge, Le

from hetopt.base.fields import Seconds, Whole
from hetopt.base.file_record import FileRecord
from hetopt.cost.boundaries.uses import boundary_use
from hetopt.cost.chunks import placed_units
from hetopt.cost.table.ticks import TICK_S
from hetopt.plans.strategy import DEGREES
from hetopt.problem.model.kinds import EMBEDDING, END_KINDS, HEAD, LAYER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hetopt.plans.plan import Pipeline, Plan, Stage
    from hetopt.plans.strategy import Strategy
    from hetopt.pricing.price import Price
    from hetopt.problem.model.model import Model
    from hetopt.problem.problem import Problem
    from hetopt.schedule.run import Simulation

NS_PER_MS = 1_000_000


class StageRow(NamedTuple):
    """One stage of a plan; ``idle_share`` is that of the simulated iteration, 0 to 1.

    ``strategy`` is as ``mesh`` returns it, or lists those of its units in order:
    ``dp2-tp2 x12, fsdp2-tp2 x4``. Without the model both contents are empty; without
    the price memory, times and the idle share are 0.
    """

    stage: int
    cluster: str
    first_unit: int
    end_unit: int
    contents: str
    short_contents: str
    strategy: str
    devices: int
    memory_bytes: int
    usable_bytes: int
    forward_ms: float
    backward_ms: float
    warmup: int
    idle_share: float


class BoundaryRow(NamedTuple):
    """One boundary between two stages; times of one micro-batch in one direction.

    Between clusters, ``connections`` carry ``messages`` each and share
    ``bytes_per_s``; None inside a cluster, and if the problem is not given.
    """

    stage: int
    clusters: tuple[str, str]
    resharding: str
    transfer_ms: float
    occupancy_ms: float
    connections: int | None = None
    messages: float | None = None
    bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationRow(FileRecord):
    """One stage's activity in a simulated iteration, which begins at 0."""

    stage: Whole
    cluster: str
    busy_s: Seconds
    idle_share: Annotated[float, Ge(0.0), Le(1.0)]
    first_forward_s: Seconds
    last_backward_s: Seconds


def stage_rows(
    model: Model | None, plan: Plan, price: Price | None
) -> tuple[StageRow, ...]:
    """Return one row per stage, in pipeline order; see ``StageRow``."""
    kinds: tuple[str, ...] = ()
    if model is not None:
        kinds, _ = placed_units(model, plan.schedule, plan.chunks, plan.cuts)
    held = [
        [kinds[first:end] for first, end in _ranges(plan, stage)]
        for stage in plan.pipeline.stages
    ]
    return tuple(
        StageRow(
            stage=index,
            cluster=stage.cluster,
            first_unit=stage.first_unit,
            end_unit=stage.end_unit,
            contents=_listed(map(contents, held[index])),
            short_contents=_listed(map(short_contents, held[index])) if kinds else "",
            strategy=strategies(stage.unit_strategies or ()) or mesh(stage.strategy),
            devices=stage.strategy.devices,
            memory_bytes=price.memory_bytes[index] if price else 0,
            usable_bytes=price.usable_bytes[index] if price else 0,
            forward_ms=price.times.forward_ns[index] / NS_PER_MS if price else 0.0,
            backward_ms=price.times.backward_ns[index] / NS_PER_MS if price else 0.0,
            warmup=stage.warmup,
            idle_share=price.idle_share[index] if price else 0.0,
        )
        for index, stage in enumerate(plan.pipeline.stages)
    )


def _ranges(plan: Plan, stage: Stage) -> tuple[tuple[int, int], ...]:
    """Return first and end unit of what a stage holds; of each chunk if they differ."""
    if plan.cuts is None:
        return ((stage.first_unit, stage.end_unit),)
    return plan.chunk_units(stage)


def _listed(chunks: Iterable[str]) -> str:
    """Return what chunks hold, each once where it repeats: ``emb+1, 2 x3``."""
    runs = [(text, len([*run])) for text, run in groupby(chunks)]
    return ", ".join(text if n == 1 else f"{text} x{n}" for text, n in runs)


def boundary_rows(
    plan: Plan, price: Price, problem: Problem | None = None
) -> tuple[BoundaryRow, ...]:
    """Return one row per boundary, numbered by the stage before it."""
    times = price.times
    rows = []
    for index, (stage, after) in enumerate(pairwise(plan.pipeline.stages)):
        row = BoundaryRow(
            stage=index,
            clusters=(stage.cluster, after.cluster),
            resharding=stage.resharding or "",
            transfer_ms=times.every_transfer_ns[index] / NS_PER_MS,
            occupancy_ms=times.occupancy_ns[index] // times.merged / NS_PER_MS,
        )
        use = None if problem is None else boundary_use(problem, stage, after)
        if use is not None:
            row = row._replace(
                connections=int(use.connections[0]),
                messages=float(use.messages[0]),
                bytes_per_s=float(use.bytes_per_s[0]),
            )
        rows.append(row)
    return tuple(rows)


def simulation_rows(plan: Plan, run: Simulation) -> tuple[SimulationRow, ...]:
    """Return one row per stage, in pipeline order."""
    return tuple(
        SimulationRow(
            stage=index,
            cluster=stage.cluster,
            busy_s=busy_ns * TICK_S,
            idle_share=idle_share,
            first_forward_s=int(run.starts_ns["F"][index, 0]) * TICK_S,
            last_backward_s=int(run.ends_ns["B"][index].max()) * TICK_S,
        )
        for index, (stage, busy_ns, idle_share) in enumerate(
            zip(plan.pipeline.stages, run.busy_ns, run.idle_share, strict=True)
        )
    )


def chain(plan: Plan) -> str:
    """Return the clusters in pipeline order: ``h20 1 stage dp2 tp4 -> a100 ...``.

    Between several pipelines there is a ``|``.
    """
    return " | ".join(map(_chain, plan.pipelines))


def _chain(pipeline: Pipeline) -> str:
    parts = []
    hosted = groupby(pipeline.stages, key=lambda stage: (stage.cluster, stage.strategy))
    for (cluster, strategy), stages in hosted:
        number = len(list(stages))
        text = f"{cluster} {number} stage{'s'[: number > 1]} {mesh(strategy)}"
        parts.append(text + ("" if strategy.recompute == "none" else " recompute"))
    return " -> ".join(parts)


def of_each(plan: Plan, number: Callable[[Pipeline], int]) -> str:
    """Return a number of every pipeline of a plan: ``4 + 2``."""
    return " + ".join(str(number(each)) for each in plan.pipelines)


def mesh(strategy: Strategy) -> str:
    """Return the degrees above 1 of a strategy, and how much it recomputes, if any."""
    degrees = [(name, getattr(strategy, name)) for name in DEGREES]
    text = " ".join(f"{name}{degree}" for name, degree in degrees if degree > 1)
    text = text or "dp1"
    return text if strategy.recompute == "none" else f"{text} {strategy.recompute}"


def strategies(of_units: Iterable[Strategy]) -> str:
    """Return strategies of consecutive units; equal ones are merged, with a count."""
    runs = [
        (label, len(list(run))) for label, run in groupby(s.label for s in of_units)
    ]
    return ", ".join(label if n == 1 else f"{label} x{n}" for label, n in runs)


def contents(kinds: tuple[str, ...]) -> str:
    """Return the number of units of each kind: ``embedding + 5 layers``."""
    counts: dict[str, int] = {}
    for kind in kinds:
        counts[kind] = counts.get(kind, 0) + 1
    return " + ".join(
        kind if number == 1 else f"{number} {kind}{'s' if kind == LAYER else ''}"
        for kind, number in counts.items()
    )


def short_contents(kinds: tuple[str, ...]) -> str:
    """Return the number of units between the model's ends: ``emb+5``, ``3+head``."""
    parts = ["emb"] if EMBEDDING in kinds else []
    parts.append(str(sum(kind not in END_KINDS for kind in kinds)))
    return "+".join(parts + (["head"] if HEAD in kinds else []))
