"""The order in which a stage runs its passes, and which pass uses the result of which.

A *pass* is one micro-batch on one chunk of a stage, numbered from 0 in the order of
forward passes: with one chunk the number of its micro-batch. With v chunks a
micro-batch goes down all p stages v times, returning from the last stage to the first
in between. Every stage runs p micro-batches through its first chunk, the same ones
through its second, ..., then the next p; backward likewise with the last chunk first.

Under zero bubble a backward pass is split in two: gradients of inputs (``B``), and
those of weights (``W``), which run later. The orders are those of PyTorch's
``ScheduleInterleavedZeroBubble`` with one stage a rank, and ``ScheduleZBVZeroBubble``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

#: Where a tensor comes from or goes to: the stage before or behind (modulo the number
#: of stages), or another chunk of the same stage.
Side = Literal["before", "behind", "here"]

#: The kind of pass that returns the gradient of this kind's result, and vice versa.
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
        """Yield F_1 .. F_W, B_1, F_(W+1), B_2, ... as kinds and numbers of passes."""
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
        """Return where the input of a pass comes from, and the pass that computes it.

        None for the forward pass that reads tokens, and the backward pass of the loss.

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
    """``zb-h1``: stage i, from 0, runs each W after the B that comes i later."""

    splits = True

    def order(self, stage: int) -> Iterator[tuple[str, int]]:
        """Yield F_1 .. F_W, B_1, F_(W+1), B_2, ..., with W passes in between."""
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
        """Yield the passes of a stage; warm-ups follow from the stage's number."""
        # With fewer micro-batches, passes are left out of the same order.
        enough = max(2 * self.stages - 1, self.microbatches)
        done: Counter[tuple[str, int]] = Counter()
        for kind, chunk in self._every(stage, enough):
            microbatch = done[kind, chunk]
            done[kind, chunk] += 1
            if microbatch < self.microbatches:
                yield kind, 2 * microbatch + chunk

    def _every(self, stage: int, enough: int) -> Iterator[tuple[str, int]]:
        """Yield kinds and chunks for ``enough`` micro-batches."""
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
        """Return where a pass's input comes from, and the pass that computes it."""
        way_back = number % 2 == 1
        if (kind == "F") != way_back:
            return ("before", number) if stage else None
        if stage < self.stages - 1:
            return "behind", number
        return "here", number - 1 if way_back else number + 1
