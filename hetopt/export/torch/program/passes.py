"""In which order a stage runs its passes, and which pass has the result of which.

A *pass* is one micro-batch on one chunk of a stage, numbered from 0 by when its forward
runs: with one chunk by its micro-batch. With v chunks a micro-batch goes through all p
stages v times, from the last stage back to the first in between. Every stage runs p
micro-batches through its first chunk, the same through its second, ..., then the next
p; backward likewise with the last chunk first.

Under zero bubble a backward pass is two: gradients of inputs (``B``), and those of
weights (``W``), which run later. The orders are those of PyTorch's
``ScheduleInterleavedZeroBubble`` with one stage a rank, and ``ScheduleZBVZeroBubble``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

#: Where a tensor comes from or goes to: the stage before or behind, round the ends; or
#: another chunk of the same stage.
Side = Literal["before", "behind", "here"]

#: What hands back the gradient of what a pass handed on, and the other way round.
OTHER = {"F": "B", "B": "F"}


@dataclass(frozen=True, kw_only=True)
class Passes:
    """The passes of every stage.

    Attributes
    ----------
    warmups
        W of each stage; length p.
    microbatches, chunks
        q and v; with v > 1, q is a multiple of p.
    """

    warmups: tuple[int, ...]
    microbatches: int
    chunks: int

    #: Whether gradients of weights are passes of their own.
    splits: ClassVar[bool] = False

    @property
    def stages(self) -> int:
        """Number of stages, p."""
        return len(self.warmups)

    @property
    def loss_stage(self) -> int:
        """The stage that has the head."""
        return self.stages - 1

    def order(self, stage: int) -> Iterator[tuple[str, int]]:
        """Yield F_1 .. F_W, B_1, F_(W+1), B_2, ... with numbers of passes."""
        count = self.microbatches * self.chunks
        first = min(self.warmups[stage], count)
        for number in range(first):
            yield "F", number
        for place in range(count):
            yield "B", self._backward(place)
            if first + place < count:
                yield "F", first + place

    def chunk_and_microbatch(self, number: int) -> tuple[int, int]:
        """Return the chunk and the micro-batch of a pass; all count from 0."""
        turn, place = divmod(number, self.stages)
        group, chunk = divmod(turn, self.chunks)
        return chunk, group * self.stages + place

    def source(self, kind: str, stage: int, number: int) -> tuple[Side, int] | None:
        """Return where the result that a pass takes comes from, and that pass's number.

        None where tokens come in, or the loss goes out.

        Parameters
        ----------
        kind
            ``F`` or ``B``.
        """
        chunk, _ = self.chunk_and_microbatch(number)
        if kind == "F":
            if stage:
                return "before", number
            return ("before", number - self.stages) if chunk else None
        if stage < self.stages - 1:
            return "behind", number
        return ("behind", number + self.stages) if chunk < self.chunks - 1 else None

    def target(self, kind: str, stage: int, number: int) -> Side | None:
        """Return where a pass's result goes; its gradient comes back from there."""
        found = self.source(OTHER[kind], stage, number)
        return None if found is None else found[0]

    def _backward(self, place: int) -> int:
        """Return the pass whose backward a stage runs at this place, from 0."""
        turn, rest = divmod(place, self.stages)
        group, back = divmod(turn, self.chunks)
        return (group * self.chunks + self.chunks - 1 - back) * self.stages + rest


class SplitPasses(Passes):
    """``zb-h1``: stage i, from 0, runs a W once it has run the B that is i later."""

    splits = True

    def order(self, stage: int) -> Iterator[tuple[str, int]]:
        """Yield F_1 .. F_W, B_1, F_(W+1), B_2, ..., and each W behind its B."""
        for kind, number in super().order(stage):
            yield kind, number
            if kind == "B" and number >= stage:
                yield "W", number - stage
        for number in range(max(0, self.microbatches - stage), self.microbatches):
            yield "W", number


class FoldedPasses(Passes):
    """``zb-v``: two chunks a stage, the second on the way back from the last stage.

    Pass 2 m + c is micro-batch m on chunk c. Embedding and head are on the first stage.
    """

    splits = True

    @property
    def loss_stage(self) -> int:
        """The stage that has the head."""
        return 0

    def order(self, stage: int) -> Iterator[tuple[str, int]]:
        """Yield what a stage runs; warm-ups follow from its place."""
        # What few micro-batches leave out does not change the order of the rest.
        enough = max(2 * self.stages - 1, self.microbatches)
        done: Counter[tuple[str, int]] = Counter()
        for kind, chunk in self._every(stage, enough):
            microbatch = done[kind, chunk]
            done[kind, chunk] += 1
            if microbatch < self.microbatches:
                yield kind, 2 * microbatch + chunk

    def _every(self, stage: int, enough: int) -> Iterator[tuple[str, int]]:
        """Yield kinds and chunks for so many micro-batches."""
        rest = self.stages - stage
        ahead = 2 * rest - 1 + stage
        yield from [("F", 0)] * (2 * rest - 1)
        yield from [("F", 1), ("F", 0)] * stage
        yield from [("F", 1), ("B", 1), ("W", 1)] * rest
        for number in range(self.stages, enough):
            if ahead + number - self.stages < enough:
                yield "F", 0
            yield from [("B", 0), ("W", 0), ("F", 1), ("B", 1), ("W", 1)]
        yield from [("B", 0), ("B", 1)] * stage
        yield from [("B", 0), ("W", 0)] * rest
        yield from [("W", 1)] * stage + [("W", 0)] * stage

    def chunk_and_microbatch(self, number: int) -> tuple[int, int]:
        """Return the chunk and the micro-batch of a pass; all count from 0."""
        return number % 2, number // 2

    def source(self, kind: str, stage: int, number: int) -> tuple[Side, int] | None:
        """Return where the result that a pass takes comes from, as for all."""
        way_back = number % 2 == 1
        if (kind == "F") != way_back:
            return ("before", number) if stage else None
        if stage < self.stages - 1:
            return "behind", number
        return "here", number - 1 if way_back else number + 1
