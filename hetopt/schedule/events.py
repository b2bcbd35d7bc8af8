"""Start times of all events of a pipeline, and the longest chain of them.

Both functions run uncompiled on nested lists of Python integers, which do not
overflow, and compiled on arrays of the same shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.compiled import kernel

if TYPE_CHECKING:
    from typing import Any

#: Kinds of events. Those before OCCUPY_FORWARD, and WEIGHT, are also rows of
#: ``starts``; those before INFLIGHT are rows of ``fixed``. A transfer belongs to the
#: sending stage; ``OCCUPY_*`` is the part of it for which the next one in its direction
#: waits. WEIGHT is a weight gradient that runs later (``hetopt.schedule.weights``).
FORWARD, BACKWARD, SEND_FORWARD, SEND_BACKWARD = range(4)
OCCUPY_FORWARD, OCCUPY_BACKWARD = range(4, 6)
WEIGHT = 6
#: Rows of ``fixed``: the most micro-batches each stage holds before their backward, and
#: by how many micro-batches its gradients of weights run later than their backward.
INFLIGHT, POSTPONED = range(7, 9)


@kernel
def run(fixed: Any, starts: Any, clocks: Any) -> None:
    """Start every event as early as possible, in a fixed topological order.

    Round m runs, stage by stage downstream, every forward that comes before the m-th
    backward of its stage, then, upstream, the m-th backwards. If warm-ups do not rise
    downstream, everything that an event waits for has then run: its own stage's forward
    m + W - 1 follows backward m - 1 of the previous round, and the stage before it is
    at least as many forwards ahead. The weight gradients of a micro-batch follow a
    later micro-batch's backward, or come at the end.

    Parameters
    ----------
    fixed
        By kind and stage the delay from an event to its successor, and the rows
        INFLIGHT and POSTPONED; shape (9, p).
    starts
        Start by kind, stage and micro-batch; filled. Shape (4, p, q), or (7, p, q) if
        gradients of weights run later.
    clocks
        Zeros; holds when a stage, its link downstream and its link upstream are free,
        and how many forwards the stage has run; shape (4, p).
    """
    free, downstream, upstream, done = clocks[0], clocks[1], clocks[2], clocks[3]
    stages, microbatches = len(fixed[0]), len(starts[0][0])
    splits = len(starts) > WEIGHT
    for microbatch in range(microbatches):
        for stage in range(stages):
            until = min(microbatch + fixed[INFLIGHT][stage], microbatches)
            for ahead in range(done[stage], until):
                start = free[stage]
                if stage:
                    sent = starts[SEND_FORWARD][stage - 1][ahead]
                    start = max(start, sent + fixed[SEND_FORWARD][stage - 1])
                starts[FORWARD][stage][ahead] = start
                free[stage] = start + fixed[FORWARD][stage]
                send = max(free[stage], downstream[stage])
                starts[SEND_FORWARD][stage][ahead] = send
                downstream[stage] = send + fixed[OCCUPY_FORWARD][stage]
            done[stage] = max(done[stage], until)
        for stage in range(stages - 1, -1, -1):
            start = free[stage]
            if stage + 1 < stages:
                sent = starts[SEND_BACKWARD][stage + 1][microbatch]
                start = max(start, sent + fixed[SEND_BACKWARD][stage + 1])
            starts[BACKWARD][stage][microbatch] = start
            free[stage] = start + fixed[BACKWARD][stage]
            send = max(free[stage], upstream[stage])
            starts[SEND_BACKWARD][stage][microbatch] = send
            upstream[stage] = send + fixed[OCCUPY_BACKWARD][stage]
            later = microbatch - fixed[POSTPONED][stage]
            if splits and later >= 0:
                starts[WEIGHT][stage][later] = free[stage]
                free[stage] += fixed[WEIGHT][stage]
    for stage in range(stages if splits else 0):
        first = max(0, microbatches - fixed[POSTPONED][stage])
        for later in range(first, microbatches):
            starts[WEIGHT][stage][later] = free[stage]
            free[stage] += fixed[WEIGHT][stage]


# One function handles all kinds of events, because it also runs uncompiled: Python
# cannot call a compiled helper that returns two numbers.
@kernel
def walk_back(fixed: Any, starts: Any, stage: int, path: Any) -> int:
    """Walk from the last pass of a stage to time 0; return the number of events.

    From each event it goes to one that ends when the event starts; if there are two, to
    the one on the same stage or link.

    Parameters
    ----------
    path
        Filled with kind, stage, micro-batch, start and end of the events, the last one
        first, as far as it has room. Shape (any, 5).
    """
    stages, microbatches = len(fixed[0]), len(starts[0][0])
    splits = len(starts) > WEIGHT
    kind, microbatch = WEIGHT if splits else BACKWARD, microbatches - 1
    start = starts[kind][stage][microbatch]
    count = 0
    while True:
        if count < len(path):
            path[count][0], path[count][1], path[count][2] = kind, stage, microbatch
            path[count][3], path[count][4] = start, start + fixed[kind][stage]
        count += 1
        # The preceding event on its own stage or link, and the event elsewhere that it
        # depends on; -1 if there is none.
        before, before_batch, needed, needed_stage = -1, 0, -1, stage
        postponed = fixed[POSTPONED][stage]
        # The micro-batch whose backward, with weight gradients after it, comes before.
        behind = -1
        if kind == FORWARD:
            if microbatch >= fixed[INFLIGHT][stage]:
                behind = microbatch - fixed[INFLIGHT][stage]
            elif microbatch:
                before, before_batch = FORWARD, microbatch - 1
            if stage:
                needed, needed_stage = SEND_FORWARD, stage - 1
        elif kind == BACKWARD:
            before, before_batch = FORWARD, microbatch + fixed[INFLIGHT][stage] - 1
            if before_batch >= microbatches:
                behind = microbatch - 1
            if stage + 1 < stages:
                needed, needed_stage = SEND_BACKWARD, stage + 1
        elif kind == WEIGHT:
            before, before_batch = BACKWARD, microbatch + postponed
            if before_batch >= microbatches:
                before, before_batch = WEIGHT, microbatch - 1
                if not microbatch:
                    before, before_batch = BACKWARD, microbatches - 1
        else:
            needed = FORWARD
            if kind in (SEND_BACKWARD, OCCUPY_BACKWARD):
                needed = BACKWARD
            if microbatch:
                before, before_batch = OCCUPY_FORWARD + needed, microbatch - 1
        if behind >= 0:
            before, before_batch = BACKWARD, behind
            if splits and behind >= postponed:
                before, before_batch = WEIGHT, behind - postponed
        if before >= 0:
            row = before - 2 if OCCUPY_FORWARD <= before < WEIGHT else before
            earlier = starts[row][stage][before_batch]
            if earlier + fixed[before][stage] == start:
                kind, microbatch, start = before, before_batch, earlier
                continue
        if needed >= 0:
            earlier = starts[needed][needed_stage][microbatch]
            if earlier + fixed[needed][needed_stage] == start:
                kind, stage, start = needed, needed_stage, earlier
                continue
        return count
