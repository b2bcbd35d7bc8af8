"""Where a rank is, and the groups of ranks that it works with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .job import Job

#: The names of PyTorch 2.13, else those before.
gather_into: Callable[..., Any] = (
    getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
)
scatter_into: Callable[..., Any] = (
    getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
)


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
    tensor, context, replicas
        Ranks that share the matrices, a sequence, and the weights: the groups of tp, of
        cp, and of dp and cp together. None for a group of one.
    sharers
        Ranks of ``tensor`` with the same key-value head, if there are more ranks than
        heads; else None.
    forward, backward
        Groups of the boundaries before and behind this stage, for activations and for
        their gradients: (before, behind); None where there is no boundary.
    ends
        Ranks of the first and the last stage if both have the tied table; else None.
    """

    def __init__(self, job: Job, rank: int, device: torch.device) -> None:
        self.job, self.rank, self.device = job, rank, device
        self.stage = next(
            number
            for number in range(len(job.stages))
            if rank < self.first_rank(number + 1)
        )
        self.plan = job.stages[self.stage]
        within, self.tp = divmod(rank - self.first_rank(self.stage), self.plan.tp)
        self.dp, self.cp = divmod(within, self.plan.cp)
        self._make_groups()

    def first_rank(self, stage: int) -> int:
        """Return the first rank of a stage, the world's size behind the last."""
        return sum(each.devices for each in self.job.stages[:stage])

    def ranks(self, stage: int) -> list[list[list[int]]]:
        """Return the ranks of a stage by dp, cp and tp."""
        plan, first = self.job.stages[stage], self.first_rank(stage)
        numbers = torch.arange(first, first + plan.devices)
        shaped: list[list[list[int]]] = numbers.reshape(
            plan.dp, plan.cp, plan.tp
        ).tolist()
        return shaped

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

    def tokens_of(self, stage: int, cp: int) -> Tensor:
        """Positions of the tokens of one cp rank of a stage.

        A piece from each end of the sequence, so that causal attention is even.
        """
        ranks, length = self.job.stages[stage].cp, self.job.seq_len
        if ranks == 1:
            return torch.arange(length)
        pieces = torch.arange(length).chunk(2 * ranks)
        return torch.cat([pieces[cp], pieces[2 * ranks - 1 - cp]])

    def rows(self, stage: int, dp: int) -> range:
        """Sequences of a micro-batch that a replica of a stage has."""
        each = self.job.sequences // self.job.stages[stage].dp
        return range(dp * each, (dp + 1) * each)

    def _make_groups(self) -> None:
        """Make all groups; every rank makes its own in the same order."""
        plan, mine = self.plan, torch.tensor(self.ranks(self.stage))
        self.tensor = _own(mine.reshape(-1, plan.tp).tolist(), self.rank)
        self.context = _own(mine.movedim(1, 2).reshape(-1, plan.cp).tolist(), self.rank)
        replicas = mine.movedim(2, 0).reshape(plan.tp, -1)
        self.replicas = _own(replicas.tolist(), self.rank)
        shared = max(plan.tp // int(self.job.model["kv_heads"]), 1)
        self.sharers = _own(mine.reshape(-1, shared).tolist(), self.rank)
        stages = [
            list(range(self.first_rank(n), self.first_rank(n + 1)))
            for n in range(len(self.job.stages))
        ]
        self.forward: tuple[Any, Any] = (None, None)
        self.backward: tuple[Any, Any] = (None, None)
        # All boundaries in order, since a rank may be at two of them.
        before, behind = [], []
        for number in (self.stage - 1, self.stage):
            both = sum(stages[max(number, 0) : number + 2], [])
            exists = 0 <= number < len(stages) - 1
            made = [_group(both) if exists else None for _ in range(2)]
            (before if number < self.stage else behind).extend(made)
        self.forward = (before[0], behind[0])
        self.backward = (before[1], behind[1])
        tied = self.job.model["tied"] and len(stages) > 1
        at_end = tied and (self.is_first or self.is_last)
        self.ends = _group(stages[0] + stages[-1]) if at_end else None


def _own(rows: Iterable[list[int]], rank: int) -> Any:
    """Make the group of the row that a rank is in; None if it is alone there."""
    row = next(each for each in rows if rank in each)
    return _group(row) if len(row) > 1 else None


def _group(ranks: list[int]) -> Any:
    return dist.new_group(ranks, use_local_synchronization=True)
