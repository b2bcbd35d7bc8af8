"""What FlagScale cannot do of a plan, and the plan that it runs instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.export.launcher import Loss
from hetopt.export.shared import one_mesh
from hetopt.export.shared.kernels import NO_SEQUENCE_PARALLEL
from hetopt.export.shared.losses import (
    boundary_losses,
    by_stage,
    exchange_losses,
    head_losses,
    heads_divide,
    layer_losses,
    listed,
    model_losses,
    stages_named,
    warm_up_losses,
)
from hetopt.export.shared.megatron.architecture import flagscale_model
from hetopt.export.shared.megatron.common import limit_losses, megatron_losses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.export.job import Degrees, Job
    from hetopt.plans.strategy import Strategy
    from hetopt.problem.problem import Problem


def losses(job: Job) -> Iterator[Loss]:
    """Yield everything of a job that FlagScale cannot do."""
    if job.plan.chunks > 1:
        yield from megatron_losses(job, flagscale_model)
        yield from exchange_losses(job.problem.training.moe)
        return
    yield from flagscale_losses(job.problem)
    yield from model_losses(job.problem.model)
    yield from layer_losses(job)
    yield from _strategy_losses(job)
    yield from _recompute_losses(job)
    yield from warm_up_losses(job)
    yield from _sequence_losses(job)
    yield from _expert_losses(job)
    yield from _state_losses(job)
    yield from boundary_losses(
        job,
        lambda strategy: (strategy.dp, strategy.cp * strategy.tp),
        "device sends each receiver its part",
    )


def flagscale_losses(problem: Problem) -> Iterator[Loss]:
    """Yield what FlagScale cannot do of a problem under any plan."""
    yield from limit_losses(problem, flagscale_model)
    yield from exchange_losses(problem.training.moe)


def spreads_experts(strategy: Strategy) -> bool:
    """Whether ep exceeds 1, which FlagScale has on all meshes or on none."""
    return strategy.ep > 1


def fits(strategy: Strategy, problem: Problem) -> bool:
    """Whether a stage may have a strategy, regardless of the other stages."""
    return heads_divide(strategy, problem) and not _expert_fault(strategy, problem)


def launched(job: Job) -> Job:
    """Return the job with the ``instead`` of every loss; ValueError if one has none."""
    if job.plan.chunks > 1:
        return one_mesh.launched(job)
    mixed = _mixes_selective(job)
    return job.launched_as(
        degrees=filter(None, _all_degrees(job)),
        recompute=(
            "full" if mixed and policy == "selective" else policy
            for policy in (stage.strategy.recompute for stage in job.stages)
        ),
        zero=int(shards_optimizer(job)),
    )


def shards_optimizer(job: Job) -> bool:
    """Whether the distributed optimizer is on, which shards Adam's states only."""
    return (
        max(job.zero_stages) > 0
        and job.problem.training.optimizer == "adam"
        and not _ends_do_not_divide(job)
    )


def _all_degrees(job: Job) -> list[Degrees | None]:
    return [_degrees(job, number) for number in range(len(job.stages))]


def _degrees(job: Job, number: int) -> Degrees | None:
    """Return a stage's degrees with its cp moved into dp or tp; None if neither can.

    dp takes it if the micro-batch has a sequence for each replica, else tp.
    """
    stage, training = job.stages[number], job.problem.training
    dp, cp, tp = stage.strategy.dp, stage.strategy.cp, stage.strategy.tp
    if cp == 1 or training.global_batch % (job.microbatches * dp * cp) == 0:
        return dp * cp, 1, tp
    if job.permits_tp(stage, tp * cp) and training.seq_len % (tp * cp) == 0:
        return dp, 1, tp * cp
    return None


def _strategy_losses(job: Job) -> Iterator[Loss]:
    tokens = job.problem.training.seq_len
    for first, end in job.runs:
        strategy, other = job.stages[first].strategy, _degrees(job, first)
        if strategy.cp > 1:
            yield Loss(
                f"cp {strategy.cp} on {stages_named(first, end)}: cp is 1",
                instead=None
                if other is None
                else f"dp {other[0]}, cp 1, tp {other[2]} there",
            )
        tp = strategy.tp if other is None else other[2]
        if tokens % tp:
            yield Loss(
                f"tp {tp} on {stages_named(first, end)}: sequence parallelism "
                f"needs a divisor of the {tokens} tokens of a sequence"
            )
    yield from head_losses(job, [found[2] for found in _all_degrees(job) if found])


def _recompute_losses(job: Job) -> Iterator[Loss]:
    if _mixes_selective(job):
        named = ", ".join(
            stages_named(first, end)
            for first, end in job.runs
            if job.stages[first].strategy.recompute == "selective"
        )
        yield Loss(
            f"selective recomputation on {named} only: a per-stage setting is "
            "full or none",
            instead=f"full recomputation on {named}",
        )


def _mixes_selective(job: Job) -> bool:
    used = {stage.strategy.recompute for stage in job.stages}
    return "selective" in used and len(used) > 1


def _sequence_losses(job: Job) -> Iterator[Loss]:
    tps = sorted({found[2] for found in _all_degrees(job) if found})
    if len(tps) > 1 and not job.problem.training.sequence_parallel:
        yield Loss(
            f"training.{NO_SEQUENCE_PARALLEL} with tp {listed(tps)}: stages of "
            "different tp need it"
        )


def _expert_losses(job: Job) -> Iterator[Loss]:
    """Yield what FlagScale's meshes cannot do of a plan with experts."""
    if job.problem.model.experts is None:
        return
    strategies = [stage.strategy for stage in job.stages]
    if len(set(map(spreads_experts, strategies))) > 1:
        yield Loss(
            f"ep {by_stage(each.ep for each in strategies)}: all stages spread "
            "experts or none does (to plan so, pin ep)"
        )
    faults = (_expert_fault(each, job.problem) for each in strategies)
    for fault in dict.fromkeys(filter(None, faults)):
        yield Loss(fault)


def _expert_fault(strategy: Strategy, problem: Problem) -> str:
    """Return why FlagScale cannot run a stage's experts; empty if it can."""
    if problem.model.experts is None:
        return ""
    if strategy.etp > 1 and problem.model.biases[2]:
        return "experts with biases whose matrices are cut (to plan so, pin etp: 1)"
    if strategy.tp > 1 and not problem.training.sequence_parallel:
        return "routed experts with tensor and without sequence parallelism"
    return ""


def _state_losses(job: Job) -> Iterator[Loss]:
    zeros = job.zero_stages
    if max(zeros) > 1 or min(zeros) < max(zeros):
        yield Loss(
            f"ZeRO stage {by_stage(zeros)}: states of the optimizer are sharded "
            "on all stages or on none, gradients and weights never",
            instead=f"ZeRO stage {int(shards_optimizer(job))}",
        )
    ends = _tied_ends(job)
    if ends is None:
        return
    first, last = ends
    if first[2] != last[2]:
        yield Loss(
            f"tied embeddings with tp {first[2]} on the first and {last[2]} on "
            "the last stage: they have to be the same"
        )
    if max(zeros) > 0 and _ends_do_not_divide(job):
        yield Loss(
            f"tied embeddings with dp {first[0]} on the first and {last[0]} on "
            "the last stage and sharded states: one has to divide the other",
            instead="states that are not sharded",
        )


def _tied_ends(job: Job) -> tuple[Degrees, Degrees] | None:
    """Return the degrees of the stages that share a tied table; None if none do."""
    first, last = _degrees(job, 0), _degrees(job, len(job.stages) - 1)
    if not job.problem.model.tied or len(job.stages) == 1 or not first or not last:
        return None
    return first, last


def _ends_do_not_divide(job: Job) -> bool:
    """Whether embeddings are tied and neither dp of the ends divides the other."""
    ends = _tied_ends(job)
    return ends is not None and bool(
        ends[0][0] % ends[1][0] and ends[1][0] % ends[0][0]
    )
