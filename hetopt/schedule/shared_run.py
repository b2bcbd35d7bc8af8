"""One iteration whose boundaries share links: transfers take turns.

Of the transfers that are ready, the one that has been so for longest goes first.
Whatever becomes ready later follows from one that still waits, so it is no earlier.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from hetopt.schedule.events import (
    BACKWARD,
    FORWARD,
    OCCUPY_FORWARD,
    SEND_BACKWARD,
    SEND_FORWARD,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hetopt.schedule.times import PipelineTimes

    #: Kind, (sending) stage, micro-batch, start and end, as in a critical path.
    Row = tuple[int, int, int, int, int]


def run_sharing(times: PipelineTimes) -> SharedRun:
    """Run one iteration whose boundaries share links."""
    run = SharedRun(times)
    run.advance(range(times.stages))
    while run.is_waiting:
        run.advance([run.send()])
    return run


class SharedRun:
    """One iteration, as far as it has been run.

    Attributes
    ----------
    starts
        As ``events.run`` fills them; shape (4, p, q).
    """

    def __init__(self, times: PipelineTimes) -> None:
        assert times.sharing is not None
        p, q = times.stages, times.microbatches
        self.starts = np.zeros((4, p, q), np.int64)
        self._times, self._sharing = times, times.sharing
        self._durations = {FORWARD: times.forward_ns, BACKWARD: times.backward_ns}
        self._orders = [list(_order(w, q)) for w in times.inflight]
        self._done = [0] * p
        #: Transfers by when they became ready: kind, sending stage, micro-batch.
        self._waiting: list[tuple[int, tuple[int, int, int]]] = []
        #: Of each pass, the transfer that brings its input.
        self._arrived: dict[tuple[int, int, int], Row] = {}
        #: What a stage ran last; what a boundary, or a share, carried last in a
        #: direction, and until when the next has to wait.
        self._ran: list[Row | None] = [None] * p
        self._carried: dict[tuple[str, int, int], Row] = {}
        #: What each event waited for, if anything.
        self._cause: dict[tuple[int, int, int], Row | None] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether a transfer is left."""
        return bool(self._waiting)

    def advance(self, stages: Iterable[int]) -> None:
        """Run all passes of some stages whose input is here."""
        last = self._times.stages - 1
        for stage in stages:
            order = self._orders[stage]
            while self._done[stage] < len(order):
                kind, m = order[self._done[stage]]
                needed = self._arrived.get((kind, stage, m))
                source = 0 if kind == FORWARD else last
                if needed is None and stage != source:
                    break
                start = self._begin((kind, stage, m), 0, [self._ran[stage], needed])
                end = start + self._durations[kind][stage]
                self._ran[stage] = (kind, stage, m, start, end)
                self._done[stage] += 1
                sent = (SEND_FORWARD if kind == FORWARD else SEND_BACKWARD, stage, m)
                if stage == last - source:
                    # The other end of the pipeline sends nothing on.
                    self.starts[sent] = end
                else:
                    self._cause[sent] = self._ran[stage]
                    heapq.heappush(self._waiting, (end, sent))

    def send(self) -> int:
        """Start the transfer that has been ready for longest; return who gets it."""
        ready, (kind, stage, m) = heapq.heappop(self._waiting)
        onward = kind == SEND_FORWARD
        boundary = stage if onward else stage - 1
        waits = {("boundary", boundary, kind): self._sharing.occupancy_ns[boundary]}
        for number, share in enumerate(self._sharing.shares):
            if boundary in share.boundaries:
                outward = share.outward[share.boundaries.index(boundary)]
                waits["share", number, int(onward == outward)] = share.service_ns
        event = (kind, stage, m)
        start = self._begin(event, ready, [self._carried.get(key) for key in waits])
        occupied = kind - SEND_FORWARD + OCCUPY_FORWARD
        for key, wait in waits.items():
            self._carried[key] = (occupied, stage, m, start, start + wait)
        to = stage + 1 if onward else stage - 1
        arrives = start + self._times.transfer_ns[boundary]
        needed_by = (FORWARD if onward else BACKWARD, to, m)
        self._arrived[needed_by] = (*event, start, arrives)
        return to

    def _begin(
        self, event: tuple[int, int, int], ready: int, before: Sequence[Row | None]
    ) -> int:
        """Start an event when all before it has ended; remember the last of them."""
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

        The earliest is first. Of a transfer that kept another one waiting, only the
        part for which it did so.
        """
        start = int(self.starts[kind, stage, m])
        row: Row | None = (kind, stage, m, start, start + self._durations[kind][stage])
        rows = []
        while row is not None:
            rows.append(row)
            kind, stage, m = row[:3]
            if kind >= OCCUPY_FORWARD:
                kind -= OCCUPY_FORWARD - SEND_FORWARD
            row = self._cause.get((kind, stage, m))
        return rows[::-1]


def _order(warmup: int, microbatches: int) -> Iterator[tuple[int, int]]:
    """Yield the passes of a stage: F_1..F_W, B_1, F_(W+1), B_2, ..."""
    yield from ((FORWARD, m) for m in range(warmup))
    for m in range(microbatches):
        yield BACKWARD, m
        if m + warmup < microbatches:
            yield FORWARD, m + warmup
