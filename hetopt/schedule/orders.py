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


#: The kinds and chunks of a building block, forwards first.
_BLOCK = ("F", 0), ("F", 1), ("B", 1), ("B", 0)


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
    # By stage and then by place in _BLOCK: when the block has the next pass of this
    # kind and chunk, and how many have run; others see these a step later.
    starts = [_starts(block, stage, stages) for stage in range(stages)]
    dues = [[own[each] for each in _BLOCK] for own in starts]
    begun, done = ([[0] * len(_BLOCK) for _ in starts] for _ in range(2))
    needed = [_needed(stage, stages) for stage in range(stages)]
    waiting: list[list[int]] = [[] for _ in starts]
    held = [[0, 0] for _ in starts]
    most = most_ahead(block, stages)
    steady = range(starts[0]["B", 0], starts[0]["F", 0] + 6 * (microbatches - 1) + 1)
    now, never = 0, starts[0]["B", 0] + 6 * microbatches
    left = stages * 6 * microbatches
    while left:
        ran: list[tuple[int, int]] = []
        is_steady, before = now in steady, left
        for stage, due in enumerate(dues):
            first, least = None, never
            own, chunks = begun[stage], held[stage]
            for k, at in enumerate(due):
                if at >= least or (is_steady and at > now):
                    continue
                if k < 2:
                    room = most[stage][0] - chunks[0] - chunks[1]
                    # The last place is for the one that the block has first.
                    if room < 1 or (room == 1 and due[1 - k] <= at):
                        continue
                    if k == 0 and chunks[0] >= most[stage][1]:
                        continue
                source = needed[stage][k]
                if source is None or done[source[0]][source[1]] > own[k]:
                    first, least = k, at
            if first is not None:
                kind, chunk = _BLOCK[first]
                number = FOLDED_CHUNKS * own[first] + chunk
                own[first] += 1
                due[first] = due[first] + 6 if own[first] < microbatches else never
                ran.append((stage, first))
                if kind == "F":
                    chunks[chunk] += 1
                else:
                    waiting[stage].append(number)
            elif waiting[stage]:
                kind, number = "W", waiting[stage].pop(0)
                chunks[number % FOLDED_CHUNKS] -= 1
            else:
                continue
            orders[stage].append((kind, number))
            left -= 1
        if left == before and now > steady.stop:
            msg = f"{stages} stages cannot go on at {now} of the block {block!r}"
            raise ValueError(msg)
        for stage, k in ran:
            done[stage][k] += 1
        now += 1
    return tuple(map(tuple, orders))


def _needed(stage: int, stages: int) -> list[tuple[int, int] | None]:
    """Return where the inputs of a stage's passes are from, by place in ``_BLOCK``.

    As stage and place; None: from nowhere.
    """
    down, up = stage - 1, stage + 1
    is_first, is_last = down < 0, up == stages
    return [
        None if is_first else (down, 0),
        (stage, 0) if is_last else (up, 1),
        # The loss is computed after the last forward.
        (stage, 1) if is_first else (down, 2),
        (stage, 2) if is_last else (up, 3),
    ]
