"""Adam or SGD on 32-bit masters, in shares of each replica under ZeRO-1."""

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
    """The weights of one stage: what reduces their gradients and updates them.

    In 16 bits a replica keeps its share of the weights in 32 bits besides, and of the
    optimizer's states; in 32 bits the weights are their own masters.
    """

    def __init__(self, place: Place, stage: Stage, lr: float) -> None:
        self.place = place
        self.scale = LossScale(place.job)
        # A tied table of one stage is named once, as the embedding's.
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
        """Reduce each unit's gradients as its chunk's last pass gets there.

        Parameters
        ----------
        among
            The parameters that this pass has gradients of; None: all have.
        """
        if self.place.job.overlap_gradients:
            for bucket in self.by_chunk[chunk]:
                if self.tied is None or bucket is not self.tied.bucket:
                    bucket.expect(among)

    def reduce(self) -> None:
        """Make gradients those of the whole batch, this replica's share of them."""
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
        """Update the weights and forget the gradients."""
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
        """Return what a checkpoint of this rank holds.

        Which parts of the model these are, bucket by bucket, too: another plan may go
        on from them (``moving``).
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
        """Take over what ``state`` returned."""
        for bucket, master, weights, wide in zip(
            self.buckets, self.masters, state["weights"], state["masters"], strict=True
        ):
            bucket.weights.copy_(weights)
            master.data.copy_(wide)
        self.inner.load_state_dict(state["states"])
        self.scale.factor, self.scale.good = state["scale"]


def parts_of(buckets: list[Bucket]) -> list[Part]:
    """Return what a rank has of the model's parameters, bucket by bucket."""
    return [
        Part(name, tuple(each.shape), box_of(each), hasattr(each, "copies"))
        for bucket in buckets
        for name, each in zip(bucket.names, bucket.parameters, strict=True)
    ]


def _buckets(place: Place, parameters: dict[str, nn.Parameter]) -> Iterator[Bucket]:
    """Yield the parameters of a unit by the ranks that hold them, dense ones first."""
    by_copies: dict[Copies, dict[str, nn.Parameter]] = {place.copies: {}}
    for name, parameter in parameters.items():
        copies = getattr(parameter, "copies", place.copies)
        by_copies.setdefault(copies, {})[name] = parameter
    for copies, own in by_copies.items():
        if own:
            yield Bucket(place, copies, own)
