"""Gradients summed over several pipelines (Hetu v2, 4.2).

Inside a pipeline the copies of a parameter have summed their gradients, each copy a
piece (``pieces``). Pipelines have different tensor-parallel degrees, so a piece of one
overlaps with several of another; the intersections of their boxes are *slices*. Every
pipeline is *home* to a part of each tensor: it adds the others' slices and sends the
sums back. So each rank sends and receives 2 (R - 1) / R of its piece, with R pipelines,
as hetopt prices it, and all pipelines have bitwise equal sums. All slices for one rank
go in one message.

The loss is divided by the tokens of the whole batch, so each pipeline's gradients are
weighted by its own sequences.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from .buckets import Bucket
from .groups import Place
from .pieces import Box, common, cut, inside, size_of

#: The ranks of a pipeline that have a box, by parameter and box.
Holders = dict[str, dict[Box, list[int]]]


class Slice(NamedTuple):
    """Part of one parameter that goes from one rank to another."""

    sender: int
    receiver: int
    key: str
    box: Box


class SideBySide:
    """One rank's part in the sum of gradients over all pipelines."""

    def __init__(self, place: Place, buckets: list[Bucket]) -> None:
        self.place = place
        #: By parameter: its bucket's pieces, and its number among them.
        self.held = {
            key: (bucket, number)
            for bucket in buckets
            for number, name in enumerate(bucket.names)
            for key in self._keys(bucket, name, number)
        }
        mine = {key: self._box(key) for key in self.held}
        everyone: list[dict[str, Box]] = [{} for _ in range(dist.get_world_size())]
        dist.all_gather_object(everyone, mine)
        self.holders = [
            _holders(everyone, range(job.first_of_all, job.end_rank))
            for job in place.jobs
        ]
        self.homes = {
            key: cut(_whole(list(boxes)), len(place.jobs))
            for key, boxes in self.holders[place.pipeline].items()
        }
        others = [n for n in range(len(place.jobs)) if n != place.pipeline]
        own = place.pipeline
        self.leaving = [each for n in others for each in self._slices(own, n, n)]
        self.arriving = [each for n in others for each in self._slices(n, own, own)]
        self.returning = [each for n in others for each in self._slices(own, n, own)]
        self.returned = [each for n in others for each in self._slices(n, own, n)]

    def add(self) -> None:
        """Replace this rank's pieces by those of the sums over all pipelines."""
        # A tied table on one stage has both keys: the second gets a copy.
        pieces: dict[str, Tensor] = {}
        seen: set[tuple[int, int]] = set()
        for key, (bucket, number) in self.held.items():
            assert bucket.pieces is not None
            piece = bucket.pieces.piece(number)
            at = id(bucket), number
            pieces[key] = piece.clone() if at in seen else piece
            seen.add(at)
        for each, part in self._exchange(self.leaving, self.arriving, pieces):
            pieces[each.key][inside(self._box(each.key), each.box)] += part
        for each, part in self._exchange(self.returning, self.returned, pieces):
            pieces[each.key][inside(self._box(each.key), each.box)] = part

    def _keys(self, bucket: Bucket, name: str, number: int) -> list[str]:
        """Return the names of a parameter that are the same in every pipeline.

        A tied table is held at both ends of the model, or by one stage for both.
        """
        if not hasattr(bucket.parameters[number], "tied_rows"):
            return [name]
        if not self.place.job.ties_ends:
            return ["tied first", "tied last"]
        return ["tied first" if self.place.is_first else "tied last"]

    def _box(self, key: str) -> Box:
        bucket, number = self.held[key]
        assert bucket.pieces is not None
        return bucket.pieces.boxes[number]

    def _slices(self, sender: int, receiver: int, home: int) -> list[Slice]:
        """Return the slices that this rank sends or receives between two pipelines.

        These are slices of the parts whose home is ``home``. Sender ranks with the same
        box (a norm in a tensor-parallel group, for example) take turns.
        """
        found = []
        rank = self.place.rank
        for key, boxes in sorted(self.holders[receiver].items()):
            if key not in self.held:
                continue
            for wanted, receivers in boxes.items():
                needed = common(wanted, self.homes[key][home])
                if needed is None:
                    continue
                for held, senders in self.holders[sender][key].items():
                    box = common(needed, held)
                    if box is None:
                        continue
                    for number, to in enumerate(receivers):
                        source = senders[number % len(senders)]
                        if rank in (source, to):
                            found.append(Slice(source, to, key, box))
        return found

    def _exchange(
        self, leaving: list[Slice], arriving: list[Slice], pieces: dict[str, Tensor]
    ) -> list[tuple[Slice, Tensor]]:
        """Send slices of pieces; return those that arrived."""
        out: dict[int, list[Tensor]] = defaultdict(list)
        into: dict[int, list[Slice]] = defaultdict(list)
        for each in leaving:
            part = pieces[each.key][inside(self._box(each.key), each.box)]
            out[each.receiver].append(part.flatten())
        for each in arriving:
            into[each.sender].append(each)
        sample = next(iter(pieces.values()))
        sizes = {
            sender: [size_of(each.box) for each in own] for sender, own in into.items()
        }
        rows = {sender: sample.new_empty(sum(own)) for sender, own in sizes.items()}
        self.place.world.exchange(
            [(n, torch.cat(out[n])) for n in sorted(out)], sorted(rows.items())
        )
        return [
            (each, part.view([len(side) for side in each.box]))
            for sender, own in into.items()
            for each, part in zip(own, rows[sender].split(sizes[sender]), strict=True)
        ]


def _holders(everyone: list[dict[str, Box]], ranks: range) -> Holders:
    """Return the ranks of each box, without empty boxes."""
    found: Holders = defaultdict(lambda: defaultdict(list))
    for rank in ranks:
        for key, box in everyone[rank].items():
            if size_of(box):
                found[key][box].append(rank)
    return found


def _whole(boxes: list[Box]) -> Box:
    """Return the box of the whole tensor that these boxes are parts of."""
    by_dimension = zip(*boxes, strict=True)
    return tuple(range(max(side.stop for side in sides)) for sides in by_dimension)
