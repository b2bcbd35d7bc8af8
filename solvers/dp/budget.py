"""Label setting: whether a label may end within the budget, compiled.

The least fill of the rest (``dp.bounds``, ``dp.prices``) is added to the label's own.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from hetopt.base.compiled import step
from hetopt.cost.table.ticks import LONGEST_NS
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.solvers.arrays.costs import Fact, HostColumn, Option, Sum
from hetopt.solvers.arrays.windows import INFINITE
from hetopt.solvers.dp.bounds import Cap, Scalar
from hetopt.solvers.dp.configs import free_worth, stages_used, untouched
from hetopt.solvers.dp.label_pool import Bucket, Label

if TYPE_CHECKING:
    from hetopt.solvers.arrays.costs import Costs, Ints
    from hetopt.solvers.dp.bounds import RangeLimits
    from hetopt.solvers.dp.configs import Configs


class Cursor(IntEnum):
    """Positions in the array ``progress``; see ``labels.walk``."""

    PHASE, BUCKET, ROW, BUDGET, WORK, MORE = range(6)


@step
def total_of(costs: Costs, limits: RangeLimits, label: Ints, bound: int) -> int:
    """Return fill and g of a label at lambda's lower end, in 1 / PERIOD_SCALE ticks.

    Under gpipe q - 1 times the pace is added.

    Parameters
    ----------
    bound
        Least fill of the rest, in ns.
    """
    fill = label[Label.FILL] + bound
    total = fill + max(label[Label.SYNC], label[Label.LAST_SYNC])
    if costs.facts[Fact.GPIPE]:
        pace = max(limits.scalars[Scalar.PACE], label[Label.DELAY] + label[Label.FLAG])
        total += (costs.facts[Fact.Q] - 1) * pace
    if total > LONGEST_NS:
        return INFINITE
    return PERIOD_SCALE * total


@step
def is_worth(
    costs: Costs, limits: RangeLimits, label: Ints, bound: int, progress: Ints
) -> bool:
    """Whether a label may end within the budget, given the least fill of the rest."""
    total = total_of(costs, limits, label, bound)
    return total <= progress[Cursor.BUDGET]


@step
def least_left(
    costs: Costs,
    limits: RangeLimits,
    configs: Configs,
    config: int,
    stages: int,
    left: int,
) -> int:
    """Return the least fill of the given stages and units, if a new run begins.

    If devices have prices, the run may be of any option.
    """
    if not costs.facts[Fact.PRICED]:
        return limits.rest[costs.row[untouched(configs, config)], stages, left]
    plain, priced = limits.rest[0, stages, left], limits.rest[1, stages, left]
    if plain >= INFINITE:
        return plain
    return max(plain, priced - free_worth(costs, configs, config, limits.price))


@step
def may_go(
    costs: Costs,
    limits: RangeLimits,
    configs: Configs,
    label: Ints,
    placed: int,
    left: int,
    progress: Ints,
) -> bool:
    """Whether a label may still end within the budget, by a cheap test.

    False is certain; if True, ``to_go`` decides. The bound is the least fill of the
    rest as if the label's cluster were untouched. That counts a boundary to another
    cluster, which may be slower than one inside the run: the difference is taken off.
    """
    if costs.facts[Fact.PRICED]:
        return True
    o = label[Label.OPTION]
    j = costs.option[o, Option.CLUSTER]
    open_to = costs.row[untouched(configs, label[Label.CONFIG]) | 1 << j]
    if open_to == len(limits.rest) - 1 or costs.host[j, HostColumn.COUNTS_STAGES]:
        return True
    a = costs.option[o, Option.LAYOUT]
    inside = limits.out[len(limits.out) - 1, a]
    known = max(0, limits.out[costs.cut[left], a] - inside)
    bound = limits.rest[open_to, costs.facts[Fact.P] - placed, left]
    return label[Label.FILL] < known or is_worth(
        costs, limits, label, bound - known, progress
    )


@step
def to_go(
    costs: Costs, limits: RangeLimits, configs: Configs, placed: int, state: Ints
) -> int:
    """Return the least fill of the rest, whether or not the current run goes on."""
    o = state[Bucket.OPTION]
    left = costs.facts[Fact.L] - state[Bucket.UNITS]
    stages = costs.facts[Fact.P] - placed
    if costs.facts[Fact.PRICED]:
        return least_left(costs, limits, configs, state[Bucket.CONFIG], stages, left)
    rest = limits.rest[costs.row[untouched(configs, state[Bucket.CONFIG])]]
    best = rest[stages, left]
    fill = costs.sums[Sum.FILL, o]
    inner = limits.out[len(limits.out) - 1, costs.option[o, Option.LAYOUT]]
    j = costs.option[o, Option.CLUSTER]
    used = stages_used(configs, state[Bucket.CONFIG], j)
    others = costs.row[untouched(configs, state[Bucket.CONFIG]) | 1 << j]
    ended = Cap.ALONE if others == len(limits.rest) - 1 else Cap.ENDED
    total = 0
    for m in range(1, min(costs.option[o, Option.MOST_STAGES] - used, stages) + 1):
        each = limits.caps[ended, o, placed + m]
        if each < 1:
            break
        total += each
        longest = min(total, limits.caps[Cap.WINDOW, o, m], left)
        extra = m * inner + fill[left]
        if m == stages:
            if longest == left:
                best = min(
                    best, extra + costs.option[o, Option.LEAD + Sum.FILL] - fill[0]
                )
            continue
        row = rest[stages - m]
        for y in range(max(left - longest, stages - m), left - m + 1):
            if row[y] < INFINITE:
                best = min(best, row[y] - fill[y] + extra)
    return best
