"""When things run on the last stages of a pipeline, compiled.

Stages are counted from 1 at the end of the pipeline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.compiled import step
from hetopt.solvers.simulated.columns import Clock, StageTime

if TYPE_CHECKING:
    from hetopt.solvers.arrays.costs import Ints
    from hetopt.solvers.simulated.state import Walk

#: Before any time: what nothing leads to.
ABSENT = -(2**61)


@step
def run_end(walk: Walk, depth: int, q: int) -> int:
    """Simulate the last ``depth`` stages; return when the first of them is free.

    After the warm-ups each stage runs one forward per backward, which is written out
    here: calling ``_forwards`` for each takes five times as long. Warm-ups are at most
    q. Forwards are not counted in ``Clock.FORWARDS`` then.
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
        _run_backward(times, clock, depth, 0)
    return int(clock[depth, Clock.FREE])


# The loop over micro-batches reads and sets nearly all of what is named before it.
@step
def feed(walk: Walk, depth: int, q: int, first: int, loose: bool, answer: Ints) -> None:
    """Return when backwards end on the first of the last ``depth`` stages.

    The end of a pipeline answers forwards with gradients. Every end of a backward
    is the largest of sums, each of the arrival of one forward and of the longest
    path from it; here are the paths from one of them.

    Parameters
    ----------
    first
        The only micro-batch whose forward arrives, at time 0; the others were always
        there. -1 for all at time 0.
    loose
        Whether the first stage may warm up more often than ``times`` says: what
        is returned is at most what any count from that one on returns. Its forwards
        wait for no backward, while a backward waits for as many forwards as the
        least count asks for; or its own order is followed with gradients at hand.
    answer
        Ends of the q backwards, and the last end of another stage, its g included, if
        g takes longer than the last gradient's way to the first of them: if not, g
        decides nothing (what tied embeddings add, the first stage of all has as
        well). ABSENT where no path leads. Length q + 1.
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
        _run_backward(times, clock, depth, opens)
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
def _run_backward(times: Ints, clock: Ints, depth: int, opens: int) -> None:
    """Run the next backward of the last ``depth`` stages.

    Parameters
    ----------
    opens
        The first of them does not begin before.
    """
    arrival = ABSENT
    for i in range(1, depth + 1):
        free = max(arrival, clock[i, Clock.FREE])
        if i == depth:
            free = max(free, opens)
        free += times[i, StageTime.BETA]
        clock[i, Clock.FREE] = free
        if i < depth:
            send = max(free, clock[i, Clock.BEFORE])
            clock[i, Clock.BEFORE] = send + times[i + 1, StageTime.PACE]
            arrival = send + times[i + 1, StageTime.HOP]


@step
def _forwards(
    times: Ints, clock: Ints, arrive: Ints, i: int, until: int, done: Ints
) -> None:
    """Run forwards of stage i up to one; their ends go into ``done`` if it has room."""
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
