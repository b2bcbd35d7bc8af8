"""Who sends which tokens to whom at a boundary, under each way of resharding.

The tensor of a micro-batch is (sequences * s) tokens, numbered sequence by sequence. A
*holding* says which tokens each rank has, and in which order. A way of resharding is a
sequence of holdings, from the sender's layout to the receiver's; between two of them
every rank gets the tokens it lacks from a rank that has them. The batch is divided in
gcd(d, d') parts that both stages' replicas align with, and each part is sent by itself:

``p2p``
    directly from the sender's layout to the receiver's;
``leader``
    one rank of each side has the whole part: gather, one message, scatter;
``inner-dp``
    the ranks of the first inner replica together have the part;
``send-recv-all-gather``
    all receivers get equally long runs, from as few senders as possible; then all
    receivers get all runs, and each keeps its own tokens.

Equal layouts send from peer to peer under all four. Of a tensor whose columns tensor
parallelism splits, numbers stand for runs of columns of a token instead of tokens (see
``job.Carried``). Where the two sides have different
cp, a rank's two pieces of a sequence overlap with more ranks than contiguous slices do,
so there are more messages than the table prices; their bytes are the same.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from math import gcd
from typing import TypeAlias

import torch
from torch import Tensor

from .job import Carried, Job

#: The tokens of each rank, in the order of its tensor.
Holding = dict[int, Tensor]

#: Rows of a tensor: all in their order, or those with given numbers.
Select: TypeAlias = Tensor | slice
ALL = slice(None)


@dataclass(frozen=True, kw_only=True)
class Step:
    """What one rank does between two holdings.

    Attributes
    ----------
    sends
        Receiver, and the rows of the tensor to send; ascending by receiver.
    receives
        Sender, the rows of the next tensor that it fills, and how many; ascending by
        sender.
    kept
        Rows of the tensor that stay, and their rows in the next tensor; one pair or
        none.
    rows
        Number of rows of the next tensor.
    """

    sends: tuple[tuple[int, Select], ...]
    receives: tuple[tuple[int, Select, int], ...]
    kept: tuple[tuple[Select, Select], ...]
    rows: int


def steps_of(
    job: Job,
    rank: int,
    ends: tuple[int, int],
    way: str,
    device: torch.device,
    carried: Carried,
) -> list[Step]:
    """Return a rank's steps of a tensor from one stage to another, ``ends``."""
    total = job.sequences * job.seq_len * carried.runs
    holdings = holdings_of(job, ends, way, carried.runs)
    return [
        step_of(rank, before, after, total, device)
        for before, after in itertools.pairwise(holdings)
    ]


def holdings_of(
    job: Job, ends: tuple[int, int], way: str, runs: int = 1
) -> list[Holding]:
    """Return who has which tokens, or runs, before, between and after the steps."""
    sender, receiver = ends
    first, last = _layout(job, sender, runs), _layout(job, receiver, runs)
    same = [_degrees(job, stage) for stage in (sender, receiver)]
    if way == "p2p" or same[0] == same[1]:
        return [first, last]
    between: list[Holding] = [{}, {}]
    outer = gcd(same[0][0], same[1][0])
    for part in range(outer):
        ranks = [_part(job, stage, part, outer) for stage in (sender, receiver)]
        if way == "send-recv-all-gather":
            flat = torch.cat([first[rank] for rank in ranks[0]])
            parts = flat.chunk(len(ranks[1]))
            between[0] |= dict(zip(ranks[1], parts, strict=True))
            between[1] |= dict.fromkeys(ranks[1], flat)
            continue
        for side, (held, own) in enumerate(zip((first, last), ranks, strict=True)):
            shards = same[side][1] if way == "inner-dp" else 1
            for shard in range(shards):
                tokens = torch.cat([held[rank] for rank in own[shard::shards]])
                between[side][own[shard]] = tokens
    return [first, *between, last]


def _degrees(job: Job, stage: int) -> tuple[int, int]:
    """Return dp, and the number of ranks that share a sequence, cp * tp."""
    plan = job.stages[stage]
    return plan.dp, plan.cp * plan.tp


def _part(job: Job, stage: int, part: int, outer: int) -> list[int]:
    """Return the ranks of a stage that have one part of the batch, in order."""
    replicas = job.ranks(stage)
    inner = len(replicas) // outer
    own = replicas[part * inner : (part + 1) * inner]
    return [rank for replica in own for row in replica for rank in row]


def _layout(job: Job, stage: int, runs: int) -> Holding:
    """Return the tokens of each rank of a stage; tp splits those of a cp rank.

    This is the same without sequence parallelism: ranks then gather what they received.
    With several runs, run r of token n is number ``n * runs + r``; tp splits the runs.
    """
    length, found = job.seq_len, {}
    for dp, replica in enumerate(job.ranks(stage)):
        starts = torch.tensor(job.rows(stage, dp)) * length
        for cp, row in enumerate(replica):
            tokens = job.tokens_of(stage, cp)
            numbers = tokens[:, None] * runs + torch.arange(runs)
            parts = numbers.chunk(len(row), 1 if runs > 1 else 0)
            for rank, own in zip(row, parts, strict=True):
                found[rank] = (starts[:, None] * runs + own.flatten()).flatten()
    return found


def step_of(
    rank: int, before: Holding, after: Holding, total: int, device: torch.device
) -> Step:
    """Return what a rank does between two holdings of ``total`` tokens."""
    owner = torch.full((total,), -1)
    for holder, tokens in before.items():
        owner[tokens] = holder
    mine = torch.full((total,), -1)
    size = len(before.get(rank, ()))
    if size:
        mine[before[rank]] = torch.arange(size)
    sends, receives, kept = [], [], []

    def select(rows: Tensor, of: int) -> Select:
        whole = len(rows) == of and bool((rows == torch.arange(of)).all())
        return ALL if whole else rows.to(device)

    for other, tokens in sorted(after.items()):
        sources = owner[tokens]
        if other in before:
            # A rank keeps the tokens that it already has.
            sources[torch.isin(tokens, before[other])] = other
        if other != rank:
            wanted = mine[tokens[sources == rank]]
            if len(wanted):
                sends.append((other, select(wanted, size)))
            continue
        for source in sources.unique().tolist():
            at = (sources == source).nonzero().flatten()
            where = select(at, len(tokens))
            if source == rank:
                kept.append((select(mine[tokens[at]], size), where))
            else:
                receives.append((source, where, len(at)))
    return Step(
        sends=tuple(sends),
        receives=tuple(receives),
        kept=tuple(kept),
        rows=len(after.get(rank, ())),
    )
