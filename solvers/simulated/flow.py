"""Simulation of the last stages of a pipeline, compiled.

Stages are counted from 1 at the end of the pipeline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.compiled import step
from hetopt.solvers.simulated.columns import Clock, StageTime

if TYPE_CHECKING:
    from hetopt.solvers.arrays.costs import Ints
    from hetopt.solvers.simulated.state import Walk


#: Earlier than any time: for events that no path leads to.
ABSENT = -(2**61)


@step
def run_end(walk: Walk, depth: int, q: int) -> int:
    """Simulate the last ``depth`` stages; return when the first of them is free.

    After the warm-ups each stage runs one forward per backward. That is inlined here:
    calling ``_forwards`` for each takes five times as long. Warm-ups are at most q.
    ``Clock.FORWARDS`` does not count the inlined forwards.
    """
    times, clock, arrive = walk.times, walk.clock, walk.arrive
    for batch in range(q):
        arrive[depth, batch] = 0
    for i in range(depth, 0, -1):
        for column in range(clock.shape[1]):
            clock[i, column] = 0
        until = times[i, StageTime.FLIGHT] - 1
        _forwards(times, clock, arrive, i, until, walk.warm.done[:0])
    for batch in range(q):
        for i in range(depth, 0, -1):
            ahead = batch + times[i, StageTime.FLIGHT] - 1
            if ahead >= q:
                continue
            free = max(clock[i, Clock.FREE], arrive[i, ahead])
            free += times[i, StageTime.PHI]
            clock[i, Clock.FREE] = free
            if i > 1:
                send = max(free, clock[i, Clock.NEXT])
                clock[i, Clock.NEXT] = send + times[i, StageTime.PACE]
                arrive[i - 1, ahead] = send + times[i, StageTime.HOP]
        _run_backward(times, clock, depth, 0, batch)
    # The gradient of its inputs does not wait for the first stage's w.
    done = times[depth, StageTime.LATER] if q > times[depth, StageTime.LATE] else 0
    return int(clock[depth, Clock.FREE] - done)


@step
def run_meeting(walk: Walk, depth: int, q: int, chi: int) -> int:
    """Do the same if transfers block: W of the i-th stage from the end is i.

    Stage i meets the next one after its forward x and before its backward x - i + 1,
    the next one before its forward x and after the backward whose gradient it sends.
    """
    times, clock = walk.times, walk.clock
    for i in range(1, depth + 1):
        clock[i, Clock.FREE] = 0
    for x in range(q + depth - 1):
        for i in range(depth, 0, -1):
            back = x - i + 1
            if back >= q or (x >= q and back < 0):
                continue
            free = clock[i, Clock.FREE]
            if x < q:
                free += times[i, StageTime.PHI]
            if i > 1:
                both = chi if x < q and back >= 0 else 1
                free = max(free, clock[i - 1, Clock.FREE])
                free += both * times[i, StageTime.HOP]
                clock[i - 1, Clock.FREE] = free
            if back >= 0:
                free += times[i, StageTime.BETA]
                clock[i, Clock.BEFORE] = free
            clock[i, Clock.FREE] = free
    # g follows the last backward, at the same time as the last transfer.
    for i in range(1, depth + 1):
        clock[i, Clock.FREE] = clock[i, Clock.BEFORE]
    return int(clock[depth, Clock.FREE])


# Longer than most: the loop over micro-batches uses nearly all the variables before it.
@step
def feed(walk: Walk, depth: int, q: int, first: int, loose: bool, answer: Ints) -> None:
    """Set ``answer`` to the ends of backwards on the stage at this depth.

    The end of a backward is the largest of sums, each of the arrival of one forward
    and of the longest path from it; this computes the paths from one forward.

    Parameters
    ----------
    first
        The only micro-batch whose forward arrives, at time 0; the others have always
        been there. -1 for all at time 0.
    loose
        Whether to bound the answers for all counts of the first stage from that in
        ``times`` on. Its forwards then wait for no backward, and each backward waits
        for the forwards that the least count puts before it. The other bound is the
        stage's own passes in their order, with every gradient there at once.
    answer
        Ends of the q backwards, then the latest end of g on another stage, if that g
        takes longer than the last gradient's way to the first of these stages; a
        shorter g never decides (the time tied embeddings add is on the pipeline's
        first stage as well). ABSENT if no path leads there. Length q + 1.
    """
    times, clock, arrive, done = walk.times, walk.clock, walk.arrive, walk.warm.done
    unseen = done[:0]
    flight = times[depth, StageTime.FLIGHT]
    skipped = max(0, first - flight + 1)
    for i in range(1, depth + 1):
        clock[i, :] = ABSENT
        ahead = skipped - 1 + times[i, StageTime.FLIGHT]
        clock[i, Clock.FORWARDS] = min(ahead, q) if skipped else 0
        arrive[i, :q] = ABSENT
    if first < 0:
        arrive[depth, :q] = 0
    else:
        arrive[depth, first] = 0
    if loose:
        done[:] = ABSENT
        _forwards(times, clock, arrive, depth, q, done)
        clock[depth, Clock.FREE] = ABSENT
    answer[:] = ABSENT
    for batch in range(skipped, q):
        for i in range(depth - 1 if loose else depth, 0, -1):
            until = min(batch + times[i, StageTime.FLIGHT], q)
            if clock[i, Clock.FORWARDS] < until:
                _forwards(times, clock, arrive, i, until, unseen)
        opens = ABSENT
        if loose:
            opens = done[min(batch + flight, q) - 1]
        _run_backward(times, clock, depth, opens, batch)
        end = clock[depth, Clock.FREE]
        if loose:
            ahead = min(batch + flight, q) - max(first, 0)
            back = batch - max(0, first - flight + 1) + 1
            path = ahead * times[depth, StageTime.PHI]
            end = max(end, path + back * times[depth, StageTime.BETA])
        if end > ABSENT // 2:
            answer[batch] = end
    travel = 0
    for i in range(depth - 1, 0, -1):
        travel += times[i + 1, StageTime.HOP] + times[i + 1, StageTime.BETA]
        sync = times[i, StageTime.SYNCED]
        if sync > travel and clock[i, Clock.FREE] > ABSENT // 2:
            answer[q] = max(answer[q], clock[i, Clock.FREE] + sync)


@step
def _run_backward(times: Ints, clock: Ints, depth: int, opens: int, batch: int) -> None:
    """Run the next backward of the last ``depth`` stages.

    Parameters
    ----------
    opens
        Earliest start of the backward on the first of them.
    """
    arrival = ABSENT
    for i in range(1, depth + 1):
        free = max(arrival, clock[i, Clock.FREE])
        if i == depth:
            free = max(free, opens)
        free += times[i, StageTime.BETA]
        clock[i, Clock.FREE] = free
        if batch >= times[i, StageTime.LATE]:
            clock[i, Clock.FREE] += times[i, StageTime.LATER]
        if i < depth:
            send = max(free, clock[i, Clock.BEFORE])
            clock[i, Clock.BEFORE] = send + times[i + 1, StageTime.PACE]
            arrival = send + times[i + 1, StageTime.HOP]


@step
def _forwards(
    times: Ints, clock: Ints, arrive: Ints, i: int, until: int, done: Ints
) -> None:
    """Run forwards of stage i before number ``until``; fill ``done`` unless empty."""
    phi, pace, hop = (
        times[i, StageTime.PHI],
        times[i, StageTime.PACE],
        times[i, StageTime.HOP],
    )
    free, ahead = clock[i, Clock.FREE], clock[i, Clock.FORWARDS]
    link = clock[i, Clock.NEXT]
    while ahead < until:
        free = max(free, arrive[i, ahead]) + phi
        if len(done):
            done[ahead] = free
        if i > 1:
            send = max(free, link)
            link = send + pace
            arrive[i - 1, ahead] = send + hop
        ahead += 1
    clock[i, Clock.FREE], clock[i, Clock.FORWARDS] = free, ahead
    clock[i, Clock.NEXT] = link
