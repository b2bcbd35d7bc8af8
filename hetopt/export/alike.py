"""Runtimes whose stages share one (d, c, t) and one recomputation.

Megatron-LM and what builds on it, and torch.distributed.pipelining, lay all ranks out
as one mesh: every stage has the same degrees, and sends to the next rank by rank.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from hetopt.export.job import Job
from hetopt.export.launcher import Loss
from hetopt.problem.model import ATTENTION
from hetopt.problem.training import RECOMPUTE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hetopt.plan import Strategy
    from hetopt.problem.problem import Problem
    from hetopt.problem.training import Recompute

Degrees = tuple[int, int, int]


def degrees_of(strategy: Strategy) -> Degrees:
    """Return (d, c, t)."""
    return strategy.dp, strategy.cp, strategy.tp


def shared_degrees(job: Job) -> Degrees | None:
    """Return the (d, c, t) for all stages; None if no stage's would suit every stage.

    Where stages differ in nothing but how they share the same number of devices, the
    degrees of one of them may suit all: those with the least tp, then the least cp.
    """
    found = {degrees_of(stage.strategy) for stage in job.stages}
    if len({stage.strategy.devices for stage in job.stages}) > 1:
        return None
    for degrees in sorted(found, key=lambda each: each[::-1]):
        if _suits(job, degrees):
            return degrees
    return None


def shared_recompute(job: Job) -> Recompute:
    """Return what fits wherever the plan does: the most that any stage recomputes."""
    return max((stage.strategy.recompute for stage in job.stages), key=RECOMPUTE.index)


def zero_stages(job: Job) -> tuple[int, ...]:
    """Return the ZeRO stage of each pipeline stage."""
    default = job.problem.training.zero
    return tuple(
        default if stage.strategy.zero is None else stage.strategy.zero
        for stage in job.stages
    )


def whole_layers(job: Job) -> tuple[int, ...] | None:
    """Return layers per stage, a cut one with its attention; None if a stage has none.

    Exactly ``job.layers`` where no layer is cut.
    """
    if job.layers is not None:
        return job.layers
    units = job.problem.model.units
    counts = tuple(
        units[stage.first_unit : stage.end_unit].count(ATTENTION)
        for stage in job.stages
    )
    return counts if all(counts) else None


def whole_units(job: Job) -> list[tuple[int, int]]:
    """Return first and end unit of each stage with the layers of ``whole_layers``.

    Raises
    ------
    ValueError
        A stage holds no attention of its own.
    """
    layers = whole_layers(job)
    if layers is None:
        msg = "a stage holds no attention of its own"
        raise ValueError(msg)
    per_layer = 3 if job.problem.model.granularity == "block" else 1
    ends = [0, *(1 + per_layer * count for count in accumulate(layers))]
    ends[-1] += 1
    return list(pairwise(ends))


def is_one_forward_one_backward(job: Job) -> bool:
    """Whether every stage warms up as in plain 1F1B; counts beyond q do not matter."""
    stages, most = len(job.stages), job.microbatches
    return all(
        min(stage.warmup, most) == min(stages - number, most)
        for number, stage in enumerate(job.stages)
    )


def launched(job: Job, *, one_recompute: bool = True) -> Job:
    """Return the job with what ``alike_losses`` has ``instead``; as it is without any.

    Parameters
    ----------
    one_recompute
        Whether all stages recompute alike as well.
    """
    degrees = shared_degrees(job)
    assert degrees is not None
    zero = max(zero_stages(job))
    units = whole_units(job)
    stages = tuple(
        replace(
            stage,
            first_unit=units[number][0],
            end_unit=units[number][1],
            strategy=replace(
                stage.strategy,
                dp=degrees[0],
                cp=degrees[1],
                tp=degrees[2],
                recompute=shared_recompute(job)
                if one_recompute
                else stage.strategy.recompute,
                zero=zero,
            ),
            resharding="p2p" if number + 1 < len(job.stages) else None,
            unit_strategies=None,
        )
        for number, stage in enumerate(job.stages)
    )
    pipeline = replace(job.plan.pipeline, stages=stages)
    return Job.of(job.problem, replace(job.plan, pipelines=(pipeline,)))


def layer_losses(job: Job) -> Iterator[Loss]:
    """Yield what a runtime with whole layers, alike within a stage, cannot do."""
    if job.problem.model.is_decoder_only and job.layers is None:
        counts = whole_layers(job)
        yield Loss(
            what="stages that begin or end inside a layer: stages hold whole layers",
            instead=None
            if counts is None
            else f"layers per stage {_row(counts)}, each cut one with its attention",
        )
    if job.plan.per_unit:
        yield Loss(
            what="a strategy for each layer: all layers of a stage have the same",
            instead="each stage's most frequent strategy",
        )


def alike_losses(job: Job) -> Iterator[Loss]:
    """Yield what a runtime with one mesh for all stages cannot do, schedules aside."""
    model = job.problem.model
    if not model.is_decoder_only:
        yield Loss(
            what=f"model {model.name}, which is no decoder-only model of tokens",
            instead=None,
        )
    yield from layer_losses(job)
    strategies = [stage.strategy for stage in job.stages]
    if len({degrees_of(each) for each in strategies}) > 1:
        shared = shared_degrees(job)
        yield Loss(
            what="different (d, c, t) per stage, "
            + ", ".join(
                f"{degrees_of(strategies[first])} on {_stages(first, end)}"
                for first, end in job.runs
            )
            + ": all stages have the same",
            instead=None if shared is None else f"{shared} on all stages",
        )
    elif any(stage.resharding not in (None, "p2p") for stage in job.stages):
        used = sorted({stage.resharding or "p2p" for stage in job.stages})
        yield Loss(
            what=f"resharding by {', '.join(used)}: every rank sends to its peer",
            instead="p2p at every boundary",
        )
    if len(set(zero_stages(job))) > 1:
        yield Loss(
            what=f"ZeRO stages {_row(zero_stages(job))}: all stages have the same",
            instead=f"ZeRO {max(zero_stages(job))}",
        )


def heads_divide(strategy: Strategy, problem: Problem) -> bool:
    """Whether every rank of a stage has key and value heads of its own, all as many.

    hetopt's plans may copy a head to several ranks where tp exceeds their number.
    """
    return problem.model.kv_heads % strategy.tp == 0


def head_losses(job: Job, strategies: Iterable[Strategy]) -> Iterator[Loss]:
    """Yield tensor-parallel degrees that leave ranks without heads of their own.

    Parameters
    ----------
    strategies
        As they are launched.
    """
    for tp in sorted({s.tp for s in strategies if not heads_divide(s, job.problem)}):
        yield Loss(
            what=f"tp {tp} with {job.problem.model.kv_heads} key and value heads: "
            "every rank has heads of its own (to plan so, pin tp)",
            instead=None,
        )


def shared_head_losses(job: Job) -> Iterator[Loss]:
    """Yield ``head_losses`` of the degrees for all stages, if there are such."""
    degrees = shared_degrees(job)
    if degrees is not None:
        strategy = replace(job.stages[0].strategy, tp=degrees[2])
        yield from head_losses(job, [strategy])


def recompute_loss(job: Job) -> Iterator[Loss]:
    """Yield a loss if stages recompute differently."""
    if len({stage.strategy.recompute for stage in job.stages}) > 1:
        yield Loss(
            what="different recomputation per stage, "
            + ", ".join(
                f"{job.stages[first].strategy.recompute} on {_stages(first, end)}"
                for first, end in job.runs
            )
            + ": all stages do the same",
            instead=f"{shared_recompute(job)} recomputation on all stages",
        )


def _suits(job: Job, degrees: Degrees) -> bool:
    """Whether a stage's degrees could be every stage's."""
    dp, _, tp = degrees
    clusters = [
        job.problem.clusters[job.problem.cluster_index(stage.cluster)]
        for stage in job.stages
    ]
    return job.problem.training.global_batch % (job.microbatches * dp) == 0 and all(
        cluster.devices_per_node % tp == 0 and tp <= cluster.max_tp
        for cluster in clusters
    )


def _stages(first: int, end: int) -> str:
    return f"stage {first}" if end == first + 1 else f"stages {first}-{end - 1}"


def _row(values: tuple[int, ...]) -> str:
    return ", ".join(map(str, values))
