"""Adam or SGD on 32-bit masters, sharded over replicas under ZeRO-1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from .buckets import Bucket
from .groups import Copies, Place
from .ordering import Part
from .pieces import box_of
from .scaling import LossScale
from .side_by_side import SideBySide
from .stage import Stage
from .tied import TiedTable


class Optimizer:
    """Reduces the gradients of one stage's weights and updates the weights.

    With 16-bit weights a replica also keeps a 32-bit copy (master) of its share of the
    weights, and the optimizer's states of it. 32-bit weights are their own masters.
    """

    def __init__(self, place: Place, stage: Stage, lr: float) -> None:
        self.place = place
        self.scale = LossScale(place.job, place.world)
        # If one stage has both ends, a tied table is listed once, by its first name.
        named = list(stage.named_parameters())
        self.by_chunk = [
            [
                bucket
                for unit in units
                for bucket in _buckets(
                    place, {n: p for n, p in named if n.startswith(f"units.{unit}.")}
                )
            ]
            for units in stage.chunks
        ]
        self.buckets = [bucket for own in self.by_chunk for bucket in own]
        self.tied = None
        if place.ends is not None:
            self.tied = TiedTable(place, self.buckets)
        self.side_by_side = None
        if len(place.jobs) > 1:
            self.side_by_side = SideBySide(place, self.buckets)
        self.masters = [
            nn.Parameter(each.weights[each.share].float()) for each in self.buckets
        ]
        self.inner: torch.optim.Optimizer
        if place.job.optimizer == "adam":
            self.inner = torch.optim.AdamW(self.masters, lr=lr, fused=True)
        else:
            self.inner = torch.optim.SGD(self.masters, lr=lr, momentum=0.9, fused=True)

    def last_pass(self, chunk: int, among: set[nn.Parameter] | None) -> None:
        """Let each unit's gradients be reduced as soon as the last pass has them.

        Parameters
        ----------
        among
            The parameters that get a gradient in this pass; None for all.
        """
        if self.place.job.overlap_gradients:
            for bucket in self.by_chunk[chunk]:
                if self.tied is None or bucket is not self.tied.bucket:
                    bucket.expect(among)

    def reduce(self) -> None:
        """Sum gradients over the whole batch; wait for this replica's share."""
        if self.tied is not None:
            self.tied.exchange()
        for bucket in self.buckets:
            if not bucket.reduced:
                bucket.reduce()
        for bucket in self.buckets:
            bucket.wait()
        if self.side_by_side is not None:
            self.side_by_side.add()
            for bucket in self.buckets:
                bucket.spread()

    def step(self) -> None:
        """Update the weights and reset the gradients."""
        shares = [each.gradients[each.share] for each in self.buckets]
        if self.scale.settle(shares):
            for share, master in zip(shares, self.masters, strict=True):
                master.grad = share.float()
            self.inner.step()
        for bucket, master in zip(self.buckets, self.masters, strict=True):
            if master.dtype != bucket.weights.dtype:
                bucket.weights[bucket.share] = master.detach()
            master.grad = None
            bucket.gradients.zero_()
            bucket.gather()

    def state(self) -> dict[str, Any]:
        """Return the content of this rank's checkpoint.

        It includes which parts of the model these are, bucket by bucket, so that
        another plan can resume from them (``moving``).
        """
        return {
            "parts": [each.plain for each in parts_of(self.buckets)],
            "counts": [len(each.names) for each in self.buckets],
            "weights": [each.weights for each in self.buckets],
            "masters": [each.detach() for each in self.masters],
            "states": self.inner.state_dict(),
            "scale": (self.scale.factor, self.scale.good),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Load what ``state`` returned."""
        for bucket, master, weights, wide in zip(
            self.buckets, self.masters, state["weights"], state["masters"], strict=True
        ):
            bucket.weights.copy_(weights)
            master.data.copy_(wide)
        self.inner.load_state_dict(state["states"])
        self.scale.factor, self.scale.good = state["scale"]


def parts_of(buckets: list[Bucket]) -> list[Part]:
    """Return a rank's parts of the model's parameters, bucket by bucket."""
    return [
        Part(name, tuple(each.shape), box_of(each), hasattr(each, "copies"))
        for bucket in buckets
        for name, each in zip(bucket.names, bucket.parameters, strict=True)
    ]


def _buckets(place: Place, parameters: dict[str, nn.Parameter]) -> Iterator[Bucket]:
    """Yield a bucket per set of ranks that hold parameters of a unit, dense first."""
    by_copies: dict[Copies, dict[str, nn.Parameter]] = {place.copies: {}}
    for name, parameter in parameters.items():
        copies = getattr(parameter, "copies", place.copies)
        by_copies.setdefault(copies, {})[name] = parameter
    for copies, own in by_copies.items():
        if own:
            yield Bucket(place, copies, own)
