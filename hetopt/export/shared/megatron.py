"""What Megatron-LM and Megatron-Bridge have in common.

One (dp, cp, tp) and one recomputation for all stages, uneven layers, 1F1B. By default
ranks are laid out ``tp-cp-ep-dp-pp``, ``tp`` the fastest, which is hetopt's order too.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from hetopt.export.launcher import Limits, Loss
from hetopt.export.shared.losses import heads_divide
from hetopt.export.shared.megatron_model import problem_losses
from hetopt.export.shared.one_mesh import (
    one_mesh_losses,
    recompute_loss,
    shared_head_losses,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hetopt.export.job import Job

#: Tensor and context parallelism assert it on devices before Blackwell.
ENVIRONMENT: Mapping[str, str] = MappingProxyType({"CUDA_DEVICE_MAX_CONNECTIONS": "1"})

LIMITS = Limits(
    schedules=("1f1b",),
    shared=("dp", "cp", "tp", "recompute"),
    zero=(0, 1),
    losses=problem_losses,
    fits=heads_divide,
)


def megatron_losses(job: Job) -> Iterator[Loss]:
    """Yield what Megatron-LM cannot do of a plan."""
    yield from one_mesh_losses(job)
    yield from shared_head_losses(job)
    yield from recompute_loss(job)
    if not job.warms_up_as_1f1b:
        counts = ", ".join(str(stage.warmup) for stage in job.stages)
        yield Loss(
            what=f"schedule {job.plan.schedule} with warm-up counts {counts}: it is "
            "1F1B, one more on each stage than on the next",
            instead="1F1B",
        )
    zero = max(job.zero_stages)
    if zero > 1:
        yield Loss(
            what=f"ZeRO {zero} in a pipeline: it shards optimizer states alone",
            instead="ZeRO 1, which needs more memory",
        )
    yield from problem_losses(job.problem)


def shards_optimizer(job: Job) -> bool:
    """Whether optimizer states are sharded, which Megatron-LM does for Adam alone."""
    return max(job.zero_stages) > 0 and job.problem.training.optimizer == "adam"
