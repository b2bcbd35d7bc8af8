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
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    #: Kind and number.
    Pass = tuple[str, int]

#: Chunks of a folded stage.
FOLDED_CHUNKS = 2
#: Building blocks of schedules that fold the model in two; ZB-V has none.
FOLDS = {"zb-v": "", "v-half": "half", "v-min": "min"}


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
    block
        Of folded stages: the building block that their order repeats (``half`` or
        ``min``); empty under ZB-V.
    splits
        Whether gradients of weights are passes of their own.
    blocking
        Whether the stages at a boundary exchange tensors.
    """

    warmups: tuple[int, ...]
    microbatches: int
    chunks: int = 1
    folded: bool = False
    block: str = ""
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
        if self.block:
            return iter(_repeated(self.block, self.stages, self.microbatches)[stage])
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

    def ahead(self, stage: int) -> int:
        """Return the forwards of a stage's first chunk before its first backward."""
        kinds = [
            kind
            for kind, number in self.of(stage)
            if not self.chunk_and_microbatch(number)[0]
        ]
        return kinds.index("B")

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


def _starts(block: str, stage: int, stages: int) -> dict[tuple[str, int], int]:
    """Return when a stage runs the passes of micro-batch 0, by kind and chunk.

    All passes take 1, and a micro-batch follows every 6 (Qi et al., "Pipeline
    Parallelism with Controllable Memory", 2024, section 3: V-Half and V-Min).
    """
    p, i = stages, stage
    if block == "half":
        late = 0 if p % 2 else 3
        at = 2 * i, 3 * p - i - 2, 3 * p + late + 2 * i - 1, 6 * p + late - i - 2
    else:
        late = 0 if p % 3 else 2
        at = i, 2 * p - i - 1, 2 * p + late + i, 4 * p + late - i - 1
    return dict(zip((("F", 0), ("F", 1), ("B", 1), ("B", 0)), at, strict=True))


@lru_cache(maxsize=256)
def most_ahead(block: str, stages: int) -> tuple[tuple[int, int], ...]:
    """Return how many passes each stage holds at most, and how many on its first chunk.

    Those of the repeated block, with each ``W`` in the first free place after its
    ``B``.
    """
    found = []
    for stage in range(stages):
        begun = sorted(
            (6 * m + at, kind, chunk)
            for (kind, chunk), at in _starts(block, stage, stages).items()
            for m in range(2 * stages + 2)
        )
        held, most, now = [0, 0], [0, 0], 0
        waiting: list[int] = []
        for at, kind, chunk in begun:
            while waiting and now < at:
                held[waiting.pop(0)] -= 1
                now += 1
            now = at + 1
            if kind == "F":
                held[chunk] += 1
            else:
                waiting.append(chunk)
            most = [max(most[0], sum(held)), max(most[1], held[0])]
        found.append((most[0], most[1]))
    return tuple(found)


# One loop over time, with the rules that it applies.
@lru_cache(maxsize=64)
def _repeated(
    block: str, stages: int, microbatches: int
) -> tuple[tuple[Pass, ...], ...]:
    """Return the passes of all stages that repeat a building block.

    All passes take 1. A stage runs the pass that the block has first of those that it
    can run; ``W`` when there is none. Before the first stage's first ``B`` on its first
    chunk and after its last ``F``, passes may run earlier than in the block, but a
    stage never holds more (the paper's reordering of warm-up and cool-down, greedy).
    """
    orders: list[list[Pass]] = [[] for _ in range(stages)]
    starts = [_starts(block, stage, stages) for stage in range(stages)]
    numbers = [dict.fromkeys(each, 0) for each in starts]
    waiting: list[list[int]] = [[] for _ in range(stages)]
    held = [[0, 0] for _ in range(stages)]
    most = most_ahead(block, stages)
    steady = range(starts[0]["B", 0], starts[0]["F", 0] + 6 * (microbatches - 1) + 1)
    whole = Orders(
        warmups=(1,) * stages,
        microbatches=microbatches,
        chunks=FOLDED_CHUNKS,
        folded=True,
    )
    #: Where each pass's input is from, as stage, kind and chunk; None: nowhere.
    needed = [
        {key: _needed(whole, i, *key) for key in starts[i]} for i in range(stages)
    ]
    #: How many of these have run; a stage runs those of one kind and chunk in order.
    done = [dict(each) for each in numbers]

    def can_run(stage: int, kind: str, chunk: int, m: int) -> bool:
        if kind == "F":
            room = most[stage][0] - sum(held[stage])
            other = ("F", 1 - chunk)
            left = numbers[stage][other] < microbatches
            due = starts[stage][other] + 6 * numbers[stage][other]
            # The last place is for the one that the block has first.
            is_first = not left or due > starts[stage][kind, chunk] + 6 * m
            if room < 1 or (room == 1 and not is_first):
                return False
            if chunk == 0 and held[stage][0] >= most[stage][1]:
                return False
        source = needed[stage][kind, chunk]
        return source is None or done[source[0]][source[1]] > m

    now, never = 0, starts[0]["B", 0] + 6 * microbatches
    while any(len(each) < 6 * microbatches for each in orders):
        ran = []
        for stage, own in enumerate(starts):
            first, least = None, never
            for key, at in own.items():
                m = numbers[stage][key]
                due = at + 6 * m
                late = m == microbatches or due >= least
                early = due > now and now in steady
                if not (late or early) and can_run(stage, *key, m):
                    first, least = key, due
            if first is not None:
                kind, chunk = first
                number = FOLDED_CHUNKS * numbers[stage][kind, chunk] + chunk
                numbers[stage][kind, chunk] += 1
                held[stage][chunk] += kind == "F"
                if kind == "B":
                    waiting[stage].append(number)
            elif waiting[stage]:
                kind, number = "W", waiting[stage].pop(0)
                held[stage][number % FOLDED_CHUNKS] -= 1
            else:
                continue
            orders[stage].append((kind, number))
            ran.append((stage, kind, number % FOLDED_CHUNKS))
        if not ran and now > steady.stop:
            msg = f"{stages} stages cannot go on at {now} of the block {block!r}"
            raise ValueError(msg)
        for stage, kind, chunk in ran:
            if kind != "W":
                done[stage][kind, chunk] += 1
        now += 1
    return tuple(map(tuple, orders))


def _needed(
    orders: Orders, stage: int, kind: str, chunk: int
) -> tuple[int, tuple[str, int]] | None:
    """Return the stage, kind and chunk whose result passes of a kind and chunk need."""
    source = orders.source(kind, stage, chunk)
    if source is not None:
        return source[0], (kind, source[1])
    return None if kind == "F" else (stage, ("F", chunk))
