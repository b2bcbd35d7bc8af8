"""The gradients of a bucket in pieces: a box of each parameter for every copy of it.

A *box* is the part of a whole tensor that a rank has, a range of every dimension.
``parameter.box`` is what tensor parallelism leaves a rank (the whole tensor if it is
not set); the copies divide it along its longest side, and each sums its own piece.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from torch import Tensor, nn

from .groups import gather_parts

#: A range of each dimension of a whole tensor.
Box = tuple[range, ...]


def box_of(parameter: nn.Parameter) -> Box:
    """Return the box of a parameter in its whole tensor."""
    found: Box = getattr(parameter, "box", tuple(map(range, parameter.shape)))
    return found


def size_of(box: Box) -> int:
    """Return how many numbers a box has."""
    return math.prod(len(side) for side in box)


def common(one: Box, other: Box) -> Box | None:
    """Return the intersection of two boxes; None if it is empty."""
    sides = tuple(
        range(max(a.start, b.start), min(a.stop, b.stop))
        for a, b in zip(one, other, strict=True)
    )
    return sides if all(map(len, sides)) else None


def inside(whole: Box, part: Box) -> tuple[slice, ...]:
    """Return the place of a box within another one."""
    return tuple(
        slice(b.start - a.start, b.stop - a.start)
        for a, b in zip(whole, part, strict=True)
    )


def cut(box: Box, parts: int) -> list[Box]:
    """Divide a box along its longest side; parts may be empty."""
    side = max(range(len(box)), key=lambda n: len(box[n]))
    own = box[side]
    ends = [own.start + len(own) * n // parts for n in range(parts + 1)]
    return [
        (*box[:side], range(ends[n], ends[n + 1]), *box[side + 1 :])
        for n in range(parts)
    ]


class Pieces:
    """The pieces of one bucket.

    Attributes
    ----------
    boxes
        This rank's boxes, by parameter.
    own
        This rank's piece of the sums, (length,), parameter after parameter.

    Parameters
    ----------
    views
        The gradients of the parameters.
    copies
        The number of copies, and this rank's number among them.
    """

    def __init__(
        self,
        parameters: list[nn.Parameter],
        views: list[Tensor],
        copies: tuple[int, int],
    ) -> None:
        self.parts, rank = copies
        self.whole = [box_of(each) for each in parameters]
        self.views = views
        self.by_copy = [
            [cut(box, self.parts)[n] for box in self.whole] for n in range(self.parts)
        ]
        self.boxes = self.by_copy[rank]
        self.length = max(sum(map(size_of, boxes)) for boxes in self.by_copy)
        self.own = views[0].new_zeros(self.length)

    def packed(self) -> Tensor:
        """Return the gradients as a row for each copy, (copies, length)."""
        rows = self.own.new_zeros((self.parts, self.length))
        for row, boxes in zip(rows, self.by_copy, strict=True):
            for place, part in self._places(row, boxes):
                place.copy_(part)
        return rows

    def unpack(self, rows: Tensor) -> None:
        """Write rows as returned by ``packed`` into the gradients."""
        for row, boxes in zip(rows, self.by_copy, strict=True):
            for place, part in self._places(row, boxes):
                part.copy_(place)

    def spread(self, group: object) -> None:
        """Gather the pieces of all copies into the gradients."""
        if self.parts == 1:
            self.unpack(self.own[None])
        else:
            self.unpack(gather_parts(self.own, group, self.parts))

    def piece(self, number: int) -> Tensor:
        """Return this rank's piece of a parameter, in the shape of its box."""
        first = sum(map(size_of, self.boxes[:number]))
        box = self.boxes[number]
        return self.own[first : first + size_of(box)].view([len(side) for side in box])

    def _places(self, row: Tensor, boxes: list[Box]) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield for each parameter its place in a row, and the part that belongs there.

        Padding of a parameter, beyond its box, is not touched.
        """
        first = 0
        for whole, box, view in zip(self.whole, boxes, self.views, strict=True):
            shape = [len(side) for side in box]
            place = row[first : first + size_of(box)].view(shape)
            first += size_of(box)
            yield place, view[inside(whole, box)]
