"""Collectives before and after the matrices that tensor parallelism splits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch import Tensor

from .groups import Place, gather_parts, sum_parts


@dataclass(frozen=True, kw_only=True)
class Region:
    """The ranks that share matrices, and whether they split the tokens outside.

    Attributes
    ----------
    group, size, rank
        The ranks, how many, and this rank's number; group None if it is alone.
    splits
        Whether tokens outside of the matrices are split (sequence parallelism); else
        all ranks have all of them.
    """

    group: Any
    size: int
    rank: int
    splits: bool

    @classmethod
    def of(cls, place: Place) -> Region:
        """Return the region of a rank."""
        return cls(
            group=place.tensor,
            size=place.plan.tp,
            rank=place.tp,
            splits=place.splits_tokens,
        )

    def spread(self, x: Tensor) -> Tensor:
        """Gather (b, own tokens, ...); return all tokens, (b, n, ...)."""
        if self.size == 1 or not self.splits:
            return x
        parts = gather_parts(x, self.group, self.size)
        return parts.transpose(0, 1).flatten(1, 2)

    def reduce(self, x: Tensor) -> Tensor:
        """Sum (b, n, ...) over the ranks; return (b, own tokens, ...)."""
        if self.size == 1:
            return x
        if not self.splits:
            x = x.contiguous()
            dist.all_reduce(x, group=self.group)
            return x
        parts = x.unflatten(1, (self.size, -1)).transpose(0, 1)
        own, work = sum_parts(parts, self.group)
        work.wait()
        return own
