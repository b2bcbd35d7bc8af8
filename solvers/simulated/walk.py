"""Every plan of one (p, q) within the limit, by depth-first search.

Stages are placed from the end of the pipeline, where warm-up counts are known; free
ones are chosen with each stage (``simulated.warmups``). A run is chosen first (option,
stages, units), then how its stages share the units. The placed stages are simulated
by themselves, with all forwards arriving at time 0. Their longest path can be extended
by the first micro-batch's way to them and the last gradient's way back to the first
stage. With X the end of the last backward on the first placed stage, and R a lower
bound on the fill of the rest plus g of the first stage,

    simulated time >= X + R.

A whole pipeline is simulated with every g: that is its simulated time.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from hetopt.base.compiled import kernel, step
from hetopt.solvers.arrays.costs import Edge, Fact, HostColumn, Option, Sum
from hetopt.solvers.arrays.windows import INFINITE
from hetopt.solvers.simulated.runs import opening
from hetopt.solvers.simulated.stage import stage_fits, tied_at_least, whole
from hetopt.solvers.simulated.state import (
    LevelScalar,
    Placed,
    WalkState,
    most_units,
    runs_ended,
)

if TYPE_CHECKING:
    from hetopt.solvers.arrays.costs import Costs
    from hetopt.solvers.simulated.state import Levels, Walk


class WalkEnd(IntEnum):
    """Return values of ``walk_on``."""

    DONE, FOUND, PAUSED, CROWDED = range(4)


@step
def _run_fits(costs: Costs, levels: Levels, walk: Walk, depth: int) -> bool:
    """Whether the run chosen at this depth may be part of a plan within the limit."""
    stage, p = walk.stage, costs.facts[Fact.P]
    o, m, y = (
        stage[depth, Placed.OPTION],
        stage[depth, Placed.RUN_STAGES],
        stage[depth, Placed.RUN_BEGIN],
    )
    e = costs.facts[Fact.L] if depth == 1 else stage[depth - 1, Placed.BEGIN]
    j = costs.option[o, Option.CLUSTER]
    left = p - depth - m + 1
    units = e - y
    if depth == 1:
        units += costs.facts[Fact.TRAILS]
    if y == 0:
        units += costs.facts[Fact.LEADS]
    if not costs.units_ok[j, units]:
        return False
    mask = stage[depth, Placed.UNUSED]
    ended = runs_ended(costs, mask)
    fill = costs.sums[Sum.FILL, o, e] - costs.sums[Sum.FILL, o, y]
    if m > 1:
        fill += costs.facts[Fact.HOPS] * (m - 1) * levels.inner[o]
    before, end, excess = 0, 0, 0
    if depth == 1:
        fill += costs.option[o, Option.TRAIL + Sum.FILL]
        fill += tied_at_least(costs, levels, walk)
    else:
        a = costs.option[o, Option.LAYOUT]
        b = costs.option[stage[depth - 1, Placed.OPTION], Option.LAYOUT]
        kappa = costs.edge[Edge.KAPPA, costs.cut[e], a, b]
        if kappa > levels.scalars[LevelScalar.CEILING]:
            return False
        fill += costs.facts[Fact.HOPS] * kappa
        before, end = stage[depth - 1, Placed.FILL], stage[depth - 1, Placed.END]
        excess = stage[depth - 1, Placed.EXCESS]
    if y == 0:
        least = e - most_units(levels, ended, o, depth, m - 1)
        fill += opening(costs, levels.ends, o, least)
    mask ^= 1 << j
    limit = walk.state[WalkState.LIMIT]
    level = stage[depth - 1, Placed.LEVEL] if depth > 1 else 0
    onward = levels.rest[level, mask, left, y] + max(excess, levels.low[level])
    onward = min(onward, levels.onward[level + 1, mask, left, y])
    if before + fill + onward > limit:
        return False
    for k in range(level, len(levels.low)):
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
        Unused clusters as bits, and the cluster of the next stage.
    """
    p, j = costs.facts[Fact.P], costs.option[o, Option.CLUSTER]
    left = p - depth - m + 1
    if not mask >> j & 1 or not costs.stages_ok[j, m]:
        return -1, 0
    if left == 0 and not costs.host[j, HostColumn.MAY_OPEN]:
        return -1, 0
    if depth == 1:
        if not costs.host[j, HostColumn.MAY_CLOSE]:
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
    stage, row, p = walk.stage, walk.stage[depth], costs.facts[Fact.P]
    e, after = costs.facts[Fact.L], -1
    if depth > 1:
        e = stage[depth - 1, Placed.BEGIN]
        after = costs.option[stage[depth - 1, Placed.OPTION], Option.CLUSTER]
    o, m, y = row[Placed.OPTION], row[Placed.RUN_STAGES], row[Placed.RUN_BEGIN]
    if o < 0:
        o, m, y = 0, 1, INFINITE
    while True:
        high, low = _begins(costs, levels, row[Placed.UNUSED], after, depth, e, o, m)
        y = min(y - 1, high)
        if y >= low:
            row[Placed.OPTION], row[Placed.RUN_STAGES], row[Placed.RUN_BEGIN] = o, m, y
            if _run_fits(costs, levels, walk, depth):
                return True
            continue
        m, y = m + 1, INFINITE
        if m > min(costs.option[o, Option.MOST_STAGES], p - depth + 1):
            o, m = o + 1, 1
            if o == len(costs.option):
                return False


@kernel
def walk_on(costs: Costs, levels: Levels, walk: Walk) -> int:
    """Search until a plan is found, steps or memory run out, or all is visited."""
    state, stage = walk.state, walk.stage
    p, length = costs.facts[Fact.P], costs.facts[Fact.L]
    widest = len(levels.low) - 1
    if stage[1, Placed.OPTION] < 0 and state[WalkState.DEPTH] == 1:
        stage[1, Placed.UNUSED] = (1 << len(costs.host)) - 1
    while state[WalkState.STEPS] > 0:
        depth = state[WalkState.DEPTH]
        if depth == 0:
            return WalkEnd.DONE
        state[WalkState.STEPS] -= 1
        row = stage[depth]
        row[Placed.LENGTH] += 1
        if row[Placed.OPTION] < 0 or row[Placed.LENGTH] > row[Placed.MOST]:
            if row[Placed.RUN_PLACE] or not _next_run(costs, levels, walk, depth):
                state[WalkState.DEPTH] -= 1
                continue
            e = length if depth == 1 else stage[depth - 1, Placed.BEGIN]
            units = e - row[Placed.RUN_BEGIN]
        else:
            units = -1
        if units >= 0:
            _share(costs, levels, walk, depth, units, widest)
            continue
        given = costs.given[depth - 1]
        if given >= 0 and row[Placed.LENGTH] != given:
            continue
        if not stage_fits(costs, levels, walk, depth):
            if state[WalkState.FULL]:
                return WalkEnd.CROWDED
            continue
        if depth == p:
            if whole(costs, levels, walk):
                return WalkEnd.FOUND
            continue
        depth += 1
        state[WalkState.DEPTH] = depth
        after = stage[depth]
        if row[Placed.RUN_PLACE] + 1 < row[Placed.RUN_STAGES]:
            after[Placed.OPTION] = row[Placed.OPTION]
            after[Placed.RUN_STAGES], after[Placed.RUN_BEGIN] = (
                row[Placed.RUN_STAGES],
                row[Placed.RUN_BEGIN],
            )
            after[Placed.RUN_PLACE], after[Placed.UNUSED] = (
                row[Placed.RUN_PLACE] + 1,
                row[Placed.UNUSED],
            )
            units = row[Placed.BEGIN] - row[Placed.RUN_BEGIN]
            _share(costs, levels, walk, depth, units, widest)
        else:
            after[Placed.OPTION], after[Placed.RUN_PLACE] = -1, 0
            after[Placed.RUN_STAGES], after[Placed.RUN_BEGIN] = 0, 0
            after[Placed.LENGTH], after[Placed.MOST] = 0, 0
            cluster = costs.option[row[Placed.OPTION], Option.CLUSTER]
            after[Placed.UNUSED] = row[Placed.UNUSED] ^ (1 << cluster)
    return WalkEnd.PAUSED


@step
def _share(
    costs: Costs, levels: Levels, walk: Walk, depth: int, units: int, widest: int
) -> None:
    """Set the range of a stage's units; it and the rest of its run share ``units``."""
    row = walk.stage[depth]
    togo = row[Placed.RUN_STAGES] - row[Placed.RUN_PLACE] - 1
    ended = runs_ended(costs, row[Placed.UNUSED])
    total = levels.total[widest, ended, row[Placed.OPTION]]
    row[Placed.MOST] = min(units - togo, total[depth] - total[depth - 1])
    least = units - (total[depth + togo] - total[depth])
    row[Placed.LENGTH] = max(1, least) - 1
