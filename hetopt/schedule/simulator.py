"""Event-by-event simulation of a pipeline under any warm-up counts.

Rules (MODEL.md section 4, HAPT section 4.2.1). Stage i runs forwards F_1..F_W,
then B_1, F_(W+1), B_2, ..., with W = min(W_i, q); gpipe is W = q. A forward's
output leaves when it ends, if the link is free: transfers in one direction start at
least omega apart, and each arrives kappa after it starts. The two directions do not
disturb each other. Everything starts as early as these rules allow, so the makespan
is the longest path in the event graph, and the simulator returns one such path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from hetopt.schedule.period import check_warmups_fall

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.schedule.times import PipelineTimes

EventKind = Literal[
    "forward",
    "backward",
    "send-forward",
    "send-backward",
    "occupy-forward",
    "occupy-backward",
    "sync",
]


class CriticalEvent(NamedTuple):
    """One step of the critical path.

    Attributes
    ----------
    kind
        ``forward`` and ``backward`` compute; ``send-*`` is a whole transfer
        (kappa) and ``occupy-*`` only the part of it for which the next transfer in
        the same direction has to wait (omega); ``sync`` is a stage's g.
    stage
        Counted from 0; of a transfer, the sending stage.
    microbatch
        Counted from 0; of ``sync``, the last one.
    start_ns, end_ns
        The next event of the path starts at ``end_ns``.
    """

    kind: EventKind
    stage: int
    microbatch: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StageActivity:
    """What one stage does during the iteration.

    Attributes
    ----------
    busy_ns
        Computing all micro-batches, and its g.
    idle_share
        1 - busy_ns / makespan, from 0 to 1; 0 if the makespan is 0.
    """

    busy_ns: int
    idle_share: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Simulation:
    """Outcome of one simulated iteration of p stages and q micro-batches.

    Attributes
    ----------
    makespan_ns
        Largest end of a stage's last backward plus its g.
    stages
        One entry per stage.
    critical_path
        Events from time 0 to ``makespan_ns`` without a gap: each starts when the
        one before it ends.
    forward_start_ns, forward_end_ns, backward_start_ns, backward_end_ns
        Shape (p, q).
    """

    makespan_ns: int
    stages: tuple[StageActivity, ...]
    critical_path: tuple[CriticalEvent, ...]
    forward_start_ns: NDArray[np.int64]
    forward_end_ns: NDArray[np.int64]
    backward_start_ns: NDArray[np.int64]
    backward_end_ns: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Starts:
    """Start of every compute event, and of every transfer by its *sending* stage."""

    forward: list[list[int]]
    backward: list[list[int]]
    send_forward: list[list[int]]
    send_backward: list[list[int]]


def simulate(times: PipelineTimes) -> Simulation:
    """Run one iteration.

    Raises
    ------
    ValueError
        If the schedule deadlocks: warm-up counts, cut to q, rise downstream.
    """
    check_warmups_fall(times.inflight)
    starts = _run(times)
    ends = [
        rows[-1] + backward + sync
        for rows, backward, sync in zip(
            starts.backward, times.backward_ns, times.sync_ns, strict=True
        )
    ]
    makespan = max(ends)
    forward_start = np.array(starts.forward, dtype=np.int64)
    backward_start = np.array(starts.backward, dtype=np.int64)
    return Simulation(
        makespan_ns=makespan,
        stages=tuple(
            _activity(times.microbatches * round_trip + sync, makespan)
            for round_trip, sync in zip(times.round_trip_ns, times.sync_ns, strict=True)
        ),
        critical_path=_critical_path(times, starts, ends.index(makespan)),
        forward_start_ns=forward_start,
        forward_end_ns=forward_start + np.array(times.forward_ns)[:, None],
        backward_start_ns=backward_start,
        backward_end_ns=backward_start + np.array(times.backward_ns)[:, None],
    )


def _activity(busy_ns: int, makespan_ns: int) -> StageActivity:
    idle = 1 - busy_ns / makespan_ns if makespan_ns else 0.0
    return StageActivity(busy_ns=busy_ns, idle_share=idle)


def _run(times: PipelineTimes) -> _Starts:
    """Start every event as early as possible, in a fixed topological order.

    Round m runs, stage by stage downstream, every forward that comes before the
    m-th backward of its stage, then, upstream, the m-th backwards. With warm-ups
    that do not rise, all an event waits for has then run: its own stage's forward
    m + W - 1 follows backward m - 1 of the round before, and the stage before it is
    at least as many forwards ahead.
    """
    stages, microbatches = times.stages, times.microbatches
    inflight = times.inflight
    forward_ns, backward_ns = times.forward_ns, times.backward_ns
    transfer_ns, occupancy_ns = times.transfer_ns, times.occupancy_ns
    last = stages - 1

    free = [0] * stages
    forward: list[list[int]] = [[] for _ in range(stages)]
    backward: list[list[int]] = [[] for _ in range(stages)]
    send_forward: list[list[int]] = [[] for _ in range(last)]
    # Stage i's gradients leave over boundary i - 1; stage 0 sends none.
    send_backward: list[list[int]] = [[] for _ in range(stages)]
    # Earliest next start of a transfer over each boundary, by direction.
    forward_link = [0] * last
    backward_link = [0] * last
    arrivals: list[list[int]] = [[0] * microbatches, *([] for _ in range(last))]

    for microbatch in range(microbatches):
        for stage in range(stages):
            until = min(microbatch + inflight[stage], microbatches)
            for ahead in range(len(forward[stage]), until):
                start = max(arrivals[stage][ahead], free[stage])
                forward[stage].append(start)
                end = free[stage] = start + forward_ns[stage]
                if stage < last:
                    send = max(end, forward_link[stage])
                    send_forward[stage].append(send)
                    forward_link[stage] = send + occupancy_ns[stage]
                    arrivals[stage + 1].append(send + transfer_ns[stage])
        arrival = 0
        for stage in range(last, -1, -1):
            start = max(arrival, free[stage])
            backward[stage].append(start)
            end = free[stage] = start + backward_ns[stage]
            if stage:
                send = max(end, backward_link[stage - 1])
                send_backward[stage].append(send)
                backward_link[stage - 1] = send + occupancy_ns[stage - 1]
                arrival = send + transfer_ns[stage - 1]
    return _Starts(
        forward=forward,
        backward=backward,
        send_forward=send_forward,
        send_backward=send_backward,
    )


def _critical_path(
    times: PipelineTimes, starts: _Starts, stage: int
) -> tuple[CriticalEvent, ...]:
    """Walk back from the end of ``stage``, which ends last, to time 0.

    At every event, the walk goes on to a predecessor that ends when it starts; the
    one on the same stage or link if there are two.
    """
    forward, backward = starts.forward, starts.backward
    inflight = times.inflight
    kind: EventKind = "sync"
    microbatch = times.microbatches - 1
    start = backward[stage][microbatch] + times.backward_ns[stage]
    path = [CriticalEvent(kind, stage, microbatch, start, start + times.sync_ns[stage])]
    while True:
        end = path[-1].start_ns
        if kind in ("forward", "backward"):
            before = _before_on_stage(
                inflight[stage], times.microbatches, microbatch, kind == "forward"
            )
            if before is not None:
                is_forward, other = before
                duration, rows = (
                    (times.forward_ns[stage], forward)
                    if is_forward
                    else (times.backward_ns[stage], backward)
                )
                start = rows[stage][other]
                if start + duration == end:
                    kind, microbatch = "forward" if is_forward else "backward", other
                    path.append(CriticalEvent(kind, stage, microbatch, start, end))
                    continue
            if kind == "forward" and stage:
                stage -= 1
                kind, start = "send-forward", starts.send_forward[stage][microbatch]
            elif kind == "forward":
                return tuple(reversed(path))
            elif stage + 1 < times.stages:
                stage += 1
                kind, start = "send-backward", starts.send_backward[stage][microbatch]
        elif kind == "sync":
            kind, start = "backward", backward[stage][microbatch]
        else:
            is_forward = kind.endswith("forward")
            sends, occupancy, rows = (
                (starts.send_forward[stage], times.occupancy_ns[stage], forward)
                if is_forward
                else (
                    starts.send_backward[stage],
                    times.occupancy_ns[stage - 1],
                    backward,
                )
            )
            if microbatch and sends[microbatch - 1] + occupancy == end:
                microbatch -= 1
                kind = "occupy-forward" if is_forward else "occupy-backward"
                start = sends[microbatch]
            else:
                kind = "forward" if is_forward else "backward"
                start = rows[stage][microbatch]
        path.append(CriticalEvent(kind, stage, microbatch, start, end))


def _before_on_stage(
    inflight: int, microbatches: int, microbatch: int, is_forward: bool
) -> tuple[bool, int] | None:
    """Return (is forward, micro-batch) of what a stage runs just before an event."""
    if is_forward:
        if microbatch >= inflight:
            return False, microbatch - inflight
        return (True, microbatch - 1) if microbatch else None
    ahead = microbatch + inflight - 1
    if ahead < microbatches:
        return True, ahead
    return False, microbatch - 1
