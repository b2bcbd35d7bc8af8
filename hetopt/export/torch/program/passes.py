"""In which order a stage runs its passes, and which pass has the result of which.

A *pass* is one micro-batch on one chunk of a stage, numbered from 0 by when its forward
runs: with one chunk by its micro-batch. With v chunks a micro-batch goes through all p
stages v times, from the last stage back to the first in between. Every stage runs p
micro-batches through its first chunk, the same through its second, ..., then the next
p; backward likewise with the last chunk first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Passes:
    """The passes of every stage.

    Attributes
    ----------
    stages, microbatches, chunks
        p, q and v; with v > 1, q is a multiple of p.
    """

    stages: int
    microbatches: int
    chunks: int

    def order(self, warmup: int) -> Iterator[tuple[str, int]]:
        """Yield F_1 .. F_W, B_1, F_(W+1), B_2, ... with numbers of passes."""
        count = self.microbatches * self.chunks
        first = min(warmup, count)
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

    def source(self, kind: str, stage: int, number: int) -> int | None:
        """Return the number of the pass whose result a pass takes.

        That pass is on the stage before for a forward (``F``), and on the stage behind
        for a backward pass (``B``), round the ends; None where tokens come in, or the
        loss goes out.
        """
        chunk, _ = self.chunk_and_microbatch(number)
        if kind == "F":
            if stage:
                return number
            return number - self.stages if chunk else None
        if stage < self.stages - 1:
            return number
        return number + self.stages if chunk < self.chunks - 1 else None

    def _backward(self, place: int) -> int:
        """Return the pass whose backward a stage runs at this place, from 0."""
        turn, rest = divmod(place, self.stages)
        group, back = divmod(turn, self.chunks)
        return (group * self.chunks + self.chunks - 1 - back) * self.stages + rest
