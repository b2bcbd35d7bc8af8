"""Label setting: one more stage before a label, of every size, compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.compiled import step
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.solvers.arrays.costs import Fact, HostColumn, Option, Shape, Sum
from hetopt.solvers.arrays.stages import ends_of, with_units
from hetopt.solvers.arrays.windows import INFINITE
from hetopt.solvers.dp.bounds import Scalar
from hetopt.solvers.dp.budget import Cursor, is_worth, may_go, to_go, total_of
from hetopt.solvers.dp.configs import is_complete, taken
from hetopt.solvers.dp.label_pool import Bucket, Label, bucket, keep, ranked, spare

if TYPE_CHECKING:
    from hetopt.solvers.arrays.costs import Costs, Ints
    from hetopt.solvers.arrays.stages import StageSums
    from hetopt.solvers.dp.bounds import RangeLimits
    from hetopt.solvers.dp.label_pool import Memory


# Longer than most: this one loop is where label setting spends its time.
@step
def place_stages(
    costs: Costs,
    limits: RangeLimits,
    placed: int,
    here: Ints,
    o: int,
    base: Ints,
    memory: Memory,
    progress: Ints,
) -> None:
    """Place a stage of option o, with every number of units.

    Parameters
    ----------
    here, base
        State and label of the stages after it, the boundary between already crossed.
    """
    facts, option = costs.facts, costs.option[o]
    is_first = placed + 1 == facts[Fact.P]
    j = option[Option.CLUSTER]
    if is_first and not costs.host[j, HostColumn.MAY_OPEN]:
        return
    # If the cluster's units are counted, each number of them has its configuration.
    counted = costs.host[j, HostColumn.COUNTS_UNITS] != 0
    config = -1
    if not counted:
        config = taken(costs, memory.configs, here[Bucket.CONFIG], o, 0)
        if config < 0:
            return
    shapes = _shapes(costs, base, o)
    ends = ends_of(option, is_first, placed == 0)
    at_ends = facts[Fact.LEADS] * is_first + facts[Fact.TRAILS] * (placed == 0)
    right = facts[Fact.L] - here[Bucket.UNITS]
    least, most = _units(costs, placed, right)
    period, peak = limits.scalars[Scalar.PERIOD], ends.peak
    tau, inside = costs.sums[Sum.TAU, o], costs.sums[Sum.INSIDE, o]
    state, active = costs.sums[Sum.STATE, o], costs.sums[Sum.ACTIVE, o]
    flight = base[Label.WARMUP]
    for units in range(1, most + 1):
        left = right - units
        time = tau[right] - tau[left] + ends.tau
        if time > limits.scalars[Scalar.STAGE]:
            break
        # Gradients of weights that run later delay no other stage.
        later = PERIOD_SCALE * (time - inside[right] + inside[left] - ends.inside)
        delay = base[Label.DELAY] + PERIOD_SCALE * time - later
        if period < INFINITE and delay > period - later:
            break
        peak = max(peak, costs.temporary[o, left])
        need = state[right] - state[left] + ends.state + peak
        need += flight * (active[right] - active[left] + ends.active)
        if need > option[Option.FREE_BYTES]:
            break
        if units < least:
            continue
        progress[Cursor.WORK] -= 1
        if counted:
            held = units + at_ends
            config = taken(costs, memory.configs, here[Bucket.CONFIG], o, held)
            if config < 0:
                continue
        label = memory.pool.label[spare(memory.pool)]
        label[Label.OPTION], label[Label.LENGTH], label[Label.CONFIG] = o, units, config
        label[Label.WARMUP], label[Label.SHAPES] = flight, shapes
        label[Label.DELAY] = delay if period < INFINITE else 0
        _fill(costs, limits, here, base, ends, label)
        if is_first:
            _finish(costs, limits, memory, progress)
        else:
            _store(costs, limits, placed, here, memory, progress)


@step
def _units(costs: Costs, placed: int, right: int) -> tuple[int, int]:
    """Return the least and most units of a stage; each earlier stage needs one."""
    before = costs.facts[Fact.P] - placed - 1
    least, most = 1 if before else right, right - before
    given = costs.given[placed]
    if given >= 0:
        least, most = max(least, given), min(most, given)
    return least, most


@step
def _shapes(costs: Costs, base: Ints, o: int) -> int:
    """Return the excluded shapes that remain possible with a stage of option o."""
    shapes = base[Label.SHAPES]
    if shapes and base[Label.IN_RUN] == 1:
        for i in range(len(costs.shapes)):
            if costs.shapes[i, base[Label.RUNS] - 1, Shape.OPTION] != o:
                shapes &= ~(1 << i)
    return int(shapes)


@step
def _fill(
    costs: Costs,
    limits: RangeLimits,
    here: Ints,
    base: Ints,
    ends: StageSums,
    label: Ints,
) -> None:
    """Fill in a label of known option and units from the label after it."""
    facts, o = costs.facts, label[Label.OPTION]
    placed = base[Label.PARENT] >= 0
    right = facts[Fact.L] - here[Bucket.UNITS]
    own = with_units(ends, costs.sums, o, right - label[Label.LENGTH], right)
    label[Label.FILL] = base[Label.FILL] + own.fill
    label[Label.FLAG] = base[Label.FLAG]
    if facts[Fact.GPIPE]:
        label[Label.DELAY] = max(base[Label.DELAY], own.forward)
        label[Label.FLAG] = max(base[Label.FLAG], own.tau - own.forward)
    elif own.tau >= limits.scalars[Scalar.FLOOR]:
        label[Label.FLAG] = 0
    label[Label.SYNC], label[Label.LAST_SYNC] = base[Label.SYNC], base[Label.LAST_SYNC]
    if facts[Fact.TIED] and not placed:
        label[Label.LAST_SYNC] = own.sync
    elif facts[Fact.TIED] and right == label[Label.LENGTH]:
        tied = costs.tied[costs.option[o, Option.LAYOUT], here[Bucket.LAST]]
        sync = max(own.sync, base[Label.LAST_SYNC]) + tied
        label[Label.SYNC] = max(base[Label.SYNC], sync)
    else:
        label[Label.SYNC] = max(base[Label.SYNC], own.sync)
    label[Label.DEVICES] = base[Label.DEVICES] + costs.option[o, Option.DEVICES]
    label[Label.PARENT] = base[Label.PARENT]
    label[Label.RUN_PARENT] = base[Label.RUN_PARENT]
    label[Label.IN_RUN], label[Label.RUNS] = base[Label.IN_RUN], base[Label.RUNS]


@step
def _store(
    costs: Costs,
    limits: RangeLimits,
    placed: int,
    here: Ints,
    memory: Memory,
    progress: Ints,
) -> None:
    """Keep the label in the spare row, if it may lead to a plan within the budget."""
    pool, configs = memory.pool, memory.configs
    label = pool.label[spare(pool)]
    o, units = label[Label.OPTION], here[Bucket.UNITS] + label[Label.LENGTH]
    left = costs.facts[Fact.L] - units
    if not may_go(costs, limits, configs, label, placed + 1, left, progress):
        return
    number = bucket(memory.after, label[Label.CONFIG], o, units, here[Bucket.LAST])
    state = memory.after.state[number]
    if state[Bucket.BOUND] < 0:
        state[Bucket.BOUND] = to_go(costs, limits, configs, placed + 1, state)
    bound = state[Bucket.BOUND]
    if bound >= INFINITE:
        return
    if limits.scalars[Scalar.PERIOD] < INFINITE:
        calm = limits.calm[costs.cut[left], costs.option[o, Option.LAYOUT]]
        label[Label.DELAY] = max(label[Label.DELAY], calm)
    if is_worth(costs, limits, label, bound, progress):
        ordered = 1 if limits.scalars[Scalar.ORDERED] else 0
        keep(costs, memory.after, number, pool, pool, ordered)


@step
def _finish(costs: Costs, limits: RangeLimits, memory: Memory, progress: Ints) -> None:
    """Keep the complete label in the spare row in row 0 if it is the best."""
    pool = memory.pool
    new = spare(pool)
    label = pool.label[new]
    if not costs.facts[Fact.GPIPE] and label[Label.FLAG]:
        return
    for i in range(len(costs.shapes)):
        if (
            label[Label.SHAPES] >> i & 1
            and costs.shapes[i, label[Label.RUNS], Shape.OPTION] < 0
            and costs.shapes[i, label[Label.RUNS] - 1, Shape.HOSTED]
            == label[Label.IN_RUN]
        ):
            return
    if not is_complete(costs, memory.configs, label[Label.CONFIG]):
        return
    total = total_of(costs, limits, label, 0)
    if total > progress[Cursor.BUDGET]:
        return
    label[Label.TOTAL] = total
    if limits.scalars[Scalar.ORDERED]:
        if pool.label[0, Label.OPTION] >= 0 and ranked(costs, pool, 0, new) <= 0:
            return
    else:
        progress[Cursor.BUDGET] = total - 1
    for column in range(pool.label.shape[1]):
        pool.label[0, column] = label[column]
