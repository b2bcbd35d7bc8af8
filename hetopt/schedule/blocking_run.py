"""One iteration of 1F1B whose transfers block: both stages of a boundary wait for them.

Stage i receives, computes and sends W_i - 1 forwards, then alternates. After a forward
it transfers together with the next stage, which has just ended a backward: activations
go one way and gradients the other, at once (chi = 1) or one after the other (chi = 2).
As each stage warms up with one more forward than the next, both always want the same
two transfers, so there is no deadlock. Earlier activations and later gradients are
transferred singly.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hetopt.schedule.events import BACKWARD, FORWARD, SEND_BACKWARD, SEND_FORWARD
from hetopt.schedule.schedules import rule_of

if TYPE_CHECKING:
    from hetopt.schedule.times import PipelineTimes

    #: Kind, (sending) stage, micro-batch, start and end, as in a critical path.
    Row = tuple[int, int, int, int, int]


def run_blocking(times: PipelineTimes) -> BlockingRun:
    """Run one iteration whose transfers block.

    Raises
    ------
    ValueError
        If warm-ups do not fall by one from stage to stage: two stages would then
        deadlock.
    """
    if any(here - after != 1 for here, after in pairwise(times.warmups)):
        msg = (
            f"the schedule deadlocks: warm-ups {times.warmups} do not fall by one, and "
            "transfers block"
        )
        raise ValueError(msg)
    run = BlockingRun(times)
    run.warm_up()
    for microbatch in range(times.microbatches):
        run.take_turns(microbatch)
    return run


class BlockingRun:
    """One iteration, simulated up to some point.

    Attributes
    ----------
    starts
        As filled by ``events.run``; shape (4, p, q).
    """

    def __init__(self, times: PipelineTimes) -> None:
        p, q = times.stages, times.microbatches
        self.starts = np.zeros((4, p, q), np.int64)
        self._times = times
        self._chi = rule_of(times.schedule).blocking
        #: The last event of each stage.
        self._last: list[Row | None] = [None] * p
        #: The event that each event waited for, if any.
        self._cause: dict[tuple[int, int, int], Row | None] = {}

    def warm_up(self) -> None:
        """Run the warm-up forwards of all stages: those before they alternate."""
        times = self._times
        for microbatch in range(times.microbatches):
            for stage in range(times.stages):
                if microbatch >= times.warmups[stage] - 1:
                    break
                self._compute(FORWARD, stage, microbatch)
                self._meet(stage, microbatch, None)

    def take_turns(self, microbatch: int) -> None:
        """Run the micro-batch's backward on every stage, and the forward before it."""
        times = self._times
        p, q = times.stages, times.microbatches
        for stage in range(p):
            ahead = microbatch + times.warmups[stage] - 1
            if ahead < q:
                self._compute(FORWARD, stage, ahead)
        for stage in range(p - 1, -1, -1):
            self._compute(BACKWARD, stage, microbatch)
            if stage:
                ahead = microbatch + times.warmups[stage - 1] - 1
                self._meet(stage - 1, ahead if ahead < q else None, microbatch)

    def _compute(self, kind: int, stage: int, microbatch: int) -> None:
        """Run a pass as soon as its stage is free; its input has then arrived."""
        durations = self._times.forward_ns, self._times.backward_ns
        before = self._last[stage]
        start = 0 if before is None else before[4]
        event = (kind, stage, microbatch)
        self._cause[event] = before
        self.starts[event] = start
        end = start + durations[kind][stage]
        self._last[stage] = (*event, start, end)
        if stage == (self._times.stages - 1 if kind == FORWARD else 0):
            # At the ends of the pipeline nothing is sent on.
            self.starts[kind + SEND_FORWARD, stage, microbatch] = end

    def _meet(self, boundary: int, forward: int | None, gradient: int | None) -> None:
        """Transfer over a boundary as soon as both of its stages are free.

        Parameters
        ----------
        forward, gradient
            Micro-batches whose activations go downstream and whose gradients go
            upstream; None if there is none.
        """
        both = self._last[boundary], self._last[boundary + 1]
        cause = max((row for row in both if row is not None), key=lambda row: row[4])
        start = end = cause[4]
        for kind, stage, microbatch in (
            (SEND_FORWARD, boundary, forward),
            (SEND_BACKWARD, boundary + 1, gradient),
        ):
            if microbatch is None:
                continue
            event = (kind, stage, microbatch)
            if self._chi > 1 and end > start:
                start = end
            self._cause[event] = cause
            self.starts[event] = start
            end = start + self._times.transfer_ns[boundary]
            row = (*event, start, end)
            self._last[boundary] = self._last[boundary + 1] = row
            if self._chi > 1:
                cause = row

    def path(self, kind: int, stage: int, m: int) -> list[Row]:
        """Return the chain of events that an event waited for, itself included.

        The earliest is first.
        """
        durations = self._times.forward_ns, self._times.backward_ns
        start = int(self.starts[kind, stage, m])
        row: Row | None = (kind, stage, m, start, start + durations[kind][stage])
        rows = []
        while row is not None:
            rows.append(row)
            row = self._cause[row[:3]]
        return rows[::-1]
