"""The order in which files of moves number a unit's parameters, and a rank's numbers.

Rank i of t has the i-th of t equal parts of what tensor parallelism splits, for every
degree t of the two plans. So all split parameters of a unit are cut in as many pieces
as the least common multiple of the degrees: first come the first pieces of all
parameters, then the second ones, ...; then what every rank has. Routed experts are a
row of their own: piece by piece the parts of their matrices, one expert after another.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from .pieces import Box, common, size_of

#: A unit, and whether it is the row of its routed experts.
Row = tuple[int, bool]


class Part(NamedTuple):
    """A rank's part of one parameter.

    Attributes
    ----------
    name
        ``units.INDEX.NAME``.
    shape
        Shape of its tensor, which may be padded beyond the box.
    box
        Its place in the whole tensor.
    routed
        Whether it belongs to routed experts, which are the first dimension.
    """

    name: str
    shape: tuple[int, ...]
    box: Box
    routed: bool

    @classmethod
    def of(cls, plain: Sequence[Any]) -> Part:
        """Return a part from the tuple that ``plain`` returned."""
        name, shape, box, routed = plain
        sides = tuple(range(first, end) for first, end in box)
        return cls(name, tuple(shape), sides, routed)

    @property
    def plain(self) -> tuple[Any, ...]:
        """The part as a plain tuple, for checkpoints."""
        sides = [(side.start, side.stop) for side in self.box]
        return self.name, self.shape, sides, self.routed

    @property
    def row(self) -> Row:
        """The row that it belongs to."""
        return int(self.name.split(".")[1]), self.routed


class Segment(NamedTuple):
    """Part of a parameter, and the position of its first number."""

    begin: int
    name: str
    box: Box


class Order:
    """The order of the numbers of every unit.

    Parameters
    ----------
    ranks
        The parts of each rank, before and after the moves.

    Raises
    ------
    ValueError
        Ranks have parts of unequal size, or share key and value heads.
    """

    def __init__(self, ranks: Iterable[Iterable[Part]]) -> None:
        known = [list(own) for own in ranks]
        self._whole: dict[str, Box] = {}
        for part in chain(*known):
            before = self._whole.get(part.name, part.box)
            self._whole[part.name] = tuple(
                range(max(a.stop, b.stop))
                for a, b in zip(before, part.box, strict=True)
            )
        #: By row, its parameters.
        self._names: dict[Row, set[str]] = defaultdict(set)
        #: By name of a cut parameter, the dimension along which ranks cut it.
        self._sides: dict[str, int] = {}
        for part in chain(*known):
            self._names[part.row].add(part.name)
            side = self._side(part)
            if side is not None:
                self._sides[part.name] = side
        self._cut_experts_alike(chain(*known))
        #: By row, the number of pieces; None stands for the rows of all experts.
        self._cuts: dict[Row | None, int] = defaultdict(lambda: 1)
        for own in known:
            self._see(own)

    def segments(self, row: Row) -> Iterator[Segment]:
        """Yield the segments of a row in their order."""
        names, begin = sorted(self._names[row]), 0
        cut = [name for name in names if name in self._sides]
        whole = [name for name in names if name not in self._sides]
        boxes = (*self._pieces(row, cut), *self._by_expert(row, whole))
        for name, box in boxes:
            yield Segment(begin, name, box)
            begin += size_of(box)

    def _cut_experts_alike(self, parts: Iterable[Part]) -> None:
        """Cut experts that no rank cuts in the dimension of other units' experts."""
        alike = {_inside(name): side for name, side in self._sides.items()}
        for part in parts:
            if part.routed and _inside(part.name) in alike:
                self._sides.setdefault(part.name, alike[_inside(part.name)])

    def _side(self, part: Part) -> int | None:
        """Return the dimension along which a part is cut; None if it is whole."""
        whole = self._whole[part.name]
        # The first dimension of experts is not cut: it counts experts.
        for side in range(part.routed, len(whole)):
            if len(part.box[side]) < len(whole[side]):
                return side
        return None

    def _see(self, own: Iterable[Part]) -> None:
        """Update the numbers of pieces by the parts of one rank."""
        found: dict[Row, set[tuple[int, int]]] = defaultdict(set)
        for part in own:
            if part.name not in self._sides:
                continue
            side = self._sides[part.name]
            mine, every = part.box[side], len(self._whole[part.name][side])
            if not mine or every % len(mine) or mine.start % len(mine):
                msg = (
                    f"{part.name}: a rank has {len(mine)} of {every}, which is not an "
                    "equal part, as files of moves need: choose sizes that tp divides"
                )
                raise ValueError(msg)
            parts = every // len(mine)
            found[part.row].add((parts, mine.start // len(mine)))
            key = None if part.routed else part.row
            self._cuts[key] = math.lcm(self._cuts[key], parts)
        for (unit, _), parts_of in found.items():
            if len(parts_of) > 1:
                msg = (
                    f"unit {unit}: tensor-parallel ranks share key and value heads, "
                    "of which moves are not known: choose tp of at most kv_heads"
                )
                raise ValueError(msg)

    def _pieces(self, row: Row, names: list[str]) -> Iterator[tuple[str, Box]]:
        """Yield the first pieces of all cut parameters, then the second ones, ..."""
        cuts = self._cuts[None if row[1] else row]
        for piece in range(cuts):
            for name, box in self._by_expert(row, names):
                side = self._sides[name]
                ends = [len(box[side]) * n // cuts for n in (piece, piece + 1)]
                yield name, (*box[:side], range(*ends), *box[side + 1 :])

    def _by_expert(self, row: Row, names: list[str]) -> Iterator[tuple[str, Box]]:
        """Yield whole parameters; routed ones as the matrices of each expert."""
        if not row[1]:
            yield from ((name, self._whole[name]) for name in names)
            return
        for expert in self._whole[names[0]][0] if names else ():
            for name in names:
                yield name, (range(expert, expert + 1), *self._whole[name][1:])


class Numbers:
    """A rank's numbers of one row, in the row's order.

    Attributes
    ----------
    segments
        The segments that it has, in order.
    length
        Their total count of numbers.
    """

    def __init__(self, order: Order, row: Row, parts: Mapping[str, Part]) -> None:
        self.segments = [
            each
            for each in order.segments(row)
            if each.name in parts and common(parts[each.name].box, each.box) == each.box
        ]
        #: Contiguous spans: first position, end position, index of the first number.
        self.spans: list[tuple[int, int, int]] = []
        self.length = 0
        for segment in self.segments:
            end = segment.begin + size_of(segment.box)
            if self.spans and self.spans[-1][1] == segment.begin:
                first, _, number = self.spans[-1]
                self.spans[-1] = (first, end, number)
            else:
                self.spans.append((segment.begin, end, self.length))
            self.length += end - segment.begin

    def where(self, begin: int, end: int) -> Iterator[tuple[int, slice]]:
        """Yield what a rank has in [begin, end): first position, own indices."""
        for first, last, number in self.spans:
            start, stop = max(first, begin), min(last, end)
            if start < stop:
                yield start, slice(number + start - first, number + stop - first)


def _inside(name: str) -> str:
    """Return a parameter's name inside its unit."""
    return name.split(".", 2)[2]
