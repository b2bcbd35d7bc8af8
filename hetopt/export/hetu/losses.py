"""What Hetu v2 cannot do of a plan, and the plan that it runs instead."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.export.launcher import Loss
from hetopt.export.shared.architecture import architecture_losses, as_said
from hetopt.export.shared.kernels import choice_losses
from hetopt.export.shared.losses import (
    boundary_losses,
    by_stage,
    degree_losses,
    head_losses,
    heads_divide,
    layer_losses,
    listed,
    model_losses,
    warm_up_losses,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.export.job import Job
    from hetopt.plans.strategy import Strategy
    from hetopt.problem.problem import Problem


def launched(job: Job) -> Job:
    """Return the job with the ``instead`` of ``hetu_losses``, except warm-ups."""
    training = job.problem.training
    if training.precision == "fp16":
        training = replace(training, precision="bf16")
    found = job.launched_as(
        recompute=(
            "none" if stage.strategy.recompute == "none" else "full"
            for stage in job.stages
        ),
        zero=int(shards_optimizer(job)),
    )
    return replace(found, problem=replace(job.problem, training=training))


def shards_optimizer(job: Job) -> bool:
    """Whether optimizer states are sharded, which Hetu does over dp.

    Its generator turns ``zero`` off if dp is 1.
    """
    return max(job.zero_stages) > 0 and job.stages[0].strategy.dp > 1


def fits(strategy: Strategy, problem: Problem) -> bool:
    """Whether a stage may have a strategy, regardless of the other stages.

    Hetu must shard its states as the problem asks.
    """
    zero, dp = problem.training.zero, strategy.dp
    as_asked = zero == 0 or dp * strategy.cp == 1 or (zero == 1 and dp > 1)
    return heads_divide(strategy, problem) and as_asked


def problem_losses(problem: Problem) -> Iterator[Loss]:
    """Yield what Hetu cannot do of a problem under any plan."""
    model = problem.model
    yield from model_losses(model)
    yield from architecture_losses(model, as_said(model, ()))
    yield from choice_losses(problem.training)
    if model.tied:
        yield Loss("one table for embedding and head: it has one for each")
    if problem.training.precision == "fp16":
        yield Loss("precision fp16: it has bf16 and fp32", instead="bf16")


def hetu_losses(job: Job) -> Iterator[Loss]:
    """Yield everything of a job that Hetu cannot do."""
    yield from problem_losses(job.problem)
    yield from layer_losses(job)
    yield from _strategy_losses(job)
    yield from _state_losses(job)
    yield from warm_up_losses(job)
    sender = "device sends each receiver its part"
    yield from boundary_losses(job, attrgetter("tp"), sender)


def microbatch_size(job: Job) -> int:
    """Return the sequences of a micro-batch on one replica of a pipeline."""
    return job.microbatch_size(job.stages[0])


def microbatch_sizes(problem: Problem) -> tuple[str, ...]:
    """Return the sizes that the micro-batches of several pipelines may have."""
    return tuple(map(str, range(1, problem.training.global_batch + 1)))


def has_microbatch_size(
    problem: Problem, microbatches: int, strategy: Strategy, size: str
) -> bool:
    """Whether a stage of one of several pipelines has micro-batches of a size.

    Its states are not sharded, as Hetu would shard them over all pipelines.
    """
    sequences = microbatches * strategy.dp * int(size)
    zero = problem.training.zero if strategy.zero is None else strategy.zero
    sharded = zero > 0 and strategy.dp > 1
    return sequences == problem.training.global_batch and not sharded


def side_by_side_losses(job: Job) -> Iterator[Loss]:
    """Yield what Hetu cannot do of several pipelines together."""
    sizes = tuple(map(microbatch_size, job.parts))
    if len(set(sizes)) > 1:
        yield Loss(
            f"micro-batches of {listed(sizes)} sequences by pipeline: it has one "
            "size for all, and a number of micro-batches for each"
        )
    if any(shards_optimizer(part) for part in job.parts):
        yield Loss(
            "ZeRO stage 1 inside each pipeline: it shards the optimizer's states "
            "over all pipelines, or not at all",
            instead="ZeRO stage 1 over all pipelines",
        )


def _strategy_losses(job: Job) -> Iterator[Loss]:
    yield from degree_losses(job, "dp", "a replica")
    yield from degree_losses(job, "cp", "a part of a sequence")
    parts = sorted({stage.strategy.cp * stage.strategy.tp for stage in job.stages})
    tokens = job.problem.training.seq_len
    for count in parts:
        if tokens % count:
            yield Loss(
                f"sequences of {tokens} tokens in {counted(count, 'part')} "
                "(cp * tp), which is no divisor"
            )
    yield from head_losses(job, [stage.strategy.tp for stage in job.stages])
    used = tuple(stage.strategy.recompute for stage in job.stages)
    if "selective" in used:
        yield Loss(
            f"recomputation {', '.join(used)} by stage: its selective one "
            "recomputes norms and activation functions, not attention",
            instead="full recomputation there",
        )


def _state_losses(job: Job) -> Iterator[Loss]:
    zeros, does = job.zero_stages, int(shards_optimizer(job))
    strategy = job.stages[0].strategy
    if strategy.dp * strategy.cp > 1 and set(zeros) != {does}:
        yield Loss(
            f"ZeRO stage {by_stage(zeros)} with dp {strategy.dp} and cp "
            f"{strategy.cp}: it shards the optimizer's states alone, on all stages, "
            "between replicas",
            instead=f"ZeRO stage {does}"
            + ("" if does else ", which needs more memory"),
        )
