"""Label setting: whether a label may end within the budget, compiled.

To its own fill comes the least fill of what is left (``dp.bounds``, ``dp.prices``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.compiled import step
from hetopt.solvers.arrays.program import (
    CLUSTER,
    COUNTS_STAGES,
    GPIPE,
    LAYOUT,
    LEAD,
    PRICED,
    ROOM,
    TAU,
    L,
    P,
    Q,
)
from hetopt.solvers.dp.bounds import ALONE, ENDED, INFINITE, PACE, WINDOW
from hetopt.solvers.dp.configs import free_worth, stages_used, untouched
from hetopt.solvers.dp.label_pool import (
    AT_CONFIG,
    AT_OPTION,
    AT_UNITS,
    CONFIG,
    DELAY,
    FILL,
    FLAG,
    LAST_SYNC,
    OPTION,
    SYNC,
)

if TYPE_CHECKING:
    from hetopt.solvers.arrays.program import Costs, Ints
    from hetopt.solvers.dp.bounds import Limits
    from hetopt.solvers.dp.configs import Configs

#: Positions in the array of progress.
PHASE, BUCKET, ROW, BUDGET, WORK, MORE = range(6)


@step
def total_of(costs: Costs, limits: Limits, label: Ints) -> int:
    """Return fill and g of a label; under gpipe with what its pace adds."""
    total = label[FILL] + max(label[SYNC], label[LAST_SYNC])
    if costs.facts[GPIPE]:
        pace = max(limits.knobs[PACE], label[DELAY] + label[FLAG])
        total += (costs.facts[Q] - 1) * pace
    return total


@step
def is_worth(
    costs: Costs, limits: Limits, label: Ints, bound: int, progress: Ints
) -> bool:
    """Whether a label may end within the budget, given what is left at least."""
    return total_of(costs, limits, label) + bound <= progress[BUDGET]


@step
def least_left(
    costs: Costs, limits: Limits, configs: Configs, config: int, stages: int, left: int
) -> int:
    """Return the least fill of so many stages and units, if a new run begins.

    Where devices have prices the run may be of any option.
    """
    if not costs.facts[PRICED]:
        return limits.rest[costs.row[untouched(configs, config)], stages, left]
    plain, priced = limits.rest[0, stages, left], limits.rest[1, stages, left]
    if plain >= INFINITE:
        return plain
    return max(plain, priced - free_worth(costs, configs, config, limits.price))


@step
def may_go(
    costs: Costs,
    limits: Limits,
    configs: Configs,
    label: Ints,
    placed: int,
    left: int,
    progress: Ints,
) -> bool:
    """Whether a label is worth the closer look of ``to_go``; False is for sure.

    If its cluster were untouched, what is left would cost no more, but for the
    boundary inside the run: to go on could begin with one to another cluster.
    """
    if costs.facts[PRICED]:
        return True
    o = label[OPTION]
    j = costs.option[o, CLUSTER]
    open_to = costs.row[untouched(configs, label[CONFIG]) | 1 << j]
    if open_to == len(limits.rest) - 1 or costs.host[j, COUNTS_STAGES]:
        return True
    a = costs.option[o, LAYOUT]
    inside = limits.out[len(limits.out) - 1, a]
    known = max(0, limits.out[costs.cut[left], a] - inside)
    bound = limits.rest[open_to, costs.facts[P] - placed, left]
    return label[FILL] < known or is_worth(
        costs, limits, label, bound - known, progress
    )


@step
def to_go(
    costs: Costs, limits: Limits, configs: Configs, placed: int, state: Ints
) -> int:
    """Return the least fill of what is left, the last run going on or not."""
    o = state[AT_OPTION]
    left, stages = costs.facts[L] - state[AT_UNITS], costs.facts[P] - placed
    if costs.facts[PRICED]:
        return least_left(costs, limits, configs, state[AT_CONFIG], stages, left)
    rest = limits.rest[costs.row[untouched(configs, state[AT_CONFIG])]]
    best = rest[stages, left]
    tau = costs.sums[TAU, o]
    inner = limits.out[len(limits.out) - 1, costs.option[o, LAYOUT]]
    j = costs.option[o, CLUSTER]
    used = stages_used(configs, state[AT_CONFIG], j)
    others = costs.row[untouched(configs, state[AT_CONFIG]) | 1 << j]
    ended = ALONE if others == len(limits.rest) - 1 else ENDED
    total = 0
    for m in range(1, min(costs.option[o, ROOM] - used, stages) + 1):
        each = limits.caps[ended, o, placed + m]
        if each < 1:
            break
        total += each
        longest = min(total, limits.caps[WINDOW, o, m], left)
        extra = m * inner + tau[left]
        if m == stages:
            if longest == left:
                best = min(best, extra + costs.option[o, LEAD + TAU] - tau[0])
            continue
        row = rest[stages - m]
        for y in range(max(left - longest, stages - m), left - m + 1):
            if row[y] < INFINITE:
                best = min(best, row[y] - tau[y] + extra)
    return best
