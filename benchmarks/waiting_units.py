"""Units that compute nothing and wait instead, for machines with too few cores.

A pass takes the time that ``waits.json`` beside this file has for its stage: it begins
at one end of the stage and waits at the other end until its time is over. Tensors have
the real sizes, and ranks that share matrices or sequences synchronise before a pass, as
their collectives would do. A run's ``--units`` is a copy of this file.
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
    """Wait until ``time.perf_counter`` reaches ``end_s``; return at once if it has."""
    # A sleeping process may wake late: the last millisecond is a busy wait.
    time.sleep(max(end_s - time.perf_counter() - 0.001, 0.0))
    while time.perf_counter() < end_s:
        pass


class Clock:
    """Start of this stage's current pass, forward or backward."""

    start_s = 0.0

    @classmethod
    def start(cls, place: Any) -> None:
        """Begin a pass when the last of its ranks has arrived.

        The time of this synchronisation is part of the pass, as the time of collectives
        is in the plan.
        """
        here = torch.tensor([time.perf_counter()], dtype=torch.float64)
        for group in (place.tensor, place.context):
            if group is not None:
                dist.all_reduce(here, op=dist.ReduceOp.MAX, group=group)
        cls.start_s = here.item()


class _First(torch.autograd.Function):
    """First operation of a forward pass, last one of a backward pass."""

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
    """Last operation of a forward pass, first one of a backward pass."""

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
    """A unit with one weight for each hidden channel.

    A block of a layer passes on the inner activations that its kind has.
    """

    def __init__(self, index: int, place: Any) -> None:
        super().__init__()
        self.index, self.place = index, place
        self.weight = nn.Parameter(torch.zeros(place.job.model["hidden"]))
        if place.splits_tokens:
            self.weight.sum_over = place.tensor

    def forward(self, x: Tensor, other: Tensor | None = None) -> Any:
        """Return tensors of the shapes that the unit of this index returns.

        Parameters
        ----------
        other
            What comes with (b, m, h): targets, or inner activations.
        """
        place, hidden = self.place, self.weight.shape[0]
        waits = WAITS[place.stage]
        if self.index == 0:
            tokens = x.shape[1] // (place.plan.tp if place.splits_tokens else 1)
            x = torch.zeros(x.shape[0], tokens, hidden, requires_grad=True)
        kind = place.job.kind(self.index)
        if kind == "mlp-down" and other is not None:
            x = x + other.mean()
        if self.index == place.plan.first:
            x = _First.apply(x, waits["backward_s"], place)
        x = x + self.weight
        if kind == "head":
            x = (x - 1).square().sum()
        if self.index == place.plan.end - 1:
            x = _Last.apply(x, waits["forward_s"], place)
        if kind != "mlp-up":
            return x
        tokens, width = len(place.positions), place.job.model["ffn"] // place.plan.tp
        return x, x.mean().expand(x.shape[0], tokens, width)


def build_unit(index: int, place: Any) -> nn.Module:
    """Return the unit of this index."""
    return Unit(index, place)
