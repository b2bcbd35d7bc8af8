"""Where a rank is, and the groups of ranks that it works with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .job import Job

# The names of PyTorch 2.13, else those before.
_gather: Callable[..., Any] = (
    getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
)
_scatter: Callable[..., Any] = (
    getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
)


def gather_parts(x: Tensor, group: Any, size: int) -> Tensor:
    """Return the tensors of all ranks of a group, (size, *x.shape)."""
    parts = x.new_empty((size, *x.shape))
    _gather(parts.view(-1), x.contiguous().view(-1), group=group)
    return parts


def sum_parts(parts: Tensor, group: Any) -> tuple[Tensor, Any]:
    """Start to sum (size, ...) over a group; return this rank's part, and the work.

    ``work.wait()`` returns once it is there.
    """
    parts = parts.contiguous()
    own = torch.empty_like(parts[0])
    work = _scatter(own.view(-1), parts.view(-1), group=group, async_op=True)
    return own, work


class Place:
    """Where this rank is, and the groups of ranks it works with.

    Attributes
    ----------
    job, plan
        The job, and this rank's stage of it.
    rank, stage
        Of all ranks, and the number of the stage, from 0.
    dp, cp, tp
        Coordinates within the stage, from 0.
    positions
        Of this rank's tokens within a sequence, int64 (n,).
    sequences
        Of a micro-batch that this rank has.
    tensor, context, replicas
        Ranks that share the matrices, a sequence, and the weights: the groups of tp, of
        cp, and of dp and cp together. None for a group of one.
    sharers
        Ranks of ``tensor`` with the same key-value head, if there are more ranks than
        heads; else None.
    forward, backward
        Groups of the boundaries before and behind this stage, for activations and for
        their gradients: (before, behind); None where there is no boundary. With several
        chunks, the first stage is behind the last.
    ends
        Ranks of the first and the last stage if both have the tied table; else None.
    """

    def __init__(self, job: Job, rank: int, device: torch.device) -> None:
        self.job, self.rank, self.device = job, rank, device
        stages = range(len(job.stages))
        self.stage = next(n for n in stages if rank < job.first_rank(n + 1))
        self.plan = job.stages[self.stage]
        within, self.tp = divmod(rank - job.first_rank(self.stage), self.plan.tp)
        self.dp, self.cp = divmod(within, self.plan.cp)
        self.positions = job.tokens_of(self.stage, self.cp)
        self.sequences = job.rows(self.stage, self.dp)
        self._make_groups()

    @property
    def is_first(self) -> bool:
        """Whether this stage takes tokens."""
        return self.stage == 0

    @property
    def is_last(self) -> bool:
        """Whether this stage has the loss."""
        return self.stage == len(self.job.stages) - 1

    @property
    def replica(self) -> int:
        """The rank's place within ``replicas``."""
        return self.dp * self.plan.cp + self.cp

    @property
    def splits_tokens(self) -> bool:
        """Whether tp splits the tokens between matrices."""
        return self.job.sequence_parallel and self.plan.tp > 1

    def _make_groups(self) -> None:
        """Make all groups, as every rank must, in the same order; keep its own."""
        job, stages = self.job, range(len(self.job.stages))
        self.tensor = self.context = self.replicas = self.sharers = None
        for number in stages:
            plan, ranks = job.stages[number], torch.tensor(job.ranks(number))
            shared = max(plan.tp // int(job.model["kv_heads"]), 1)
            self.tensor = self._one(ranks.reshape(-1, plan.tp)) or self.tensor
            across = ranks.movedim(1, 2).reshape(-1, plan.cp)
            self.context = self._one(across) or self.context
            copies = ranks.movedim(2, 0).reshape(plan.tp, -1)
            self.replicas = self._one(copies) or self.replicas
            self.sharers = self._one(ranks.reshape(-1, shared)) or self.sharers
        both = [self._boundary(number) for number in range(job.boundaries)]
        both += [(None, None)] * (len(stages) - job.boundaries)
        before, behind = both[self.stage - 1], both[self.stage]
        self.forward, self.backward = zip(before, behind, strict=True)
        self.ends = None
        if job.model["tied"] and len(stages) > 1:
            first = range(job.stages[0].devices)
            last = range(self.job.first_rank(stages[-1]), job.world_size)
            self.ends = self._one(torch.tensor([[*first, *last]]))

    def _boundary(self, number: int) -> tuple[Any, Any]:
        """Make the groups of both directions behind a stage."""
        ends = {number, (number + 1) % len(self.job.stages)}
        ranks = [self.job.ranks(stage) for stage in sorted(ends)]
        row = torch.cat([torch.tensor(own).flatten() for own in ranks])
        return self._one(row[None]), self._one(row[None])

    def _one(self, rows: Tensor) -> Any:
        """Make a group of every row; return that of this rank, None if it has none."""
        if rows.shape[1] == 1:
            return None
        made = [(row, dist.new_group(row)) for row in rows.tolist()]
        return next((group for row, group in made if self.rank in row), None)
