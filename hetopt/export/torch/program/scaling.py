"""The loss scale, which keeps small gradients from underflowing in fp16."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from .crossing import Crossing
from .job import Job

#: First factor, and good steps until it doubles: those of PyTorch's ``GradScaler``.
FIRST = 2.0**16
PATIENCE = 2000


class LossScale:
    """The factor of the loss: 1 unless weights are fp16.

    Whenever a gradient of any rank is not finite, the step is skipped and the factor is
    halved; it doubles after ``PATIENCE`` steps without that.
    """

    def __init__(self, job: Job, world: Crossing) -> None:
        self.world = world
        self.used = job.precision == "fp16"
        self.factor = FIRST if self.used else 1.0
        self.good = 0

    def settle(self, gradients: list[Tensor]) -> bool:
        """Divide gradients by the factor, update it; return False to skip the step."""
        if not self.used:
            return True
        finite = torch.stack([each.isfinite().all() for each in gradients]).all()
        lost = (~finite).float()
        self.world.total(lost, dist.ReduceOp.MAX)
        if lost:
            self.factor, self.good = self.factor / 2, 0
            return False
        for each in gradients:
            each.div_(self.factor)
        self.good += 1
        if self.good == PATIENCE:
            self.factor, self.good = 2 * self.factor, 0
        return True
