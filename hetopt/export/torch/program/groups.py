"""A rank's coordinates in the job, and its process groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from .crossing import Crossing
from .job import Job, ranks_reached

# The names of PyTorch 2.13, else the older ones.
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

    The part is valid once ``work.wait()`` has returned.
    """
    parts = parts.contiguous()
    own = torch.empty_like(parts[0])
    work = _scatter(own.view(-1), parts.view(-1), group=group, async_op=True)
    return own, work


@dataclass(frozen=True, kw_only=True)
class Copies:
    """Ranks with the same weights, whose gradients are summed.

    Attributes
    ----------
    group, size, rank
        The ranks, how many, and this rank's number; group None if it is alone.
    """

    group: Any
    size: int
    rank: int


class Place:
    """A rank's coordinates in the job, and its process groups.

    Attributes
    ----------
    jobs, pipeline
        All pipelines of the job, and the number of this rank's, from 0.
    job, plan
        This rank's pipeline and stage.
    rank, stage
        Numbers of this rank among all ranks, and of its stage, from 0.
    dp, cp, tp
        Coordinates within the stage, from 0.
    ep
        Number of the part of the experts that this rank has, from 0.
    etp
        Number of the part of their matrices, from 0.
    positions
        Positions of this rank's tokens within a sequence, int64 (n,).
    sequences
        The sequences of a micro-batch that this rank has.
    tensor, context
        Ranks that share the matrices (tp) and a sequence (cp). None for a group of one.
    spread, cutters
        Ranks that routed experts are spread over (ep), and that share the matrices of
        the same ones (etp). None for a group of one.
    copies, expert_copies
        Ranks with the same weights: those of dp and cp together, and, for routed
        experts, all of the stage that have the same ones.
    sharers
        Ranks of ``tensor`` with the same key-value head, if there are more ranks than
        heads; else None.
    forward, backward
        The boundaries (before, behind) this stage, in the direction down and up the
        pipeline (activations and gradients, unless it is folded); None where there is
        no boundary. With several chunks, the first stage is behind the last.
    ends
        Ranks of the first and the last stage if both have the tied table; else None.
    losses
        Ranks with the heads of all pipelines, if there are several; else None.
    reached
        Ranks that this one reaches directly, itself included.
    world
        All ranks.
    """

    def __init__(self, jobs: tuple[Job, ...], rank: int, device: torch.device) -> None:
        self.jobs, self.rank, self.device = jobs, rank, device
        self.pipeline = next(n for n, job in enumerate(jobs) if rank < job.end_rank)
        self.job = job = jobs[self.pipeline]
        stages = range(len(job.stages))
        self.stage = next(n for n in stages if rank < job.first_rank(n + 1))
        self.plan = job.stages[self.stage]
        within, self.tp = divmod(rank - job.first_rank(self.stage), self.plan.tp)
        self.dp, self.cp = divmod(within, self.plan.cp)
        number = rank - job.first_rank(self.stage)
        self.ep, self.etp = divmod(number % self.plan.expert_ranks, self.plan.etp)
        self.positions = job.tokens_of(self.stage, self.cp)
        self.sequences = job.rows(self.stage, self.dp)
        self.cluster = job.cluster(self.stage)
        self.reached = frozenset(ranks_reached(jobs, self.cluster.group))
        self._make_groups()

    @property
    def is_first(self) -> bool:
        """Whether this stage takes tokens."""
        return self.stage == 0

    @property
    def has_loss(self) -> bool:
        """Whether this stage has the head."""
        return self.stage == self.job.passes.loss_stage

    @property
    def splits_tokens(self) -> bool:
        """Whether tp splits the tokens outside of matrices (sequence parallelism)."""
        return self.job.sequence_parallel and self.plan.tp > 1

    @cached_property
    def angles(self) -> tuple[Tensor, Tensor]:
        """Cosines and sines of rotary embeddings, (n, 1, d / 2), for all layers."""
        half = self.job.model["head_dim"] // 2
        rates = self.job.model["rotary_base"] ** (-torch.arange(half) / half)
        turned = (self.positions[:, None] * rates)[:, None, :].to(self.device)
        return turned.cos(), turned.sin()

    def _make_groups(self) -> None:
        """Make all groups in the same order on every rank; keep this rank's own."""
        self.tensor = self.context = self.sharers = self.spread = self.cutters = None
        self.ends: Crossing | None = None
        self.losses: Crossing | None = None
        self.world = self._all()
        same = same_experts = None
        for job in self.jobs:
            same = self._make_stage_groups(job) or same
            same_experts = self._make_expert_groups(job) or same_experts
            stages = range(len(job.stages))
            both = [self._boundary(job, number) for number in range(job.boundaries)]
            both += [(None, None)] * (len(stages) - job.boundaries)
            if job is self.job:
                before, behind = both[self.stage - 1], both[self.stage]
                self.forward, self.backward = zip(before, behind, strict=True)
            if job.ties_ends:
                ends = [(job, 0), (job, stages[-1])]
                self.ends = self._crossing(ends) or self.ends
        if len(self.jobs) > 1:
            heads = [(job, job.passes.loss_stage) for job in self.jobs]
            self.losses = self._crossing(heads)
        replica = self.dp * self.plan.cp + self.cp
        self.copies = Copies(group=same, size=self.plan.replicas, rank=replica)
        size, shared = self.plan.devices, self.plan.expert_ranks
        rank = (self.rank - self.job.first_rank(self.stage)) // shared
        self.expert_copies = Copies(group=same_experts, size=size // shared, rank=rank)

    def _make_stage_groups(self, job: Job) -> Any:
        """Make the groups inside the stages; return that of this rank's replicas."""
        same = None
        for number, plan in enumerate(job.stages):
            ranks = torch.tensor(job.ranks(number))
            shared = max(plan.tp // int(job.model["kv_heads"]), 1)
            self.tensor = self._one(ranks.reshape(-1, plan.tp)) or self.tensor
            across = ranks.movedim(1, 2).reshape(-1, plan.cp)
            self.context = self._one(across) or self.context
            same = self._one(ranks.movedim(2, 0).reshape(plan.tp, -1)) or same
            self.sharers = self._one(ranks.reshape(-1, shared)) or self.sharers
        return same

    def _make_expert_groups(self, job: Job) -> Any:
        """Make the groups of routed experts, if the model has them.

        A stage's ranks are divided by ep and etp; those that share an expert are next
        to one another. Returns the group of ranks with the same experts.
        """
        same = None
        for number, plan in enumerate(job.stages if job.experts else ()):
            ranks = torch.tensor(job.ranks(number)).reshape(-1, plan.ep, plan.etp)
            across = ranks.movedim(1, 2).reshape(-1, plan.ep)
            self.spread = self._one(across) or self.spread
            self.cutters = self._one(ranks.reshape(-1, plan.etp)) or self.cutters
            same = self._one(ranks.flatten(1).T) or same
        return same

    def _boundary(
        self, job: Job, number: int
    ) -> tuple[Crossing | None, Crossing | None]:
        """Make the groups of both directions behind a stage."""
        ends = sorted({number, (number + 1) % len(job.stages)})
        stages = [(job, stage) for stage in ends]
        inside = job.stages[number].resharding != "p2p"
        return self._crossing(stages, inside), self._crossing(stages, inside)

    def _crossing(
        self, stages: list[tuple[Job, int]], inside: bool = False
    ) -> Crossing | None:
        """Make the groups of all ranks of some stages; None if this is none of them.

        Parameters
        ----------
        inside
            Whether ranks of one stage also exchange among themselves.
        """
        rows = [torch.tensor(job.ranks(stage)).flatten() for job, stage in stages]
        alike = len({job.cluster(stage).group for job, stage in stages}) == 1
        whole, near = self._one(torch.cat(rows)[None]), None
        for row in () if alike or not inside else rows:
            near = self._one(row[None]) or near
        if whole is None:
            return None
        if alike:
            return Crossing(near=whole)
        return Crossing(near=near, far=whole, reached=self.reached)

    def _all(self) -> Crossing:
        """Make the groups of all ranks."""
        if not self.job.is_mixed:
            return Crossing(near=dist.group.WORLD)
        near, groups = None, {each.group for each in self.job.clusters.values()}
        # Only gradients of several pipelines are worth groups of their own.
        for group in sorted(groups) if len(self.jobs) > 1 else ():
            row = torch.tensor(list(ranks_reached(self.jobs, group)))
            near = self._one(row[None]) or near
        if near is not None:
            # On NCCL all ranks of a group have to take part in its first messages.
            dist.barrier(group=near)
        return Crossing(near=near, far=dist.group.WORLD, reached=self.reached)

    def _one(self, rows: Tensor) -> Any:
        """Make a group of every row; return this rank's, None if it has none."""
        if rows.shape[1] == 1:
            return None
        made = [(row, self._new(row)) for row in rows.tolist()]
        return next((group for row, group in made if self.rank in row), None)

    def _new(self, row: list[int]) -> Any:
        """Make a group: on the cluster's own library if all reach each other."""
        own = self.job.is_mixed and self.reached.issuperset(row)
        return dist.new_group(row, backend=self.cluster.backend if own else None)
