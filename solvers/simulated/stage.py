"""Whether a stage may be part of a plan that is quick enough, and what a plan takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.compiled import step
from hetopt.solvers.arrays.program import (
    ACTIVE,
    AUTO,
    CLUSTER,
    FORWARD,
    FREE,
    GPIPE,
    KAPPA,
    LAYOUT,
    LEAD,
    OMEGA,
    PEAK,
    STATE,
    SYNC,
    SYNC_FIXED,
    TAU,
    TIED,
    TRAIL,
    L,
    P,
    Q,
)
from hetopt.solvers.simulated.flow import (
    BETA,
    FLIGHT,
    HOP,
    PACE,
    PHI,
    SYNCED,
    run_end,
)
from hetopt.solvers.simulated.state import (
    BEGIN,
    END,
    EXCESS,
    FILL,
    FULL,
    LENGTH,
    LIMIT,
    OPTION,
    PLANS,
    RUN_BEGIN,
    RUN_PLACE,
    RUN_STAGES,
    UNUSED,
    VALUE,
    WARMUP,
    within,
)
from hetopt.solvers.simulated.warmups import warm_up, warm_up_whole

if TYPE_CHECKING:
    from hetopt.solvers.arrays.program import Costs
    from hetopt.solvers.simulated.state import Levels, Walk


@step
def stage_fits(costs: Costs, levels: Levels, walk: Walk, depth: int) -> bool:
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
    if facts[AUTO] and depth > 1:
        # As many as fit: the least excess there is.
        flight = q
        if state + q * active + peak > option[FREE]:
            flight = max(1, (option[FREE] - state - peak) // max(1, active))
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
    if not within(levels, limit, fill + ahead, ahead, excess, mask, left, y):
        return False
    times[PHI], times[BETA], times[HOP], times[PACE] = phi, tau - phi, hop, pace
    times[FLIGHT], times[SYNCED] = flight, synced
    if facts[AUTO]:
        if depth == p:
            tied = _tied(costs, walk)
            return warm_up_whole(levels, walk, depth, q, flight, fill, tied)
        found = warm_up(
            levels, walk, depth, q, flight, fill + ahead, ahead, mask, left, y
        )
        walk.state[FULL] |= found < 0
        return bool(found > 0)
    end = run_end(walk.times, depth, q, walk.arrive, walk.clock)
    row[END] = end
    return within(levels, limit, fill + ahead, end + ahead, excess, mask, left, y)


@step
def _tied(costs: Costs, walk: Walk) -> int:
    """Return what tied embeddings add to g of the first stage and of the last."""
    if not costs.facts[TIED]:
        return 0
    first = costs.option[walk.stage[costs.facts[P], OPTION], LAYOUT]
    return int(costs.tied[first, costs.option[walk.stage[1, OPTION], LAYOUT]])


@step
def whole(costs: Costs, levels: Levels, walk: Walk) -> bool:
    """Whether the pipeline that is placed is a plan within the limit; set its value."""
    p = costs.facts[P]
    walk.state[PLANS] += 1
    mask = walk.stage[p, UNUSED] ^ (1 << costs.option[walk.stage[p, OPTION], CLUSTER])
    for j in range(len(costs.host)):
        if mask >> j & 1 and not (costs.stages_ok[j, 0] and costs.units_ok[j, 0]):
            return False
    tied, longest, value = _tied(costs, walk), 0, 0
    for i in range(1, p + 1):
        times = walk.times[i]
        longest = max(longest, times[PHI] + times[BETA], times[HOP])
        more = tied if i in (1, p) else 0
        value = max(value, walk.clock[i, 0] + times[SYNCED] + more)
    walk.state[VALUE] = value
    return bool(longest >= levels.knobs[1] and value <= walk.state[LIMIT])
