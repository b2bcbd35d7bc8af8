"""The numbers that ranks hold, by position, before and after states move."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from .ordering import Numbers, Order, Part, Row, Segment
from .pieces import inside

#: Numbers of a row: weights (n,), or optimizer states (n, states).
Key = tuple[Row, str]


class Move(NamedTuple):
    """One line of a file of moves; sender and receiver are devices."""

    key: Key
    begin: int
    end: int
    sender: str
    receiver: str
    bytes: int


def read_moves(path: Path) -> list[Move]:
    """Read what ``hetopt replan --moves`` wrote."""
    found = []
    with path.open(newline="") as lines:
        for line in csv.DictReader(lines):
            unit, part, state = line["tensor"].split(".")
            row = int(unit.removeprefix("unit-")), part == "routed"
            found.append(
                Move(
                    key=(row, state),
                    begin=int(line["begin"]),
                    end=int(line["end"]),
                    sender=line["from"],
                    receiver=line["to"],
                    bytes=int(line["bytes"]),
                )
            )
    return found


class Held:
    """The numbers that a rank holds, or will hold, by row and state."""

    def __init__(self, order: Order, parts: list[Part]) -> None:
        self.parts = {part.name: part for part in parts}
        rows = sorted({part.row for part in parts})
        self.numbers = {row: Numbers(order, row, self.parts) for row in rows}
        self.values: dict[Key, Tensor] = {}

    def fill(self, tensors: dict[str, dict[str, Tensor]]) -> None:
        """Load tensors by state and parameter: (*shape), or (*shape, states)."""
        for state, by_name in tensors.items():
            for row, numbers in self.numbers.items():
                flat = [
                    by_name[each.name][self._at(each)].flatten(0, len(each.box) - 1)
                    for each in numbers.segments
                ]
                self.values[row, state] = torch.cat(flat)

    def tensors(self, state: str) -> dict[str, Tensor]:
        """Return one state's tensors as given to ``fill``, with zeros as padding."""
        found: dict[str, Tensor] = {}
        for row, numbers in self.numbers.items():
            first, flat = 0, self.values[row, state]
            for each in numbers.segments:
                part = self.parts[each.name]
                if each.name not in found:
                    shape = (*part.shape, *flat.shape[1:])
                    found[each.name] = flat.new_zeros(shape)
                place = found[each.name][self._at(each)]
                end = first + place.numel() // max(1, flat[0].numel())
                place.copy_(flat[first:end].view_as(place))
                first = end
        return found

    def has(self, move: Move) -> bool:
        """Whether this rank holds all numbers of a move."""
        own = self.numbers.get(move.key[0])
        places = () if own is None else own.where(move.begin, move.end)
        here: int = sum(at.stop - at.start for _, at in places)
        return here == move.end - move.begin

    def take(self, move: Move) -> Tensor:
        """Return the numbers of a move as bytes.

        Raises
        ------
        ValueError
            They are not all here, or their size differs from that of the move.
        """
        key, begin, end = move.key, move.begin, move.end
        own = self.numbers.get(key[0])
        places = () if own is None else own.where(begin, end)
        flat = [self.values[key][at] for _, at in places]
        found = torch.cat(flat) if flat else torch.empty(0)
        if len(found) != end - begin or found.nbytes != move.bytes:
            msg = (
                f"{name_of(key)}: {move.sender} does not hold positions {begin} to "
                f"{end} as the moves expect them: do the moves belong to this "
                "checkpoint and this plan?"
            )
            raise ValueError(msg)
        return found.contiguous().view(-1).view(torch.uint8)

    def _at(self, segment: Segment) -> tuple[slice, ...]:
        return inside(self.parts[segment.name].box, segment.box)


class Arriving:
    """The numbers that a rank will hold, filled in as data arrive.

    Parameters
    ----------
    samples
        An empty tensor of each state, with its type and shape.
    """

    def __init__(self, held: Held, samples: dict[str, Tensor]) -> None:
        self.held = held
        self._there: dict[Key, Tensor] = {}
        for row, numbers in held.numbers.items():
            for state, sample in samples.items():
                shape = (numbers.length, *sample.shape[1:])
                held.values[row, state] = sample.new_zeros(shape)
                self._there[row, state] = torch.zeros(numbers.length, dtype=torch.bool)

    def keep(self, old: Held) -> None:
        """Copy what the device held before and still needs."""
        for (row, state), values in old.values.items():
            if row not in self.held.numbers:
                continue
            mine = self.held.numbers[row]
            for first, last, number in old.numbers[row].spans:
                for begin, at in mine.where(first, last):
                    start = number + begin - first
                    flat = values[start : start + at.stop - at.start]
                    self._put((row, state), at, flat)

    def add(self, move: Move, data: Tensor) -> None:
        """Store the data of one move, given as bytes."""
        sample = self.held.values[move.key]
        flat = data.view(sample.dtype).view(-1, *sample.shape[1:])
        numbers = self.held.numbers[move.key[0]]
        for begin, at in numbers.where(move.begin, move.end):
            start = begin - move.begin
            self._put(move.key, at, flat[start : start + at.stop - at.start])

    def ensure_all(self) -> None:
        """Raise ValueError if numbers are still missing."""
        for key, there in self._there.items():
            if not there.all():
                msg = (
                    f"{name_of(key)}: no move provides {int((~there).sum())} numbers: "
                    "do the moves belong to this plan?"
                )
                raise ValueError(msg)

    def _put(self, key: Key, at: slice, flat: Tensor) -> None:
        self.held.values[key][at] = flat
        self._there[key][at] = True


def name_of(key: Key) -> str:
    """Return a tensor's name in files of moves."""
    (unit, routed), state = key
    return f"unit-{unit}.{'routed' if routed else 'dense'}.{state}"
