"""Runtimes whose stages share one (d, c, t) and one recomputation.

Megatron-LM and what builds on it, and torch.distributed.pipelining, lay all ranks out
as one mesh: every stage has the same degrees, and sends to the next rank by rank.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.export.job import Job
from hetopt.export.launcher import Loss
from hetopt.export.prose import listed, stages_named
from hetopt.export.shared_losses import head_losses, layer_losses, model_losses
from hetopt.problem.training import RECOMPUTE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.plan import Strategy
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


def launched(job: Job, *, one_recompute: bool = True) -> Job:
    """Return the job with what ``alike_losses`` has ``instead``; as it is without any.

    Parameters
    ----------
    one_recompute
        Whether all stages recompute alike as well.
    """
    degrees = shared_degrees(job)
    assert degrees is not None
    zero = max(job.zero_stages)
    units = job.whole_units()
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


def alike_losses(job: Job) -> Iterator[Loss]:
    """Yield what a runtime with one mesh for all stages cannot do, schedules aside."""
    yield from model_losses(job.problem.model)
    yield from layer_losses(job)
    strategies = [stage.strategy for stage in job.stages]
    if len({degrees_of(each) for each in strategies}) > 1:
        shared = shared_degrees(job)
        yield Loss(
            what="different (d, c, t) per stage, "
            + ", ".join(
                f"{degrees_of(strategies[first])} on {stages_named(first, end)}"
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
    if len(set(job.zero_stages)) > 1:
        yield Loss(
            what=f"ZeRO stages {listed(job.zero_stages)}: all stages have the same",
            instead=f"ZeRO {max(job.zero_stages)}",
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
                f"{job.stages[first].strategy.recompute} on {stages_named(first, end)}"
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
