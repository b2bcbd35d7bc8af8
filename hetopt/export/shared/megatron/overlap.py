"""All-to-alls of experts that overlap the computation of another micro-batch.

Source: megatron-core 0.16.1, ``transformer/transformer_config.py`` (what the argument
requires) and ``pipeline_parallel/schedules.py`` (which schedules have it); its user
guide, "Combined 1F1B" (the environment).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.export.shared.losses import overlap_loss
from hetopt.export.shared.one_mesh import expert_degrees
from hetopt.problem.training.choices import INTERLEAVED
from hetopt.problem.training.pins import ANY, Domain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hetopt.export.job import Job
    from hetopt.export.launcher import Loss
    from hetopt.plans.strategy import Strategy
    from hetopt.problem.problem import Problem

#: Tensor and context parallelism assert 1 on devices before Blackwell; kernels of two
#: streams run concurrently only with more.
_CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"


#: What repeats all-to-alls, in one piece with what is between them.
_REPEATED = ("full", "moe")


def overlap_losses(job: Job) -> Iterator[Loss]:
    """Yield why megatron-core does not hide a plan's all-to-alls."""
    overlap, (ep, _) = job.problem.training.moe.overlap, expert_degrees(job)
    if not overlap or ep == 1:
        return
    yield from _model_losses(job.problem)
    stages = len(job.stages)
    if stages > 1 and job.plan.schedule != INTERLEAVED:
        why = f"of several stages it hides those of {INTERLEAVED}, not of "
        yield overlap_loss(overlap, why + job.plan.schedule)
    if stages == 1 and job.problem.model.predictions:
        yield overlap_loss(overlap, "it hides none of one stage that predicts tokens")
    if any(stage.strategy.recompute in _REPEATED for stage in job.stages):
        yield overlap_loss(
            overlap, "it cannot hide all-to-alls with full recomputation"
        )


def stages_that_hide(problem: Problem) -> Domain:
    """Return the numbers of stages of plans whose all-to-alls are hidden."""
    if not problem.training.moe.overlaps:
        return ANY
    several = problem.training.schedule == INTERLEAVED
    alone = not problem.model.predictions
    return Domain(
        allowed=None if several else frozenset({1}),
        forbidden=frozenset() if alone else frozenset({1}),
    )


def hides(strategy: Strategy, problem: Problem) -> bool:
    """Whether a stage's all-to-alls are hidden if its plan has the right stages."""
    if strategy.ep == 1 or not problem.training.moe.overlaps:
        return True
    return strategy.recompute not in _REPEATED and not any(_model_losses(problem))


def overlap_settings(job: Job) -> dict[str, Any]:
    """Return the setting of a job without ``overlap_losses``."""
    overlaps = job.problem.training.moe.overlaps and expert_degrees(job)[0] > 1
    hidden = overlaps and not tuple(overlap_losses(job))
    return {"overlap_moe_expert_parallel_comm": True} if hidden else {}


def environment(job: Job) -> Mapping[str, str]:
    """Return the variables that ranks need."""
    strategy = job.stages[0].strategy
    streams = overlap_settings(job) and strategy.cp == strategy.tp == 1
    return {_CONNECTIONS: "32" if streams else "1"}


def _model_losses(problem: Problem) -> Iterator[Loss]:
    overlap, training = problem.training.moe.overlap, problem.training
    if training.precision == "fp32":
        yield overlap_loss(overlap, "it hides none in fp32")
    if problem.model.predictions > 1:
        yield overlap_loss(overlap, "it hides none with several layers that predict")
