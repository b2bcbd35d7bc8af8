"""A schedule is an order: the passes of every stage, one after the other.

A *pass* is a kind and a number. Kinds are ``F`` (forward), ``B`` (backward; of the
inputs alone if gradients of weights are apart) and ``W`` (gradients of weights). The
number is that of the micro-batch, or, if stages hold several chunks of the model, of
micro-batch and chunk. If transfers block, stages also list their exchanges with the
previous stage (``P``) and the next one (``N``), by the number of the activations that
go downstream; gradients go upstream at the same time.

This file imports nothing of hetopt, so that training programs can take it along.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    #: Kind and number.
    Pass = tuple[str, int]

#: Chunks of a folded stage.
FOLDED_CHUNKS = 2


@dataclass(frozen=True, kw_only=True)
class Orders:
    """The passes of p stages for q micro-batches.

    With v chunks a stage a micro-batch passes all p stages v times, and every stage
    runs p micro-batches through its first chunk, the same ones through its second, ...,
    then the next p; backward likewise with the last chunk first (Megatron-LM's
    interleaved 1F1B). Micro-batch m on chunk c has number (m // p) p v + c p + m % p.

    If stages are folded, stage i holds the i-th of 2 p chunks, counted from the
    embedding, and the i-th from the head: a micro-batch goes downstream through the
    first chunks and comes back upstream through the second ones, so that the turn on
    the last stage needs no transfer. Micro-batch m on chunk c has number 2 m + c.

    Attributes
    ----------
    warmups
        W of each stage, not cut to q; of passes if there are several chunks. The order
        of folded stages does not depend on it. Length p.
    microbatches, chunks
        q and v; with v > 1, q is a multiple of p unless stages are folded (v = 2).
    splits
        Whether gradients of weights are passes of their own.
    blocking
        Whether the stages at a boundary exchange tensors.
    """

    warmups: tuple[int, ...]
    microbatches: int
    chunks: int = 1
    folded: bool = False
    splits: bool = False
    blocking: bool = False

    @property
    def stages(self) -> int:
        """Number of stages, p."""
        return len(self.warmups)

    @property
    def passes(self) -> int:
        """Number of forward passes of a stage."""
        return self.microbatches * self.chunks

    def of(self, stage: int) -> Iterator[Pass]:
        """Yield the passes of a stage, in order."""
        if self.folded:
            return _folded(stage, self.stages, self.microbatches)
        if self.blocking and self.stages > 1:
            return self._exchanging(stage)
        return self._alternating(stage)

    def _alternating(self, stage: int) -> Iterator[Pass]:
        """Yield F_1 .. F_W, B_1, F_(W+1), B_2, ...

        A stage of p that runs W forwards ahead runs the ``W`` of a micro-batch directly
        after the ``B`` that comes p - W micro-batches later, and the rest at the end
        (ZB-H1; Qi et al., "Zero Bubble Pipeline Parallelism", section 2.3, as in
        PyTorch's ``ScheduleInterleavedZeroBubble`` with one stage a rank): so every
        stage holds p micro-batches.
        """
        passes, warmup = self.passes, self.warmups[stage]
        late = max(0, self.stages - warmup)
        warmup = min(warmup, passes)
        yield from (("F", number) for number in range(warmup))
        for place in range(passes):
            yield "B", self._backward(place)
            if self.splits and place >= late:
                yield "W", place - late
            if place + warmup < passes:
                yield "F", place + warmup
        if self.splits:
            yield from (("W", m) for m in range(max(0, passes - late), passes))

    def _exchanging(self, stage: int) -> Iterator[Pass]:
        """Yield the passes and exchanges of a stage under 1F1B whose transfers block.

        A stage receives, computes and sends W - 1 forwards, then alternates. After a
        forward it exchanges with the next stage, which has just ended a backward. As
        each stage runs one forward more ahead than the next, both always want the same
        exchange.
        """
        q, ahead = self.microbatches, self.warmups[stage] - 1

        def meet(kind: str, number: int) -> Iterator[Pass]:
            if stage != (0 if kind == "P" else self.stages - 1):
                yield kind, number

        for m in range(min(ahead, q)):
            yield from meet("P", m)
            yield "F", m
            yield from meet("N", m)
        if ahead < q:
            yield from meet("P", ahead)
        for m in range(q):
            if m + ahead < q:
                yield "F", m + ahead
            yield from meet("N", m + ahead)
            yield "B", m
            yield from meet("P", m + ahead + 1)

    def exchanged(self, boundary: int, number: int) -> tuple[int | None, int | None]:
        """Return the micro-batches of the activations and gradients of an exchange.

        None if there are no activations, or no gradients, left or yet.
        """
        gradients = number - self.warmups[boundary] + 1
        return (
            number if number < self.microbatches else None,
            gradients if gradients >= 0 else None,
        )

    def _backward(self, place: int) -> int:
        """Return the pass whose backward is the ``place``-th that a stage runs."""
        if self.chunks == 1:
            return place
        turn, rest = divmod(place, self.stages)
        group, back = divmod(turn, self.chunks)
        return (group * self.chunks + self.chunks - 1 - back) * self.stages + rest

    def chunk_and_microbatch(self, number: int) -> tuple[int, int]:
        """Return the chunk and the micro-batch of a pass; everything counts from 0."""
        return chunk_and_microbatch(number, self.stages, self.chunks, self.folded)

    def goes_down(self, kind: str, number: int) -> bool:
        """Return whether the result of a pass goes to the stage behind, or round.

        ``F`` goes down and ``B`` up; on the second chunk of folded stages likewise the
        other way. From the last stage, down is back to the first one.
        """
        return (kind == "F") != (self.folded and number % FOLDED_CHUNKS == 1)

    def target(self, kind: str, stage: int, number: int) -> tuple[int, int] | None:
        """Return stage and number of the pass that needs the result of a pass.

        None if none does: after the loss, and at the embedding's gradient.

        Parameters
        ----------
        kind
            ``F`` or ``B``.
        """
        p = self.stages
        chunk = number % FOLDED_CHUNKS if self.folded else number // p % self.chunks
        turned = self.folded and chunk == 1
        # The visit of a micro-batch to a stage, of p v in the order of forwards.
        visit = FOLDED_CHUNKS * p - 1 - stage if turned else chunk * p + stage
        visit += 1 if kind == "F" else -1
        if not 0 <= visit < p * self.chunks:
            return None
        onward, to = divmod(visit, p)
        if self.folded:
            return (p - 1 - to if onward else to), number + onward - chunk
        return to, number + (onward - chunk) * p

    def source(self, kind: str, stage: int, number: int) -> tuple[int, int] | None:
        """Return stage and number of the pass whose result a pass needs, or None.

        It is the pass that needs the result of its counterpart of the other kind.
        """
        return self.target("B" if kind == "F" else "F", stage, number)

    def most_held(self, stage: int, chunk: int, until: str) -> int:
        """Return how many micro-batches a chunk of a stage holds at once, at most.

        Parameters
        ----------
        until
            The kind of pass after which a micro-batch is not held any more.
        """
        held = most = 0
        for kind, number in self.of(stage):
            if self.chunk_and_microbatch(number)[0] == chunk:
                held += (kind == "F") - (kind == until)
                most = max(most, held)
        return most


def chunk_and_microbatch(
    number: int, stages: int, chunks: int, folded: bool
) -> tuple[int, int]:
    """Return the chunk and the micro-batch of a pass, as ``Orders`` numbers them."""
    if folded:
        microbatch, chunk = divmod(number, FOLDED_CHUNKS)
        return chunk, microbatch
    turn, place = divmod(number, stages)
    group, chunk = divmod(turn, chunks)
    return chunk, group * stages + place


def _folded(stage: int, stages: int, microbatches: int) -> Iterator[Pass]:
    """Yield the passes of a folded stage (ZB-V; Qi et al., section 6).

    The order of PyTorch's ``ScheduleZBVZeroBubble``. It is made for at least 2 p - 1
    micro-batches; those that do not exist are left out.
    """
    enough = max(2 * stages - 1, microbatches)
    done: dict[tuple[str, int], int] = {}

    def run(*passes: tuple[str, int]) -> Iterator[Pass]:
        for kind, chunk in passes:
            microbatch = done[kind, chunk] = done.get((kind, chunk), -1) + 1
            if microbatch < microbatches:
                yield kind, FOLDED_CHUNKS * microbatch + chunk

    rest = stages - stage
    yield from run(*[("F", 0)] * (2 * rest - 1))
    yield from run(*[("F", 1), ("F", 0)] * stage)
    yield from run(*[("F", 1), ("B", 1), ("W", 1)] * rest)
    while done["F", 1] < enough - 1:
        if done["F", 0] < enough - 1:
            yield from run(("F", 0))
        yield from run(("B", 0), ("W", 0), ("F", 1), ("B", 1), ("W", 1))
    yield from run(*[("B", 0), ("B", 1)] * stage)
    yield from run(*[("B", 0), ("W", 0)] * rest)
    yield from run(*[("W", 1)] * stage, *[("W", 0)] * stage)
