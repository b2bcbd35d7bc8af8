"""When things run on the last stages of a pipeline, compiled.

Stages are counted from 1 at the end of the pipeline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.compiled import kernel, step

if TYPE_CHECKING:
    from hetopt.solvers.arrays.program import Ints

#: Columns of ``Walk.times``: phi, beta, kappa and omega to the next stage, w, g.
PHI, BETA, HOP, PACE, FLIGHT, SYNCED = range(6)
#: Before any time: what nothing leads to.
ABSENT = -(2**61)


@step
def run_end(times: Ints, depth: int, q: int, arrive: Ints, clock: Ints) -> int:
    """Simulate the last ``depth`` stages; return when the first of them is free.

    In ``clock`` are left: when each stage is free, its forwards, and when its links
    to the next and to the stage before are free.
    """
    for i in range(1, depth + 1):
        clock[i, :] = 0
    arrive[depth, :q] = 0
    for batch in range(q):
        for i in range(depth, 0, -1):
            until = min(batch + times[i, FLIGHT], q)
            if clock[i, 1] < until:
                _forwards(times, i, until, arrive, clock, clock[0, :0])
        arrival = 0
        for i in range(1, depth + 1):
            free = max(arrival, clock[i, 0]) + times[i, BETA]
            clock[i, 0] = free
            if i < depth:
                send = max(free, clock[i, 3])
                clock[i, 3] = send + times[i + 1, PACE]
                arrival = send + times[i + 1, HOP]
    return int(clock[depth, 0])


@kernel
def simulate_end(times: Ints, depth: int, q: int, arrive: Ints, clock: Ints) -> int:
    """Return when the first of the last ``depth`` stages ends its last backward.

    In the first column of ``clock`` is when each of them does, counted from 1.
    """
    return int(run_end(times, depth, q, arrive, clock))


@step
def feed(
    times: Ints, depth: int, q: int, first: int, loose: bool, arrive: Ints,
    clock: Ints, done: Ints, answer: Ints,
) -> None:  # fmt: skip
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
    flight = times[depth, FLIGHT]
    skipped = max(0, first - flight + 1)
    for i in range(1, depth + 1):
        clock[i, :] = ABSENT
        clock[i, 1] = min(skipped - 1 + times[i, FLIGHT], q) if skipped else 0
        arrive[i, :q] = ABSENT
    if first < 0:
        arrive[depth, :q] = 0
    else:
        arrive[depth, first] = 0
    top = depth
    if loose:
        top = depth - 1
        done[:] = ABSENT
        _forwards(times, depth, q, arrive, clock, done)
        clock[depth, 0] = ABSENT
    answer[:] = ABSENT
    for batch in range(skipped, q):
        for i in range(top, 0, -1):
            until = min(batch + times[i, FLIGHT], q)
            if clock[i, 1] < until:
                _forwards(times, i, until, arrive, clock, done[:0])
        arrival = ABSENT
        for i in range(1, depth + 1):
            free = max(arrival, clock[i, 0])
            if loose and i == depth:
                free = max(free, done[min(batch + flight, q) - 1])
            free += times[i, BETA]
            clock[i, 0] = free
            if i < depth:
                send = max(free, clock[i, 3])
                clock[i, 3] = send + times[i + 1, PACE]
                arrival = send + times[i + 1, HOP]
        end = clock[depth, 0]
        if loose:
            ahead = min(batch + flight, q) - max(first, 0)
            back = batch - max(0, first - flight + 1) + 1
            end = max(end, ahead * times[depth, PHI] + back * times[depth, BETA])
        if end > ABSENT // 2:
            answer[batch] = end
    travel = 0
    for i in range(depth - 1, 0, -1):
        travel += times[i + 1, HOP] + times[i + 1, BETA]
        if times[i, SYNCED] > travel and clock[i, 0] > ABSENT // 2:
            answer[q] = max(answer[q], clock[i, 0] + times[i, SYNCED])


@step
def _forwards(
    times: Ints, i: int, until: int, arrive: Ints, clock: Ints, done: Ints
) -> None:
    """Run forwards of stage i up to one; their ends go into ``done`` if it has room."""
    phi, hop, pace = times[i, PHI], times[i, HOP], times[i, PACE]
    free, ahead, link = clock[i, 0], clock[i, 1], clock[i, 2]
    while ahead < until:
        free = max(free, arrive[i, ahead]) + phi
        if len(done):
            done[ahead] = free
        if i > 1:
            send = max(free, link)
            link = send + pace
            arrive[i - 1, ahead] = send + hop
        ahead += 1
    clock[i, 0], clock[i, 1], clock[i, 2] = free, ahead, link
