"""What HexiScale cannot do of a plan, and the plan that it runs instead."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING

from hetopt.export.hexiscale.models import MODEL_SIZES, SEQ_LEN, model_size
from hetopt.export.launcher import Loss
from hetopt.export.shared.architecture import architecture_losses, as_said
from hetopt.export.shared.kernels import (
    NO_SEQUENCE_PARALLEL,
    UNFUSED_ATTENTION,
    UNFUSED_LOSS,
    choice_losses,
)
from hetopt.export.shared.losses import (
    boundary_losses,
    by_stage,
    degree_losses,
    head_losses,
    heads_divide,
    layer_losses,
    listed,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.export.job import Job
    from hetopt.plans.strategy import Strategy
    from hetopt.problem.problem import Problem

#: ZeRO stage -> ``--default_dp_type``.
SHARDING = MappingProxyType({0: "ddp", 2: "zero2", 3: "zero3"})


def launched(job: Job) -> Job:
    """Return the job with the ``instead`` of ``hexiscale_losses``, except warm-ups.

    Its ranks are numbered pipeline by pipeline; the nodes keep the plan's order.
    """
    used = {stage.strategy.recompute for stage in job.stages}
    found = job.launched_as(
        recompute=["none" if used == {"none"} else "full"] * len(job.stages),
        zero=_zero(job),
    )
    ranks = sorted(
        found.placement.ranks, key=lambda rank: (rank.dp, rank.stage, rank.tp)
    )
    first = min(rank.rank for rank in ranks)
    numbered = (rank._replace(rank=number) for number, rank in enumerate(ranks, first))
    return replace(found, placement=replace(found.placement, ranks=tuple(numbered)))


def hexiscale_losses(job: Job) -> Iterator[Loss]:
    """Yield everything of a job that HexiScale cannot do."""
    yield from problem_losses(job.problem)
    yield from layer_losses(job)
    yield from _strategy_losses(job)
    yield from _state_losses(job)
    counts = tuple(stage.warmup for stage in job.stages)
    if any(count < job.microbatches for count in counts):
        yield Loss(
            f"schedule {job.plan.schedule} with warm-ups {listed(counts)}: it is "
            "GPipe, all forward passes first",
            instead="GPipe, which needs more memory",
        )
    sender = "rank sends to its counterpart"
    yield from boundary_losses(job, attrgetter("tp"), sender)


def sharding(job: Job) -> int:
    """Return the ZeRO stage of a job as ``launched`` returns it.

    If there are several pipelines, only those with dp > 1 count.
    """
    parts = job.pipelines if len(job.pipelines) == 1 else _sharded(job)
    return max((max(part.zero_stages) for part in parts), default=0)


def _sharded(job: Job) -> list[Job]:
    return [
        part
        for part in job.parts
        if part.stages[0].strategy.dp > 1 and max(part.zero_stages) > 0
    ]


def recomputations(problem: Problem) -> tuple[str, ...]:
    """Return what all stages of several pipelines may recompute."""
    return "none", "full"


def has_recomputation(
    problem: Problem, microbatches: int, strategy: Strategy, recompute: str
) -> bool:
    """Whether a stage of one of several pipelines recomputes that.

    Its states are not sharded, as HexiScale would shard them over all pipelines.
    """
    zero = problem.training.zero if strategy.zero is None else strategy.zero
    return strategy.recompute == recompute and not (zero > 0 and strategy.dp > 1)


def side_by_side_losses(job: Job) -> Iterator[Loss]:
    """Yield what HexiScale cannot do of several pipelines together."""
    used = [{stage.strategy.recompute for stage in part.stages} for part in job.parts]
    if len({own == {"none"} for own in used}) > 1:
        yield Loss(
            "recomputation in some of the pipelines: all layers of all pipelines "
            "or none are recomputed"
        )
    if _sharded(job):
        yield Loss(
            "ZeRO inside each pipeline: it shards states over all of them, or not "
            "at all",
            instead=f"ZeRO stage {_zero(job)} over all pipelines",
        )


def fits(strategy: Strategy, problem: Problem) -> bool:
    """Whether a stage may have a strategy, regardless of the other stages.

    HexiScale must shard its states as the problem asks.
    """
    as_asked = strategy.dp == 1 or problem.training.zero in SHARDING
    return heads_divide(strategy, problem) and as_asked


def problem_losses(problem: Problem) -> Iterator[Loss]:
    """Yield what HexiScale cannot do of a problem under any plan."""
    if model_size(problem.model) is None:
        yield Loss(
            f"model {problem.model.name}: it has configurations of "
            f"{', '.join(MODEL_SIZES)} alone, at any number of layers"
        )
    yield from architecture_losses(problem.model, as_said(problem.model, ()))
    yield from choice_losses(
        problem.training, (NO_SEQUENCE_PARALLEL, UNFUSED_ATTENTION, UNFUSED_LOSS)
    )
    tokens = problem.training.seq_len
    if tokens != SEQ_LEN:
        yield Loss(
            f"sequences of {tokens} tokens: its own have {SEQ_LEN}",
            instead=f"{SEQ_LEN} tokens",
        )


def _strategy_losses(job: Job) -> Iterator[Loss]:
    yield from degree_losses(job, "dp", "a replica")
    cp = tuple(stage.strategy.cp for stage in job.stages)
    if max(cp) > 1:
        yield Loss(f"cp {listed(cp)} by stage: cp is 1")
    yield from head_losses(job, [stage.strategy.tp for stage in job.stages])
    for tp in sorted({stage.strategy.tp for stage in job.stages}):
        if SEQ_LEN % tp:
            yield Loss(
                f"tp {tp}: sequence parallelism needs a divisor of the {SEQ_LEN} "
                "tokens of a sequence"
            )
    used = tuple(stage.strategy.recompute for stage in job.stages)
    if len(set(used)) > 1 or used[0] == "selective":
        yield Loss(
            f"recomputation {', '.join(used)} by stage: all layers of the model "
            "or none are recomputed, in full",
            instead="full recomputation on all stages",
        )


def _state_losses(job: Job) -> Iterator[Loss]:
    zeros = job.zero_stages
    if job.stages[0].strategy.dp > 1 and set(zeros) != {_zero(job)}:
        yield Loss(
            f"ZeRO stage {by_stage(zeros)}: it has 0, 2 and 3, the same on all stages",
            instead=f"ZeRO stage {_zero(job)}",
        )


def _zero(job: Job) -> int:
    """Return HexiScale's lowest ZeRO stage without more memory than the plan's."""
    most = max(max(part.zero_stages) for part in job.pipelines)
    return min(stage for stage in SHARDING if stage >= most)
