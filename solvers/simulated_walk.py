"""Every plan of one (p, q) that may be quick enough, by depth-first search.

Stages are placed from the end of the pipeline, where warm-up counts are known. A
run is chosen first (option, stages, units), then how its stages share the units.
What is placed is simulated by itself: all of it waits for the first forward of its
first stage only, so that its longest path may be extended by the first
micro-batch's way there and the last gradient's way home. With X the end of that
stage's last backward, and the fill of the rest at least R,

    simulated time >= X + R + least g.

A whole pipeline is simulated with every g: that is its simulated time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.solvers.compiled import kernel, step
from hetopt.solvers.dp_data import (
    ACTIVE,
    CLUSTER,
    FORWARD,
    FREE,
    GPIPE,
    KAPPA,
    LAYOUT,
    LEAD,
    LEADS,
    MAY_CLOSE,
    MAY_OPEN,
    OMEGA,
    PEAK,
    ROOM,
    STATE,
    SYNC,
    SYNC_FIXED,
    TAU,
    TIED,
    TRAIL,
    TRAILS,
    L,
    P,
    Q,
)

if TYPE_CHECKING:
    from hetopt.solvers.dp_data import Costs, Ints

#: More than any sum of times.
INFINITE = 2**60
#: Positions in ``Walk.state``.
DEPTH, LIMIT, STEPS, VALUE, PLANS = range(5)
#: Columns of ``Walk.stage``: its option, its run (stages, units before it, place),
#: units before and on it, fill and excess so far, end of its last backward, clusters
#: not used before its run, W, and whether its run is chosen.
(
    OPTION,
    RUN_STAGES,
    RUN_BEGIN,
    RUN_PLACE,
    BEGIN,
    LENGTH,
    FILL,
    EXCESS,
    END,
    UNUSED,
    WARMUP,
    LEAST,
    MOST,
) = range(13)
#: Columns of ``Walk.times``: phi, beta, kappa and omega to the next stage, w, g.
PHI, BETA, HOP, PACE, FLIGHT, SYNCED = range(6)
#: Answers of ``walk``.
DONE, FOUND, PAUSED = range(3)


class Levels(NamedTuple):
    """What the search looks ahead with, by interval of the excess; K intervals.

    Attributes
    ----------
    low, high
        Ends of the intervals in ns: low < excess <= high, ascending.
    total
        Most body units on the first so many places together, by interval and the
        runs that have ended before; shape (K, J, O, p + 1).
    rest
        ``prefixes`` of each interval; shape (K, 2 ** J, p + 1, L + 1).
    inner
        Least kappa inside a run, by option.
    knobs
        Least g in ns, and the range of lambda_0 in ns.
    delta
        Warm-ups added by a boundary, by cut class and layouts; shape (X, A, A).
    """

    low: Ints
    high: Ints
    total: Ints
    rest: Ints
    inner: Ints
    knobs: Ints
    delta: Ints


class Walk(NamedTuple):
    """Where the search is.

    Attributes
    ----------
    state
        Stages placed and being placed; the largest simulated time of interest, in
        ns; steps left; simulated time of the plan found; pipelines simulated whole.
    stage, times
        Per stage, counted from 1 at the end of the pipeline.
    arrive
        Scratch: arrivals of forwards; shape (p + 1, q).
    clock
        Scratch of the simulation, per stage; shape (p + 2, 4).
    """

    state: Ints
    stage: Ints
    times: Ints
    arrive: Ints
    clock: Ints


def new_walk(stages: int, microbatches: int, limit: int) -> Walk:
    """Return a search that has not begun."""
    walk = Walk(
        state=np.array([1, limit, 0, 0, 0], dtype=np.int64),
        stage=np.zeros((stages + 2, 13), dtype=np.int64),
        times=np.zeros((stages + 2, 6), dtype=np.int64),
        arrive=np.zeros((stages + 2, microbatches), dtype=np.int64),
        clock=np.zeros((stages + 2, 4), dtype=np.int64),
    )
    walk.stage[1, OPTION] = -1
    return walk


@step
def _run(times: Ints, depth: int, q: int, arrive: Ints, clock: Ints) -> int:
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
            ahead = clock[i, 1]
            if ahead >= until:
                continue
            phi, hop, pace = times[i, PHI], times[i, HOP], times[i, PACE]
            free, link = clock[i, 0], clock[i, 2]
            while ahead < until:
                free = max(free, arrive[i, ahead]) + phi
                if i > 1:
                    send = max(free, link)
                    link = send + pace
                    arrive[i - 1, ahead] = send + hop
                ahead += 1
            clock[i, 0], clock[i, 1], clock[i, 2] = free, ahead, link
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
    return int(_run(times, depth, q, arrive, clock))


@step
def _within(
    costs: Costs, levels: Levels, limit: int, fill: int, end: int, excess: int,
    mask: int, stages: int, begin: int,
) -> bool:  # fmt: skip
    """Whether some interval of the excess leaves room below the limit.

    Parameters
    ----------
    fill
        Of what is placed and of the run that is chosen.
    end
        Longest path so far that the rest's fill adds to.
    mask, stages, begin
        Clusters, stages and body units that are left for the rest.
    """
    limit -= levels.knobs[0]
    for k in range(len(levels.low)):
        if excess > levels.high[k]:
            continue
        rest = levels.rest[k, mask, stages, begin]
        if end + rest > limit:
            continue
        if fill + rest + max(excess, levels.low[k]) <= limit:
            return True
    return False


@step
def _ended(costs: Costs, mask: int) -> int:
    ended = 0
    for j in range(len(costs.host)):
        if not mask >> j & 1:
            ended += 1
    return ended


@step
def _run_fits(costs: Costs, levels: Levels, walk: Walk, depth: int) -> bool:
    """Whether the run chosen at this depth may be part of a plan within the limit."""
    stage, p = walk.stage, costs.facts[P]
    o, m, y = stage[depth, OPTION], stage[depth, RUN_STAGES], stage[depth, RUN_BEGIN]
    e = costs.facts[L] if depth == 1 else stage[depth - 1, BEGIN]
    j = costs.option[o, CLUSTER]
    left = p - depth - m + 1
    units = e - y
    if depth == 1:
        units += costs.facts[TRAILS]
    if y == 0:
        units += costs.facts[LEADS]
    if not costs.units_ok[j, units]:
        return False
    mask = stage[depth, UNUSED]
    ended = _ended(costs, mask)
    fill = costs.sums[TAU, o, e] - costs.sums[TAU, o, y]
    if m > 1:
        fill += 2 * (m - 1) * levels.inner[o]
    before, end, excess = 0, 0, 0
    if depth == 1:
        fill += costs.option[o, TRAIL + TAU]
    else:
        a = costs.option[o, LAYOUT]
        b = costs.option[stage[depth - 1, OPTION], LAYOUT]
        kappa = costs.edge[KAPPA, costs.cut[e], a, b]
        if kappa > levels.knobs[2]:
            return False
        fill += 2 * kappa
        before, end = stage[depth - 1, FILL], stage[depth - 1, END]
        excess = stage[depth - 1, EXCESS]
    if y == 0:
        fill += costs.option[o, LEAD + TAU]
    mask ^= 1 << j
    limit = walk.state[LIMIT] - levels.knobs[0]
    for k in range(len(levels.low)):
        if excess > levels.high[k]:
            continue
        total = levels.total[k, ended, o]
        if e - y > total[depth + m - 1] - total[depth - 1]:
            continue
        rest = levels.rest[k, mask, left, y] + fill
        if end + rest > limit:
            continue
        if before + rest + max(excess, levels.low[k]) <= limit:
            return True
    return False


@step
def _begins(
    costs: Costs,
    levels: Levels,
    mask: int,
    after: int,
    depth: int,
    e: int,
    o: int,
    m: int,
) -> tuple[int, int]:
    """Return the most and the least units that may be left before a run.

    Parameters
    ----------
    mask, after
        Clusters not used yet, and the one of the next stage.
    """
    p, j = costs.facts[P], costs.option[o, CLUSTER]
    left = p - depth - m + 1
    if not mask >> j & 1 or not costs.stages_ok[j, m]:
        return -1, 0
    if left == 0 and not costs.host[j, MAY_OPEN]:
        return -1, 0
    if depth == 1:
        if not costs.host[j, MAY_CLOSE]:
            return -1, 0
    elif not costs.before[j, after]:
        return -1, 0
    total = levels.total[-1, _ended(costs, mask), o]
    least = e - (total[depth + m - 1] - total[depth - 1])
    if left == 0:
        return (0, 0) if least <= 0 and e >= m else (-1, 0)
    return e - m, max(left, least)


@step
def _next_run(costs: Costs, levels: Levels, walk: Walk, depth: int) -> bool:
    """Choose the next run that begins at this depth; False if there is none left."""
    stage, row, p = walk.stage, walk.stage[depth], costs.facts[P]
    e, after = costs.facts[L], -1
    if depth > 1:
        e = stage[depth - 1, BEGIN]
        after = costs.option[stage[depth - 1, OPTION], CLUSTER]
    o, m, y = row[OPTION], row[RUN_STAGES], row[RUN_BEGIN]
    if o < 0:
        o, m, y = 0, 1, INFINITE
    while True:
        high, low = _begins(costs, levels, row[UNUSED], after, depth, e, o, m)
        y = min(y - 1, high)
        if y >= low:
            row[OPTION], row[RUN_STAGES], row[RUN_BEGIN] = o, m, y
            if _run_fits(costs, levels, walk, depth):
                return True
            continue
        m, y = m + 1, INFINITE
        if m > min(costs.option[o, ROOM], p - depth + 1):
            o, m = o + 1, 1
            if o == len(costs.option):
                return False


@step
def _stage_fits(costs: Costs, levels: Levels, walk: Walk, depth: int) -> bool:
    """Price, bound and simulate the stage at this depth; whether to go on from it."""
    facts, row, times = costs.facts, walk.stage[depth], walk.times[depth]
    p, q = facts[P], facts[Q]
    o, length = row[OPTION], row[LENGTH]
    e = facts[L] if depth == 1 else walk.stage[depth - 1, BEGIN]
    b = row[BEGIN] = e - length
    option = costs.option[o]
    phi = costs.sums[FORWARD, o, e] - costs.sums[FORWARD, o, b]
    tau = costs.sums[TAU, o, e] - costs.sums[TAU, o, b]
    state = costs.sums[STATE, o, e] - costs.sums[STATE, o, b]
    active = costs.sums[ACTIVE, o, e] - costs.sums[ACTIVE, o, b]
    synced = option[SYNC_FIXED] + costs.sums[SYNC, o, e] - costs.sums[SYNC, o, b]
    peak = 0
    for unit in range(b, e):
        peak = max(peak, costs.temporary[o, unit])
    for place in range(2):
        at = LEAD if place else TRAIL
        if depth != (p if place else 1):
            continue
        phi += option[at + FORWARD]
        tau += option[at + TAU]
        state += option[at + STATE]
        active += option[at + ACTIVE]
        synced += option[at + SYNC]
        peak = max(peak, option[at + PEAK])
    if tau > levels.knobs[2]:
        return False
    warmup, fill, excess, hop, pace = 1, tau, 0, 0, 0
    if depth > 1:
        before = walk.stage[depth - 1]
        a, after = option[LAYOUT], costs.option[before[OPTION], LAYOUT]
        x = costs.cut[e]
        hop, pace = costs.edge[KAPPA, x, a, after], costs.edge[OMEGA, x, a, after]
        if hop > levels.knobs[2]:
            return False
        warmup = before[WARMUP] + levels.delta[x, a, after]
        fill += before[FILL] + 2 * hop
        excess = before[EXCESS]
    flight = q if facts[GPIPE] else min(warmup, q)
    if state + flight * active + peak > option[FREE]:
        return False
    counted = 1 if facts[GPIPE] else flight
    excess = max(excess, (q - counted) * phi + (q - 1) * (tau - phi))
    row[WARMUP], row[FILL], row[EXCESS] = warmup, fill, excess
    y, m = row[RUN_BEGIN], row[RUN_STAGES]
    ahead = costs.sums[TAU, o, b] - costs.sums[TAU, o, y]
    togo = m - row[RUN_PLACE] - 1
    if togo:
        ahead += 2 * togo * levels.inner[o]
        if y == 0:
            ahead += option[LEAD + TAU]
    mask = row[UNUSED] ^ (1 << option[CLUSTER])
    left = p - depth - togo
    limit = walk.state[LIMIT]
    if not _within(costs, levels, limit, fill + ahead, ahead, excess, mask, left, y):
        return False
    times[PHI], times[BETA], times[HOP], times[PACE] = phi, tau - phi, hop, pace
    times[FLIGHT], times[SYNCED] = flight, synced
    end = _run(walk.times, depth, q, walk.arrive, walk.clock)
    row[END] = end
    return _within(
        costs, levels, limit, fill + ahead, end + ahead, excess, mask, left, y
    )


@step
def _whole(costs: Costs, levels: Levels, walk: Walk) -> bool:
    """Whether the pipeline that is placed is a plan within the limit; set its value."""
    p = costs.facts[P]
    walk.state[PLANS] += 1
    mask = walk.stage[p, UNUSED] ^ (1 << costs.option[walk.stage[p, OPTION], CLUSTER])
    for j in range(len(costs.host)):
        if mask >> j & 1 and not (costs.stages_ok[j, 0] and costs.units_ok[j, 0]):
            return False
    tied, longest, value = 0, 0, 0
    if costs.facts[TIED]:
        first = costs.option[walk.stage[p, OPTION], LAYOUT]
        tied = costs.tied[first, costs.option[walk.stage[1, OPTION], LAYOUT]]
    for i in range(1, p + 1):
        times = walk.times[i]
        longest = max(longest, times[PHI] + times[BETA], times[HOP])
        more = tied if i in (1, p) else 0
        value = max(value, walk.clock[i, 0] + times[SYNCED] + more)
    walk.state[VALUE] = value
    return bool(longest >= levels.knobs[1] and value <= walk.state[LIMIT])


@kernel
def walk_on(costs: Costs, levels: Levels, walk: Walk) -> int:
    """Go on until a plan is found, the steps are used up, or all is done."""
    state, stage = walk.state, walk.stage
    p, length = costs.facts[P], costs.facts[L]
    widest = len(levels.low) - 1
    if stage[1, OPTION] < 0 and state[DEPTH] == 1:
        stage[1, UNUSED] = (1 << len(costs.host)) - 1
    while state[STEPS] > 0:
        depth = state[DEPTH]
        if depth == 0:
            return DONE
        state[STEPS] -= 1
        row = stage[depth]
        row[LENGTH] += 1
        if row[OPTION] < 0 or row[LENGTH] > row[MOST]:
            if row[RUN_PLACE] or not _next_run(costs, levels, walk, depth):
                state[DEPTH] -= 1
                continue
            e = length if depth == 1 else stage[depth - 1, BEGIN]
            units = e - row[RUN_BEGIN]
        else:
            units = -1
        if units >= 0:
            _share(costs, levels, walk, depth, units, widest)
            continue
        given = costs.given[depth - 1]
        if given >= 0 and row[LENGTH] != given:
            continue
        if not _stage_fits(costs, levels, walk, depth):
            continue
        if depth == p:
            if _whole(costs, levels, walk):
                return FOUND
            continue
        depth += 1
        state[DEPTH] = depth
        after = stage[depth]
        if row[RUN_PLACE] + 1 < row[RUN_STAGES]:
            after[OPTION] = row[OPTION]
            after[RUN_STAGES], after[RUN_BEGIN] = row[RUN_STAGES], row[RUN_BEGIN]
            after[RUN_PLACE], after[UNUSED] = row[RUN_PLACE] + 1, row[UNUSED]
            units = row[BEGIN] - row[RUN_BEGIN]
            _share(costs, levels, walk, depth, units, widest)
        else:
            after[OPTION], after[RUN_PLACE] = -1, 0
            after[RUN_STAGES], after[RUN_BEGIN] = 0, 0
            after[LENGTH], after[MOST] = 0, 0
            cluster = costs.option[row[OPTION], CLUSTER]
            after[UNUSED] = row[UNUSED] ^ (1 << cluster)
    return PAUSED


@step
def _share(
    costs: Costs, levels: Levels, walk: Walk, depth: int, units: int, widest: int
) -> None:
    """Set the range of units of a stage, with so many left for it and its run."""
    row = walk.stage[depth]
    togo = row[RUN_STAGES] - row[RUN_PLACE] - 1
    ended = _ended(costs, row[UNUSED])
    total = levels.total[widest, ended, row[OPTION]]
    row[MOST] = min(units - togo, total[depth] - total[depth - 1])
    least = units - (total[depth + togo] - total[depth])
    row[LENGTH] = max(1, least) - 1
