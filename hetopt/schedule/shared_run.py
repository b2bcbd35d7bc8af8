"""One iteration with shared links, several chunks, split backwards or several lengths.

Of the transfers that are ready, the one that became ready first is sent first. Any
that becomes ready later depends on one that still waits, so it cannot be earlier.
With several chunks (``hetopt.schedule.chunks``) micro-batches are passes, and boundary
p - 1 is the way back from the last stage to the first. Gradients of weights that run
later (``hetopt.schedule.weights``) wait only for their own stage. If stages are folded
(``hetopt.schedule.folding``), forwards of the second chunk go upstream.
Micro-batches of several lengths have times of their own.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from hetopt.schedule.chunks import backward_number
from hetopt.schedule.events import (
    BACKWARD,
    FORWARD,
    OCCUPY_FORWARD,
    SEND_BACKWARD,
    SEND_FORWARD,
    WEIGHT,
)
from hetopt.schedule.folding import CHUNKS, folded_order, sends_to
from hetopt.schedule.weights import split_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hetopt.schedule.times import PipelineTimes

    #: Kind, (sending) stage, micro-batch, start and end, as in a critical path.
    Row = tuple[int, int, int, int, int]


def run_sharing(times: PipelineTimes) -> SharedRun:
    """Run one iteration that ``events.run`` does not support."""
    run = SharedRun(times)
    run.advance(range(times.stages))
    while run.is_waiting:
        run.advance([run.send()])
    return run


class SharedRun:
    """One iteration, simulated up to some point.

    Attributes
    ----------
    starts
        As filled by ``events.run``, but by pass; gradients of weights that run later
        are in row WEIGHT; shape (7, p, passes).
    """

    def __init__(self, times: PipelineTimes) -> None:
        p, passes = times.stages, times.passes
        self.starts = np.zeros((WEIGHT + 1, p, passes), np.int64)
        self._times, self._sharing = times, times.sharing
        self._orders = [list(_order(times, stage)) for stage in range(p)]
        #: For each pass, the index of its sequence length.
        counts = [each.passes for each in times.lengths]
        self._length = np.repeat(range(len(counts)), counts).tolist()
        #: Durations by length, stage, kind and chunk.
        self._durations = [_durations(each) for each in times.lengths]
        #: Kappa and omega of the boundaries, by length.
        self._boundaries = [_boundaries(each) for each in times.lengths]
        self._done = [0] * p
        #: Heap of ready transfers: time ready, (kind, sending stage, micro-batch).
        self._waiting: list[tuple[int, tuple[int, int, int]]] = []
        #: For each pass, the transfer that brings its input.
        self._arrived: dict[tuple[int, int, int], Row] = {}
        #: The last pass of each stage; the last transfer over each boundary or share in
        #: a direction, ending when the next one may start.
        self._ran: list[Row | None] = [None] * p
        self._carried: dict[tuple[str, int, int], Row] = {}
        #: The event that each event waited for, if any.
        self._cause: dict[tuple[int, int, int], Row | None] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether a transfer still waits to be sent."""
        return bool(self._waiting)

    def advance(self, stages: Iterable[int]) -> None:
        """Run all passes of these stages whose inputs have arrived."""
        for stage in stages:
            order = self._orders[stage]
            while self._done[stage] < len(order):
                kind, m = order[self._done[stage]]
                needed = self._arrived.get((kind, stage, m))
                if needed is None and self._waits(kind, stage, m):
                    break
                start = self._begin((kind, stage, m), 0, [self._ran[stage], needed])
                end = start + self._duration(kind, stage, m)
                self._ran[stage] = (kind, stage, m, start, end)
                self._done[stage] += 1
                if kind == WEIGHT:
                    continue
                sent = (SEND_FORWARD if kind == FORWARD else SEND_BACKWARD, stage, m)
                if self._next(kind, stage, m) is None:
                    # At the last pass through the model nothing is sent on.
                    self.starts[sent] = end
                else:
                    self._cause[sent] = self._ran[stage]
                    heapq.heappush(self._waiting, (end, sent))

    def _waits(self, kind: int, stage: int, m: int) -> bool:
        """Whether a pass needs the output of another stage or chunk."""
        return kind != WEIGHT and self._next(1 - kind, stage, m) is not None

    def _next(self, kind: int, stage: int, m: int) -> tuple[int, int] | None:
        """Return stage and micro-batch of the pass that receives its output, or None.

        A pass needs what the receiver of its counterpart of the other kind sends back.
        """
        p, passes = self._times.stages, self._times.passes
        if self._times.fold is not None:
            return sends_to(kind, stage, m, p)
        chunks = passes // self._times.microbatches
        chunk = m // p % chunks if chunks > 1 else 0
        if kind == FORWARD:
            if stage < p - 1:
                return stage + 1, m
            return (0, m + p) if chunk < chunks - 1 else None
        if stage:
            return stage - 1, m
        return (p - 1, m - p) if chunk else None

    def _duration(self, kind: int, stage: int, m: int) -> int:
        of_chunk: list[int] = self._durations[self._length[m]][stage][kind]
        turn = m if self._times.fold is not None else m // self._times.stages
        return of_chunk[turn % len(of_chunk)]

    def send(self) -> int:
        """Start the transfer that became ready first; return the receiving stage."""
        ready, (kind, stage, m) = heapq.heappop(self._waiting)
        onward = kind == SEND_FORWARD
        needed_by = FORWARD if onward else BACKWARD
        to = self._next(needed_by, stage, m)
        assert to is not None
        if self._times.fold is not None:
            onward = to[0] > stage
        boundary = (stage if onward else stage - 1) % self._times.stages
        transfer, occupancy = self._boundaries[self._length[m]]
        waits = {("boundary", boundary, int(onward)): occupancy[boundary]}
        shares = () if self._sharing is None else self._sharing.shares
        for number, share in enumerate(shares):
            if boundary in share.boundaries:
                outward = share.outward[share.boundaries.index(boundary)]
                service_ns = share.service_ns
                if self._times.fold is not None:
                    service_ns //= CHUNKS
                waits["share", number, int(onward == outward)] = service_ns
        event = (kind, stage, m)
        start = self._begin(event, ready, [self._carried.get(key) for key in waits])
        occupied = kind - SEND_FORWARD + OCCUPY_FORWARD
        for key, wait in waits.items():
            self._carried[key] = (occupied, stage, m, start, start + wait)
        arrives = start + transfer[boundary]
        self._arrived[needed_by, *to] = (*event, start, arrives)
        return to[0]

    def _begin(
        self, event: tuple[int, int, int], ready: int, before: Sequence[Row | None]
    ) -> int:
        """Start an event when all events before it have ended; record the last one."""
        start = ready
        for row in before:
            if row is not None and row[4] > start:
                start = row[4]
                self._cause[event] = row
            elif row is not None and event not in self._cause and row[4] == start:
                self._cause[event] = row
        self.starts[event] = start
        return start

    def path(self, kind: int, stage: int, m: int) -> list[Row]:
        """Return the chain of events that an event waited for, itself included.

        The earliest is first. Of a transfer that delayed another one, only the part
        that caused the delay.
        """
        start = int(self.starts[kind, stage, m])
        row: Row | None = (
            kind,
            stage,
            m,
            start,
            start + self._duration(kind, stage, m),
        )
        rows = []
        while row is not None:
            rows.append(row)
            kind, stage, m = row[:3]
            if OCCUPY_FORWARD <= kind < WEIGHT:
                kind -= OCCUPY_FORWARD - SEND_FORWARD
            row = self._cause.get((kind, stage, m))
        return rows[::-1]


def _order(times: PipelineTimes, stage: int) -> Iterator[tuple[int, int]]:
    """Yield the passes of a stage: F_1..F_W, B_1, F_(W+1), B_2, ..."""
    warmup, passes = times.inflight[stage], times.passes
    if times.fold is not None:
        yield from folded_order(stage, times.stages, times.microbatches)
        return
    if times.weight_ns is not None:
        yield from split_order(warmup, times.postponed[stage], passes)
        return
    yield from ((FORWARD, m) for m in range(warmup))
    for m in range(passes):
        if times.chunks is None:
            yield BACKWARD, m
        else:
            yield BACKWARD, backward_number(m, times.stages, times.chunks.count)
        if m + warmup < passes:
            yield FORWARD, m + warmup


def _durations(times: PipelineTimes) -> list[dict[int, list[int]]]:
    """Return how long passes of each stage take, by kind and chunk."""
    return [
        {FORWARD: forward, BACKWARD: backward, WEIGHT: times.weights_ns(stage)}
        for stage, (forward, backward) in enumerate(
            map(times.durations_ns, range(times.stages))
        )
    ]


def _boundaries(times: PipelineTimes) -> tuple[list[int], list[int]]:
    """Return kappa, and omega as if nothing were shared; the way back's are last."""
    occupancy, transfer = list(times.occupancy_ns), list(times.every_transfer_ns)
    if times.sharing is not None:
        occupancy = list(times.sharing.occupancy_ns)
    elif times.chunks is not None:
        occupancy.append(times.chunks.way_back_occupancy_ns)
    if times.fold is not None:
        occupancy = [both // CHUNKS for both in occupancy]
    return transfer, occupancy
