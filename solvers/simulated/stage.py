"""Whether a stage may be part of a plan within the limit; a plan's simulated time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.compiled import step
from hetopt.solvers.arrays.costs import Edge, Fact, Option, Sum, Weight
from hetopt.solvers.arrays.stages import StageSums, ends_of, with_units
from hetopt.solvers.simulated.bounds import End, uplink_excess
from hetopt.solvers.simulated.columns import Clock, StageTime
from hetopt.solvers.simulated.flow import run_end, run_meeting
from hetopt.solvers.simulated.runs import opening
from hetopt.solvers.simulated.state import (
    LevelScalar,
    Placed,
    Rest,
    WalkState,
    level_of,
    most_units,
    runs_ended,
    within,
)
from hetopt.solvers.simulated.warmups import warm_up, warm_up_whole

if TYPE_CHECKING:
    from hetopt.solvers.arrays.costs import Costs, Ints
    from hetopt.solvers.simulated.state import Levels, Walk


@step
def stage_fits(costs: Costs, levels: Levels, walk: Walk, depth: int) -> bool:
    """Price, bound and simulate the stage at this depth; False if it is ruled out."""
    facts, row = costs.facts, walk.stage[depth]
    p, q = facts[Fact.P], facts[Fact.Q]
    held, peak, fill, warmup = _price(costs, levels, walk, depth)
    if fill < 0:
        return False
    option = costs.option[row[Placed.OPTION]]
    flight = q if facts[Fact.GPIPE] else min(warmup, q)
    left = option[Option.FREE_BYTES] - held.state - peak
    if facts[Fact.FREE] and depth > 1:
        # As many warm-ups as fit give the least excess.
        flight = q
        if q * held.active > left:
            flight = max(1, left // max(1, held.active))
    if flight * held.active > left:
        return False
    times = walk.times[depth]
    times[StageTime.FLIGHT] = flight
    excess, more = _excess(costs, times, 0), costs.weights[0, Weight.BACKWARD]
    if depth > 1:
        excess = max(excess, walk.stage[depth - 1, Placed.EXCESS])
        excess = max(excess, more * times[StageTime.PACE])
        if facts[Fact.BLOCKING]:
            before = walk.times[depth - 1]
            excess = max(excess, _excess(costs, before, times[StageTime.HOP]))
        begins = row[Placed.RUN_PLACE] + 1 == row[Placed.RUN_STAGES]
        if begins and depth < p and runs_ended(costs, row[Placed.UNUSED]):
            uplink = uplink_excess(costs, row[Placed.OPTION], flight)
            excess = max(excess, uplink)
    tied = tied_at_least(costs, levels, walk)
    if depth == 1:
        fill += tied
    row[Placed.WARMUP], row[Placed.FILL], row[Placed.EXCESS] = warmup, fill, excess
    ahead, rest = _left(costs, levels, row, p - depth)
    limit = walk.state[WalkState.LIMIT]
    row[Placed.LEVEL] = level_of(levels, excess)
    if not within(levels, limit, fill + ahead, tied + ahead, excess, rest):
        return False
    if facts[Fact.FREE]:
        if depth == p:
            exact = _tied(costs, walk)
            return warm_up_whole(levels, walk, depth, q, flight, fill + ahead, exact)
        whole, after = fill + ahead, ahead + tied
        found = warm_up(levels, walk, depth, q, flight, whole, after, rest)
        walk.state[WalkState.FULL] |= found < 0
        return bool(found > 0)
    if not facts[Fact.ENDS]:
        return True
    if facts[Fact.BLOCKING]:
        end = run_meeting(walk, depth, q, facts[Fact.BLOCKING]) + tied
    else:
        end = run_end(walk, depth, q) + tied
    row[Placed.END] = end
    if _last_end(costs, levels, walk, depth) > limit:
        return False
    return within(levels, limit, fill + ahead, end + ahead, excess, rest)


@step
def _excess(costs: Costs, times: Ints, before: int) -> int:
    """Return the excess of a placed stage, given kappa before it."""
    by = costs.weights[times[StageTime.FLIGHT]]
    excess = by[Weight.FORWARD] * times[StageTime.PHI]
    excess += by[Weight.BACKWARD] * times[StageTime.BETA]
    excess += by[Weight.LATER] * times[StageTime.LATER]
    return int(excess + by[Weight.AROUND] * (times[StageTime.HOP] + before))


@step
def _price(
    costs: Costs, levels: Levels, walk: Walk, depth: int
) -> tuple[StageSums, int, int, int]:
    """Price a stage and the boundary after it.

    Return also its peak of temporary bytes, the fill so far, and W. The fill is -1 if
    tau or kappa exceeds the range of lambda_0.
    """
    facts, row, times = costs.facts, walk.stage[depth], walk.times[depth]
    o, length = row[Placed.OPTION], row[Placed.LENGTH]
    e = facts[Fact.L] if depth == 1 else walk.stage[depth - 1, Placed.BEGIN]
    b = row[Placed.BEGIN] = e - length
    option = costs.option[o]
    ends = ends_of(option, depth == facts[Fact.P], depth == 1)
    held = with_units(ends, costs.sums, o, b, e)
    peak = ends.peak
    for unit in range(b, e):
        peak = max(peak, costs.temporary[o, unit])
    ceiling = levels.scalars[LevelScalar.CEILING]
    warmup, fill, hop, pace = 1, held.fill, 0, 0
    if depth > 1:
        before = walk.stage[depth - 1]
        a = option[Option.LAYOUT]
        after = costs.option[before[Placed.OPTION], Option.LAYOUT]
        x = costs.cut[e]
        hop, pace = (
            costs.edge[Edge.KAPPA, x, a, after],
            (not facts[Fact.BLOCKING]) * costs.edge[Edge.OMEGA, x, a, after],
        )
        warmup = before[Placed.WARMUP] + levels.delta[x, a, after]
        fill += before[Placed.FILL] + facts[Fact.HOPS] * hop
    if held.tau > ceiling or hop > ceiling:
        fill = -1
    later = held.inside
    times[StageTime.PHI] = held.forward
    times[StageTime.BETA] = held.tau - held.forward - later
    if depth == facts[Fact.P] and facts[Fact.CHUNKS] > 1:
        # The passes in the excess may have fewer of the first chunk than of others.
        lead = option[Option.LEAD :]
        times[StageTime.PHI] -= lead[Sum.FORWARD]
        times[StageTime.BETA] -= lead[Sum.TAU] - lead[Sum.FORWARD]
    times[StageTime.HOP], times[StageTime.PACE] = hop, pace
    times[StageTime.SYNCED] = held.sync - later
    times[StageTime.LATER] = held.inside
    times[StageTime.LATE] = facts[Fact.P] - warmup if later else 0
    return held, peak, fill, warmup


@step
def _left(costs: Costs, levels: Levels, row: Ints, stages: int) -> tuple[int, Rest]:
    """Return the fill of the rest of a stage's run, and what is to be placed then.

    Parameters
    ----------
    stages
        Number of stages before this one.
    """
    o, y = row[Placed.OPTION], row[Placed.RUN_BEGIN]
    tau = costs.sums[Sum.FILL, o]
    ahead = tau[row[Placed.BEGIN]] - tau[y]
    togo = row[Placed.RUN_STAGES] - row[Placed.RUN_PLACE] - 1
    if togo:
        ahead += costs.facts[Fact.HOPS] * togo * levels.inner[o]
    if y == 0 and togo:
        # The first stage holds at least what the others of the run leave.
        depth = costs.facts[Fact.P] - stages + 1
        ended = runs_ended(costs, row[Placed.UNUSED])
        units = row[Placed.BEGIN] - most_units(levels, ended, o, depth, togo - 1)
        ahead += opening(costs, levels.ends, o, units)
    elif y == 0:
        # This is the first stage. Its fill has the leading units already, but not g.
        ahead += opening(costs, levels.ends, o, row[Placed.LENGTH])
        ahead -= costs.option[o, Option.LEAD + Sum.FILL]
    clusters = row[Placed.UNUSED] ^ (1 << costs.option[o, Option.CLUSTER])
    return ahead, Rest(clusters, stages - togo, y)


@step
def _last_end(costs: Costs, levels: Levels, walk: Walk, depth: int) -> int:
    """Return the earliest time at which g of all placed stages has ended.

    The first forward arrives after one forward on every stage before.
    """
    row, last = walk.stage[depth], 0
    for i in range(1, depth + 1):
        last = max(last, _ended(costs, walk, i))
    o, y = row[Placed.OPTION], row[Placed.RUN_BEGIN]
    forward = costs.sums[Sum.FORWARD, o]
    last += forward[row[Placed.BEGIN]] - forward[y] + levels.forward[y]
    return int(last)


@step
def _ended(costs: Costs, walk: Walk, i: int) -> int:
    """Return when a stage has ended its g: after each w that is left at the end."""
    times = walk.times[i]
    left = min(costs.facts[Fact.Q], times[StageTime.LATE])
    end = walk.clock[i, Clock.FREE] + left * times[StageTime.LATER]
    return int(end + times[StageTime.SYNCED])


@step
def tied_at_least(costs: Costs, levels: Levels, walk: Walk) -> int:
    """Return the least that tied embeddings add to g of the first stage."""
    o, m = walk.stage[1, Placed.OPTION], walk.stage[1, Placed.RUN_STAGES]
    alone = m == costs.facts[Fact.P]
    return int(levels.ends[o, End.ALONE if alone else End.TIED])


@step
def _tied(costs: Costs, walk: Walk) -> int:
    """Return what tied embeddings add to g of the first and of the last stage."""
    if not costs.facts[Fact.TIED]:
        return 0
    first = costs.option[walk.stage[costs.facts[Fact.P], Placed.OPTION], Option.LAYOUT]
    return int(
        costs.tied[first, costs.option[walk.stage[1, Placed.OPTION], Option.LAYOUT]]
    )


@step
def whole(costs: Costs, levels: Levels, walk: Walk) -> bool:
    """Whether the placed pipeline is a plan within the limit; set its value."""
    p = costs.facts[Fact.P]
    walk.state[WalkState.PLANS] += 1
    mask = walk.stage[p, Placed.UNUSED] ^ (
        1 << costs.option[walk.stage[p, Placed.OPTION], Option.CLUSTER]
    )
    for j in range(len(costs.host)):
        if mask >> j & 1 and not (costs.stages_ok[j, 0] and costs.units_ok[j, 0]):
            return False
    tied, longest, value = _tied(costs, walk), 0, 0
    for i in range(1, p + 1):
        times = walk.times[i]
        longest = max(
            longest, times[StageTime.PHI] + times[StageTime.BETA], times[StageTime.HOP]
        )
        if costs.facts[Fact.ENDS]:
            more = tied if i in (1, p) else 0
            value = max(value, _ended(costs, walk, i) + more)
    walk.state[WalkState.VALUE] = value
    return bool(
        longest >= levels.scalars[LevelScalar.FLOOR]
        and value <= walk.state[WalkState.LIMIT]
    )
