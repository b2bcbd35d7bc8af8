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
    from collections.abc import Iterator

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

    The walk goes from an event to one that ends when it starts; to the one on the
    same stage or link if there are two.
    """
    durations = _durations(times)
    rows = {
        "forward": starts.forward,
        "backward": starts.backward,
        "send-forward": starts.send_forward,
        "send-backward": starts.send_backward,
        "occupy-forward": starts.send_forward,
        "occupy-backward": starts.send_backward,
    }
    inflight = times.inflight
    last = times.microbatches - 1
    end = starts.backward[stage][last] + times.backward_ns[stage]
    path = [CriticalEvent("sync", stage, last, end, end + times.sync_ns[stage])]
    while True:
        event = path[-1]
        for kind, stage, microbatch in _predecessors(event, times, inflight):
            start = rows[kind][stage][microbatch]
            end = start + durations[kind][stage]
            if end == event.start_ns:
                path.append(CriticalEvent(kind, stage, microbatch, start, end))
                break
        else:
            return tuple(reversed(path))


def _durations(times: PipelineTimes) -> dict[EventKind, tuple[int, ...]]:
    """Return by (sending) stage how long the successor of an event waits for it."""
    return {
        "forward": times.forward_ns,
        "backward": times.backward_ns,
        "send-forward": times.transfer_ns,
        "send-backward": (0, *times.transfer_ns),
        "occupy-forward": times.occupancy_ns,
        "occupy-backward": (0, *times.occupancy_ns),
    }


def _predecessors(
    event: CriticalEvent, times: PipelineTimes, inflight: tuple[int, ...]
) -> Iterator[tuple[EventKind, int, int]]:
    """Yield (kind, stage, micro-batch) of every event that ``event`` waits for."""
    kind, stage, microbatch, _, _ = event
    match kind:
        case "forward":
            if microbatch >= inflight[stage]:
                yield "backward", stage, microbatch - inflight[stage]
            elif microbatch:
                yield "forward", stage, microbatch - 1
            if stage:
                yield "send-forward", stage - 1, microbatch
        case "backward":
            ahead = microbatch + inflight[stage] - 1
            if ahead < times.microbatches:
                yield "forward", stage, ahead
            else:
                yield "backward", stage, microbatch - 1
            if stage + 1 < times.stages:
                yield "send-backward", stage + 1, microbatch
        case "send-forward" | "occupy-forward":
            if microbatch:
                yield "occupy-forward", stage, microbatch - 1
            yield "forward", stage, microbatch
        case "send-backward" | "occupy-backward":
            if microbatch:
                yield "occupy-backward", stage, microbatch - 1
            yield "backward", stage, microbatch
        case "sync":
            yield "backward", stage, microbatch
