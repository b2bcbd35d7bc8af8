"""Every plan of one (p, q) that may be quick enough, by depth-first search.

Stages are placed from the end of the pipeline, where warm-up counts are known, or
are chosen with every stage where they are free (``simulated.warmups``). A run is
chosen first (option, stages, units), then how its stages share the units.
What is placed is simulated by itself: all of it waits for the first forward of its
first stage only, so that its longest path may be extended by the first
micro-batch's way there and the last gradient's way home. With X the end of that
stage's last backward, and the fill of the rest at least R,

    simulated time >= X + R + least g.

A whole pipeline is simulated with every g: that is its simulated time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.compiled import kernel, step
from hetopt.solvers.arrays.program import (
    CLUSTER,
    KAPPA,
    LAYOUT,
    LEAD,
    LEADS,
    MAY_CLOSE,
    MAY_OPEN,
    ROOM,
    TAU,
    TRAIL,
    TRAILS,
    L,
    P,
)
from hetopt.solvers.simulated.stage import stage_fits, whole
from hetopt.solvers.simulated.state import (
    BEGIN,
    DEPTH,
    END,
    EXCESS,
    FILL,
    FULL,
    INFINITE,
    LENGTH,
    LIMIT,
    MOST,
    OPTION,
    RUN_BEGIN,
    RUN_PLACE,
    RUN_STAGES,
    STEPS,
    UNUSED,
    runs_ended,
)

if TYPE_CHECKING:
    from hetopt.solvers.arrays.program import Costs
    from hetopt.solvers.simulated.state import Levels, Walk

#: Answers of ``walk``.
DONE, FOUND, PAUSED, CROWDED = range(4)


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
    ended = runs_ended(costs, mask)
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
    total = levels.total[-1, runs_ended(costs, mask), o]
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


@kernel
def walk_on(costs: Costs, levels: Levels, walk: Walk) -> int:
    """Go on until a plan is found, the steps are up, all is done or is too much."""
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
        if not stage_fits(costs, levels, walk, depth):
            if state[FULL]:
                return CROWDED
            continue
        if depth == p:
            if whole(costs, levels, walk):
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
    ended = runs_ended(costs, row[UNUSED])
    total = levels.total[widest, ended, row[OPTION]]
    row[MOST] = min(units - togo, total[depth] - total[depth - 1])
    least = units - (total[depth + togo] - total[depth])
    row[LENGTH] = max(1, least) - 1
