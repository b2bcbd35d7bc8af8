"""Runtimes whose stages share one (dp, cp, tp) and one recomputation.

Megatron-LM, runtimes built on it, and torch.distributed.pipelining lay all ranks out as
one mesh: every stage has the same degrees, and every rank sends to the rank of the same
coordinates on the next stage.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hetopt.export.launcher import Loss
from hetopt.export.shared.losses import (
    head_losses,
    layer_losses,
    listed,
    model_losses,
    stages_named,
)
from hetopt.problem.cluster.packing import packed
from hetopt.problem.training.choices import recompute_level

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.export.job import Degrees, Job
    from hetopt.export.launcher import Shared
    from hetopt.plans.strategy import Strategy
    from hetopt.problem.training.choices import Recompute

#: What all stages share.
ONE_MESH: tuple[Shared, ...] = ("dp", "cp", "tp", "ep", "etp", "recompute")


def degrees_of(strategy: Strategy) -> Degrees:
    """Return (dp, cp, tp)."""
    return strategy.dp, strategy.cp, strategy.tp


def shared_degrees(job: Job) -> Degrees | None:
    """Return the (dp, cp, tp) for all stages; None if no stage's suits every stage.

    If all stages have the same number of devices but share their work differently, the
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
    """Return the most that any stage recomputes, which needs the least memory."""
    return max((stage.strategy.recompute for stage in job.stages), key=recompute_level)


def launched(job: Job, *, one_recompute: bool = True) -> Job:
    """Return the job with one mesh, and if asked one recomputation, for all stages."""
    degrees = shared_degrees(job)
    assert degrees is not None
    shared = shared_recompute(job)
    used = (stage.strategy.recompute for stage in job.stages)
    return job.launched_as(
        degrees=[degrees] * len(job.stages),
        recompute=[shared if one_recompute else each for each in used],
        zero=max(job.zero_stages),
    )


def one_mesh_losses(job: Job) -> Iterator[Loss]:
    """Yield what one mesh for all stages cannot do of a plan, except schedules."""
    yield from model_losses(job.problem.model)
    yield from layer_losses(job)
    strategies = [stage.strategy for stage in job.stages]
    if len({degrees_of(each) for each in strategies}) > 1:
        shared = shared_degrees(job)
        yield Loss(
            "different (d, c, t) per stage, "
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
            f"resharding by {', '.join(used)}: every rank sends to its peer",
            instead="p2p at every boundary",
        )
    if len(set(job.zero_stages)) > 1:
        yield Loss(
            f"ZeRO stages {listed(job.zero_stages)}: all stages have the same",
            instead=f"ZeRO {max(job.zero_stages)}",
        )


def shared_head_losses(job: Job) -> Iterator[Loss]:
    """Yield ``head_losses`` of the degrees for all stages, if there are any."""
    degrees = shared_degrees(job)
    if degrees is not None:
        yield from head_losses(job, [degrees[2]])


def recompute_loss(job: Job) -> Iterator[Loss]:
    """Yield a loss if stages recompute differently."""
    if len({stage.strategy.recompute for stage in job.stages}) > 1:
        yield Loss(
            "different recomputation per stage, "
            + ", ".join(
                f"{job.stages[first].strategy.recompute} on {stages_named(first, end)}"
                for first, end in job.runs
            )
            + ": all stages do the same",
            instead=f"{shared_recompute(job)} recomputation on all stages",
        )


def expert_job_losses(job: Job) -> Iterator[Loss]:
    """Yield what one mesh for all stages cannot do of a plan with experts."""
    model, training = job.problem.model, job.problem.training
    if model.experts is None:
        return
    found = _routed_strategies(job)
    if len({(each.ep, each.etp) for each in found}) > 1:
        yield Loss(
            "different (e, x) per stage: all stages have the same (to plan so, "
            "pin ep and etp)"
        )
    if any(each.tp > 1 for each in found) and not training.sequence_parallel:
        yield Loss("routed experts with tensor and without sequence parallelism")
    if any(each.etp > 1 for each in found) and model.biases[2]:
        yield Loss(
            "experts with biases whose matrices are cut (to plan so, pin etp: 1)"
        )


def expert_degrees(job: Job) -> tuple[int, int]:
    """Return (ep, etp) of the stages that have experts; (1, 1) if none has."""
    found = _routed_strategies(job)
    return (found[0].ep, found[0].etp) if found else (1, 1)


def _routed_strategies(job: Job) -> list[Strategy]:
    """Return the strategies of the stages that have experts."""
    model = job.problem.model
    return [
        stage.strategy
        for stage in job.stages
        if any(map(model.has_experts, job.kinds_of(stage)))
    ]


def _suits(job: Job, degrees: Degrees) -> bool:
    """Whether every stage could have these degrees."""
    dp, cp, tp = degrees
    hosted = Counter(stage.cluster for stage in job.stages)
    if job.problem.training.global_batch % (job.microbatches * dp):
        return False
    for cluster in job.problem.clusters:
        fit = packed(cluster, dp * cp * tp, tp)
        most = 0 if fit is None or tp > cluster.max_tp else fit.stages
        if hosted[cluster.name] > most:
            return False
    return True
