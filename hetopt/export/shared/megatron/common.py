"""What Megatron-LM and Megatron-Bridge have in common.

One (dp, cp, tp) and one recomputation for all stages, uneven layers, 1F1B. By default
ranks are laid out ``tp-cp-ep-dp-pp``, ``tp`` the fastest, which is hetopt's order too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.export.launcher import Limits, Loss
from hetopt.export.shared.losses import heads_divide, shard_copies, warm_up_losses
from hetopt.export.shared.megatron.architecture import megatron_lm_model
from hetopt.export.shared.megatron.model import problem_losses
from hetopt.export.shared.megatron.offload import no_offload
from hetopt.export.shared.megatron.overlap import (
    hides,
    overlap_losses,
    stages_that_hide,
)
from hetopt.export.shared.megatron.recompute import recompute_fits
from hetopt.export.shared.one_mesh import (
    ONE_MESH,
    expert_degrees,
    expert_job_losses,
    one_mesh_losses,
    recompute_loss,
    shared_head_losses,
)
from hetopt.problem.layout import (
    layout_chunks,
    layout_of,
    predictions_fault,
)
from hetopt.problem.training.choices import MODULES, RECOMPUTE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hetopt.export.job import Job
    from hetopt.export.shared.megatron.model import Arguments
    from hetopt.plans.strategy import Strategy
    from hetopt.problem.model.model import Model
    from hetopt.problem.problem import Problem


def _fits(strategy: Strategy, problem: Problem) -> bool:
    """Whether a stage may have a strategy; a sliding window needs cp 1."""
    windows = problem.model.architecture.sliding_window is not None
    return (
        heads_divide(strategy, problem)
        and (strategy.cp == 1 or not windows)
        and hides(strategy, problem)
        and recompute_fits(strategy, problem)
    )


def limit_losses(
    problem: Problem, said: Callable[[Model], Model] = megatron_lm_model
) -> Iterator[Loss]:
    """Yield what Megatron-LM cannot do of a problem, pinned cuts included.

    Parameters
    ----------
    said
        As for ``hetopt.export.shared.megatron.model.model_settings``.
    """
    yield from problem_losses(problem, said)
    if (cuts := problem.pins.cuts) is not None:
        stages = len(cuts) // problem.training.chunks
        yield from _layout_losses(cuts, stages, problem.model)


def layout_said(job: Job) -> str:
    """Return the layout of a job, in the problem's own words if it pins one."""
    pins, cuts = job.problem.pins, job.plan.cuts
    if pins.layout is not None and cuts == pins.cuts:
        return pins.layout
    return layout_of(job.plan.ends, job.problem.model)


def one_mesh_settings(job: Job) -> Arguments:
    """Return the arguments of one mesh for all stages, and its layout."""
    strategy = job.stages[0].strategy
    settings: Arguments = {
        "tensor_model_parallel_size": strategy.tp,
        "pipeline_model_parallel_size": len(job.stages),
        "context_parallel_size": strategy.cp,
        "pipeline_model_parallel_layout": layout_said(job),
        "sequence_parallel": (
            strategy.tp > 1 and job.problem.training.sequence_parallel
        ),
    }
    if strategy.cp > 1:
        settings["cp_comm_type"] = "p2p"
    if job.problem.model.experts is not None:
        ep, etp = expert_degrees(job)
        settings["expert_model_parallel_size"] = ep
        settings["expert_tensor_parallel_size"] = etp
    return settings


def _layout_losses(cuts: Sequence[int], stages: int, model: Model) -> Iterator[Loss]:
    """Yield why Megatron-LM refuses chunks that end at these units."""
    try:
        fault = predictions_fault(layout_chunks(layout_of(cuts, model)), stages)
    except ValueError as error:
        fault = str(error)
    if fault:
        yield Loss(f"a layout that {fault}")


LIMITS = Limits(
    # Its 1F1B sends and receives at once, and waits; its interleaved 1F1B overlaps.
    schedules=("1f1b", "1f1b-batched", "interleaved-1f1b"),
    shared=ONE_MESH,
    recompute=((*RECOMPUTE, *MODULES),),
    zero=(0, 1),
    losses=limit_losses,
    parts=("experts", "latent", "predictions"),
    fits=_fits,
    spread=stages_that_hide,
    no_offload=no_offload,
    cuts=True,
    copies=True,
)


def megatron_losses(
    job: Job, said: Callable[[Model], Model] = megatron_lm_model
) -> Iterator[Loss]:
    """Yield what Megatron-LM cannot do of a plan.

    Parameters
    ----------
    said
        As for ``hetopt.export.shared.megatron.model.model_settings``.
    """
    yield from one_mesh_losses(job)
    if job.plan.cuts is not None and job.layers is not None:
        yield from _layout_losses(job.plan.cuts, len(job.stages), job.problem.model)
    yield from shared_head_losses(job)
    yield from recompute_loss(job)
    if not all(recompute_fits(each.strategy, job.problem) for each in job.stages):
        yield Loss("recomputation of layernorm or moe_act in fp8 with delayed scales")
    yield from expert_job_losses(job)
    yield from overlap_losses(job)
    yield from warm_up_losses(job)
    zero = max(job.zero_stages)
    if zero > 1:
        yield Loss(
            f"ZeRO {zero} in a pipeline: it shards optimizer states alone",
            instead="ZeRO 1, which needs more memory",
        )
    parts = max(stage.strategy.cp for stage in job.stages)
    if parts > 1 and job.problem.model.architecture.sliding_window is not None:
        yield Loss(
            f"cp {parts} with a sliding window: ring attention (cp_comm_type p2p) "
            "does not support windows (to plan so, pin cp: 1)"
        )
    yield from problem_losses(job.problem, said)


def optimizer_shards(job: Job) -> Arguments:
    """Return the arguments that shard optimizer states, and copy the shards."""
    copies = shard_copies(job.problem, job.stages[0].strategy)
    found: Arguments = {"use_distributed_optimizer": shards_optimizer(job)}
    if shards_optimizer(job) and len(copies) == 1 and copies != {1}:
        found["num_distributed_optimizer_instances"] = max(copies)
    return found


def shards_optimizer(job: Job) -> bool:
    """Whether optimizer states are sharded, which Megatron-LM does for Adam only."""
    return max(job.zero_stages) > 0 and job.problem.training.optimizer == "adam"
