"""What FlagScale cannot do of a plan, and the plan it does instead."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.export.job import Job
from hetopt.export.launcher import Loss
from hetopt.export.megatron import problem_losses
from hetopt.export.prose import listed, stages_named
from hetopt.export.shared_losses import (
    boundary_losses,
    head_losses,
    layer_losses,
    model_losses,
)
from hetopt.problem.meshes import tensor_degrees

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.plan import Stage, Strategy
    from hetopt.problem.training import Recompute


def losses(job: Job) -> Iterator[Loss]:
    """Yield everything of a job that FlagScale would lose."""
    yield from problem_losses(job.problem)
    yield from model_losses(job.problem.model)
    yield from layer_losses(job)
    yield from _strategy_losses(job)
    yield from _schedule_losses(job)
    yield from _state_losses(job)
    sender = "device sends each receiver its part"
    yield from boundary_losses(job, _layout, sender)


def launched(job: Job) -> Job:
    """Return the job with what ``losses`` has ``instead``; as it is without any.

    Raises
    ------
    ValueError
        A loss has nothing instead.
    """
    units = job.whole_units()
    stages = []
    for number, stage in enumerate(job.stages):
        strategy = without_cp(job, stage)
        if strategy is None:
            msg = f"stage {number} needs context parallelism"
            raise ValueError(msg)
        stages.append(
            replace(
                stage,
                first_unit=units[number][0],
                end_unit=units[number][1],
                strategy=replace(
                    strategy,
                    recompute=_recompute(job, stage),
                    zero=int(shards_optimizer(job)),
                ),
                unit_strategies=None,
            )
        )
    pipeline = replace(job.plan.pipeline, stages=tuple(stages))
    return Job.of(job.problem, replace(job.plan, pipelines=(pipeline,)))


def without_cp(job: Job, stage: Stage) -> Strategy | None:
    """Return a stage's strategy with its cp moved into dp or tp; None if neither can.

    More replicas where the micro-batch has the sequences for them, else wider ones.
    """
    strategy = stage.strategy
    if strategy.cp == 1:
        return strategy
    dp, tp = strategy.dp * strategy.cp, strategy.tp * strategy.cp
    training = job.problem.training
    if training.global_batch % (job.microbatches * dp) == 0:
        return replace(strategy, dp=dp, cp=1)
    cluster = job.problem.clusters[job.problem.cluster_index(stage.cluster)]
    if tp in tensor_degrees(job.problem.model, cluster) and training.seq_len % tp == 0:
        return replace(strategy, tp=tp, cp=1)
    return None


def shards_optimizer(job: Job) -> bool:
    """Whether the distributed optimizer is on, which shards Adam's states alone."""
    return (
        max(job.zero_stages) > 0
        and job.problem.training.optimizer == "adam"
        and not _ends_do_not_divide(job)
    )


def _strategy_losses(job: Job) -> Iterator[Loss]:
    for first, end in job.runs:
        stage = job.stages[first]
        strategy, other = stage.strategy, without_cp(job, stage)
        if strategy.cp > 1:
            yield Loss(
                what=f"cp {strategy.cp} on {stages_named(first, end)}: cp is 1",
                instead=None
                if other is None
                else f"dp {other.dp}, cp 1, tp {other.tp} there",
            )
        tp = strategy.tp if other is None else other.tp
        if job.problem.training.seq_len % tp:
            yield Loss(
                what=f"tp {tp} on {stages_named(first, end)}: sequence parallelism "
                f"needs a divisor of the {job.problem.training.seq_len} tokens of a "
                "sequence",
                instead=None,
            )
    others = [without_cp(job, stage) for stage in job.stages]
    yield from head_losses(job, [each for each in others if each is not None])
    used = {stage.strategy.recompute for stage in job.stages}
    if "selective" in used and len(used) > 1:
        named = ", ".join(
            stages_named(first, end)
            for first, end in job.runs
            if job.stages[first].strategy.recompute == "selective"
        )
        yield Loss(
            what=f"selective recomputation on {named} and other on others: per stage "
            "it is full or none",
            instead=f"full recomputation on {named}",
        )


def _recompute(job: Job, stage: Stage) -> Recompute:
    used = {each.strategy.recompute for each in job.stages}
    mixed = "selective" in used and len(used) > 1
    recompute = stage.strategy.recompute
    return "full" if mixed and recompute == "selective" else recompute


def _schedule_losses(job: Job) -> Iterator[Loss]:
    if not job.warms_up_as_1f1b:
        planned = tuple(stage.warmup for stage in job.stages)
        count = len(job.stages)
        yield Loss(
            what=f"schedule {job.plan.schedule} with warm-ups {listed(planned)}: 1F1B "
            f"warms up with {listed(tuple(range(count, 0, -1)))}",
            instead="1F1B",
        )


def _state_losses(job: Job) -> Iterator[Loss]:
    model = job.problem.model
    zeros = job.zero_stages
    if max(zeros) > 1 or min(zeros) < max(zeros):
        each = str(zeros[0]) if len(set(zeros)) == 1 else f"{listed(zeros)} by stage"
        yield Loss(
            what=f"ZeRO stage {each}: states of the optimizer are sharded on all "
            "stages or on none, gradients and weights never",
            instead=f"ZeRO stage {int(shards_optimizer(job))}",
        )
    first, last = (without_cp(job, stage) for stage in _ends(job))
    if not model.tied or first is None or last is None or len(job.stages) == 1:
        return
    if first.tp != last.tp:
        yield Loss(
            what=f"tied embeddings with tp {first.tp} on the first and {last.tp} on "
            "the last stage: they have to be the same",
            instead=None,
        )
    if max(zeros) > 0 and _ends_do_not_divide(job):
        yield Loss(
            what=f"tied embeddings with dp {first.dp} on the first and {last.dp} on "
            "the last stage and sharded states: one has to divide the other",
            instead="states that are not sharded",
        )


def _ends(job: Job) -> tuple[Stage, Stage]:
    return job.stages[0], job.stages[-1]


def _ends_do_not_divide(job: Job) -> bool:
    """Whether tied tables cannot be reduced shard by shard between the ends."""
    first, last = (without_cp(job, stage) for stage in _ends(job))
    if not job.problem.model.tied or first is None or last is None:
        return False
    return bool(first.dp % last.dp and last.dp % first.dp)


def _layout(strategy: Strategy) -> tuple[int, int]:
    """How a boundary tensor lies on a stage's devices."""
    return strategy.dp, strategy.cp * strategy.tp
