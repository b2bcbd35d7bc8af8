"""Label setting: one more stage before a label, of every size, compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.compiled import step
from hetopt.formulations.program import PERIOD_SCALE
from hetopt.solvers.arrays.program import (
    ACTIVE,
    AUTO,
    CLUSTER,
    COUNTS_UNITS,
    FORWARD,
    FREE,
    GPIPE,
    LAYOUT,
    LEAD,
    LEADS,
    MAY_OPEN,
    PEAK,
    SHAPE_HOSTED,
    SHAPE_OPTION,
    STAGE_DEVICES,
    STATE,
    SYNC_FIXED,
    TAU,
    TIED,
    TRAIL,
    TRAILS,
    L,
    P,
    Q,
)
from hetopt.solvers.arrays.program import SYNC as G
from hetopt.solvers.dp.bounds import FLOOR, INFINITE, ORDERED, PERIOD, STAGE
from hetopt.solvers.dp.budget import BUDGET, WORK, is_worth, may_go, to_go, total_of
from hetopt.solvers.dp.configs import is_complete, taken
from hetopt.solvers.dp.label_pool import (
    AT_CONFIG,
    AT_LAST,
    AT_UNITS,
    BOUND,
    CONFIG,
    DELAY,
    DEVICES,
    FILL,
    FLAG,
    IN_RUN,
    LAST_SYNC,
    LENGTH,
    OPTION,
    PARENT,
    RUN_PARENT,
    RUNS,
    SHAPES,
    SYNC,
    WARMUP,
    bucket,
    keep,
    ranked,
    spare,
)

if TYPE_CHECKING:
    from hetopt.solvers.arrays.program import Costs, Ints
    from hetopt.solvers.dp.bounds import Limits
    from hetopt.solvers.dp.configs import Configs
    from hetopt.solvers.dp.label_pool import Buckets, Pool


@step
def place_stages(
    costs: Costs,
    limits: Limits,
    placed: int,
    here: Ints,
    o: int,
    base: Ints,
    after: Buckets,
    pool: Pool,
    configs: Configs,
    progress: Ints,
) -> None:
    """Place a stage of option o, with every number of units.

    Parameters
    ----------
    here, base
        State and label of what follows it, the boundary between them crossed.
    """
    facts, knobs, option = costs.facts, limits.knobs, costs.option[o]
    is_first = placed + 1 == facts[P]
    j = option[CLUSTER]
    if is_first and not costs.host[j, MAY_OPEN]:
        return
    shapes = base[SHAPES]
    if shapes and base[IN_RUN] == 1:
        for i in range(len(costs.shapes)):
            if costs.shapes[i, base[RUNS] - 1, SHAPE_OPTION] != o:
                shapes &= ~(1 << i)
    counted = costs.host[j, COUNTS_UNITS] != 0
    config = -1
    if not counted:
        config = taken(costs, configs, here[AT_CONFIG], o, 0)
        if config < 0:
            return
    right = facts[L] - here[AT_UNITS]
    most = right - (facts[P] - placed - 1)
    least = right if is_first else 1
    given = costs.given[placed]
    if given >= 0:
        least, most = max(least, given), min(most, given)
    ends = 0
    tau_ends, forward_ends, sync_ends, peak = 0, 0, 0, 0
    state_ends, active_ends = 0, 0
    if is_first:
        ends += facts[LEADS]
        tau_ends += option[LEAD + TAU]
        forward_ends += option[LEAD + FORWARD]
        sync_ends += option[LEAD + G]
        state_ends += option[LEAD + STATE]
        active_ends += option[LEAD + ACTIVE]
        peak = max(peak, option[LEAD + PEAK])
    if placed == 0:
        ends += facts[TRAILS]
        tau_ends += option[TRAIL + TAU]
        forward_ends += option[TRAIL + FORWARD]
        sync_ends += option[TRAIL + G]
        state_ends += option[TRAIL + STATE]
        active_ends += option[TRAIL + ACTIVE]
        peak = max(peak, option[TRAIL + PEAK])
    gpipe, free = facts[GPIPE] != 0, facts[AUTO] != 0
    steady = knobs[PERIOD] < INFINITE
    tau, state, active = costs.sums[TAU, o], costs.sums[STATE, o], costs.sums[ACTIVE, o]
    for units in range(1, most + 1):
        left = right - units
        time = tau[right] - tau[left] + tau_ends
        if time > knobs[STAGE]:
            break
        own = PERIOD_SCALE * time
        delay, flight = base[DELAY] + own, base[WARMUP]
        if steady and free and own <= knobs[PERIOD]:
            # Before the stage E was at most lambda.
            if delay > knobs[PERIOD]:
                delay = max(own, delay - knobs[PERIOD])
                flight += 1
            if flight >= facts[Q]:
                flight, delay = facts[Q], 0
        if steady and delay > knobs[PERIOD]:
            break
        peak = max(peak, costs.temporary[o, left])
        need = state[right] - state[left] + state_ends + peak
        need += flight * (active[right] - active[left] + active_ends)
        if need > option[FREE]:
            break
        if units < least:
            continue
        progress[WORK] -= 1
        if counted:
            config = taken(costs, configs, here[AT_CONFIG], o, units + ends)
            if config < 0:
                continue
        new = spare(pool)
        label = pool.label[new]
        label[FILL] = base[FILL] + time
        label[DELAY] = delay if steady else 0
        label[FLAG] = base[FLAG]
        if gpipe:
            forward = costs.sums[FORWARD, o, right] - costs.sums[FORWARD, o, left]
            forward += forward_ends
            label[DELAY] = max(base[DELAY], forward)
            label[FLAG] = max(base[FLAG], time - forward)
        elif time >= knobs[FLOOR]:
            label[FLAG] = 0
        sync = option[SYNC_FIXED] + sync_ends
        sync += costs.sums[G, o, right] - costs.sums[G, o, left]
        label[SYNC], label[LAST_SYNC] = base[SYNC], base[LAST_SYNC]
        if facts[TIED] and placed == 0:
            label[LAST_SYNC] = sync
        elif facts[TIED] and is_first:
            tied = costs.tied[option[LAYOUT], here[AT_LAST]]
            label[SYNC] = max(base[SYNC], max(sync, base[LAST_SYNC]) + tied)
        else:
            label[SYNC] = max(base[SYNC], sync)
        label[WARMUP] = flight
        label[SHAPES] = shapes
        label[DEVICES] = base[DEVICES] + option[STAGE_DEVICES]
        label[PARENT], label[RUN_PARENT] = base[PARENT], base[RUN_PARENT]
        label[IN_RUN], label[RUNS] = base[IN_RUN], base[RUNS]
        label[OPTION], label[LENGTH], label[CONFIG] = o, units, config
        if is_first:
            _finish(costs, limits, pool, new, configs, progress)
            continue
        if not may_go(costs, limits, configs, label, placed + 1, left, progress):
            continue
        number = bucket(after, config, o, here[AT_UNITS] + units, here[AT_LAST])
        if after.state[number, BOUND] < 0:
            after.state[number, BOUND] = to_go(
                costs, limits, configs, placed + 1, after.state[number]
            )
        bound = after.state[number, BOUND]
        if bound >= INFINITE:
            continue
        if steady:
            calm = limits.calm[costs.cut[left], option[LAYOUT]]
            label[DELAY] = max(label[DELAY], calm)
        if is_worth(costs, limits, label, bound, progress):
            keep(costs, after, number, pool, pool, 1 if knobs[ORDERED] else 0)


@step
def _finish(
    costs: Costs,
    limits: Limits,
    pool: Pool,
    new: int,
    configs: Configs,
    progress: Ints,
) -> None:
    """Keep a complete label in row 0 if it is the best."""
    label = pool.label[new]
    if not costs.facts[GPIPE] and label[FLAG]:
        return
    for i in range(len(costs.shapes)):
        if (
            label[SHAPES] >> i & 1
            and costs.shapes[i, label[RUNS], SHAPE_OPTION] < 0
            and costs.shapes[i, label[RUNS] - 1, SHAPE_HOSTED] == label[IN_RUN]
        ):
            return
    if not is_complete(costs, configs, label[CONFIG]):
        return
    if not is_worth(costs, limits, label, 0, progress):
        return
    if limits.knobs[ORDERED]:
        if pool.label[0, OPTION] >= 0 and ranked(costs, pool, 0, new) <= 0:
            return
    else:
        progress[BUDGET] = total_of(costs, limits, label) - 1
    for column in range(pool.label.shape[1]):
        pool.label[0, column] = label[column]
