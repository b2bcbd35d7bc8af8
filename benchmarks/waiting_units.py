"""Units that compute nothing and wait instead, for machines with too few cores.

A pass takes as long as ``waits.json`` beside this file says of its stage: it begins at
one end of the stage and is held up at the other until its time is over. Tensors of the
real sizes go through, and ranks that share matrices or sequences meet before a pass, as
their collectives would have them do. A copy of this file is a run's ``--units``.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

WAITS = json.loads(Path(__file__).with_name("waits.json").read_text("utf-8"))


def wait_until(end_s: float) -> None:
    """Wait until then by ``time.perf_counter``, if it is not over yet."""
    # A sleeping process is woken late.
    time.sleep(max(end_s - time.perf_counter() - 0.001, 0.0))
    while time.perf_counter() < end_s:
        pass


class Clock:
    """When the pass of this stage that runs began, forward or backward."""

    start_s = 0.0

    @classmethod
    def start(cls, place: Any) -> None:
        """Begin a pass when the last of the ranks that take part in it is there.

        What it takes to say so is in the pass, as collectives are in planned times.
        """
        here = torch.tensor([time.perf_counter()], dtype=torch.float64)
        for group in (place.tensor, place.context):
            if group is not None:
                dist.all_reduce(here, op=dist.ReduceOp.MAX, group=group)
        cls.start_s = here.item()


class _First(torch.autograd.Function):
    """Where a forward pass begins, and a backward pass ends."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, backward_s: float, place: Any) -> Tensor:
        Clock.start(place)
        ctx.length_s = backward_s
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        wait_until(Clock.start_s + ctx.length_s)
        return grad, None, None


class _Last(torch.autograd.Function):
    """Where a forward pass ends, and a backward pass begins."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, forward_s: float, place: Any) -> Tensor:
        wait_until(Clock.start_s + forward_s)
        ctx.place = place
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        Clock.start(ctx.place)
        return grad, None, None


class Unit(nn.Module):
    """A unit with as many weights as a tensor is wide."""

    def __init__(self, index: int, place: Any) -> None:
        super().__init__()
        self.index, self.place = index, place
        self.weight = nn.Parameter(torch.zeros(place.job.model["hidden"]))
        if place.splits_tokens:
            self.weight.sum_over = place.tensor

    def forward(self, x: Tensor, targets: Tensor | None = None) -> Tensor:
        """Return what the unit of this index returns, in shape."""
        place, hidden = self.place, self.weight.shape[0]
        waits = WAITS[place.stage]
        if self.index == 0:
            tokens = x.shape[1] // (place.plan.tp if place.splits_tokens else 1)
            x = torch.zeros(x.shape[0], tokens, hidden, requires_grad=True)
        if self.index == place.plan.first:
            x = _First.apply(x, waits["backward_s"], place)
        x = x + self.weight
        if targets is not None:
            x = (x - 1).square().sum()
        if self.index == place.plan.end - 1:
            x = _Last.apply(x, waits["forward_s"], place)
        return x


def build_unit(index: int, place: Any) -> nn.Module:
    """Return the unit of this index."""
    return Unit(index, place)
