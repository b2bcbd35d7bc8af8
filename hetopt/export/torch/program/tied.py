"""The gradient of a tied table that the first and the last stage both hold.

Each stage sums its own part over its replicas, and every rank sends a piece of that sum
to the other end: what arrives is added on one replica, so that the later sum over all
replicas contains it once.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from .buckets import Bucket
from .groups import Place
from .routes import Holding, step_of


class TiedTable:
    """One rank's rows of the table, and what it exchanges with the other end."""

    def __init__(self, place: Place, buckets: list[Bucket]) -> None:
        self.place = place
        tables = [
            (bucket, number)
            for bucket in buckets
            for number, each in enumerate(bucket.parameters)
            if hasattr(each, "tied_rows")
        ]
        if len(tables) != 1:
            msg = (
                f"the model is tied, but stage {place.stage} has {len(tables)} "
                "parameters with tied_rows, expected one (see program/units.py)"
            )
            raise ValueError(msg)
        self.bucket, self.number = tables[0]
        table = self.bucket.parameters[self.number]
        self.first_row = table.tied_rows.start
        stages = len(place.job.stages)
        mine, other = (place.stage, stages - 1 - place.stage)
        own = self._pieces(mine)
        vocab = int(place.job.model["vocab"])
        # Each end's pieces go to the ranks with the same rows at the other end.
        self.piece = own[place.rank] - self.first_row
        theirs = self._pieces(other)
        self.out = step_of(place.rank, own, theirs, vocab, place.device)
        self.into = step_of(place.rank, theirs, own, vocab, place.device)

    def exchange(self) -> None:
        """Add the other end's gradient to this end's."""
        table = self.bucket.view(self.bucket.gradients, self.number)
        total = table.clone()
        if self.place.copies.group is not None:
            dist.all_reduce(total, group=self.place.copies.group)
        piece = self.piece.to(table.device)
        table[piece] += self._cross(total[piece])

    def _cross(self, x: Tensor) -> Tensor:
        arriving = [
            (source, at, x.new_empty((count, x.shape[1])))
            for source, at, count in self.into.receives
        ]
        leaving = [(to, x[rows].contiguous()) for to, rows in self.out.sends]
        assert self.place.ends is not None
        self.place.ends.exchange(leaving, [(n, part) for n, _, part in arriving])
        found = torch.empty_like(x)
        for _, at, part in arriving:
            found[at] = part
        return found

    def _pieces(self, stage: int) -> Holding:
        """Return the rows of the table that each rank of a stage sends and receives."""
        plan, vocab = self.place.job.stages[stage], int(self.place.job.model["vocab"])
        each = -(-vocab // plan.tp)
        found = {}
        for dp, replica in enumerate(self.place.job.ranks(stage)):
            for cp, row in enumerate(replica):
                for tp, rank in enumerate(row):
                    own = torch.arange(vocab)[tp * each : (tp + 1) * each]
                    pieces = own.tensor_split(plan.replicas)
                    found[rank] = pieces[dp * plan.cp + cp]
        return found
