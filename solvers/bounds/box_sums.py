"""Compiled loops of the bounds on boxes: costs of clusters, and their sums.

Costs are in ns, and infinite where there is no plan. A *place* is the least warm-up
count of a stage minus 1: 0 for the last stage of the pipeline. Roles are bits: 1 hosts
the first stage, 2 hosts the last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.base.compiled import kernel, step
from hetopt.solvers.bounds.box_runs import Options, cost_run

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Costs = NDArray[np.float64]
    Ints = NDArray[np.int64]


def spread(
    options: Options, alive: Ints, period: float, sync: float, costs: Costs
) -> None:
    """Write the least cost of l units by cluster and role into ``costs``."""
    _spread_all(options, alive, period, sync, costs, np.empty(costs.shape[2]))


@kernel
def _spread_all(
    options: Options, alive: Ints, period: float, sync: float, costs: Costs, row: Costs
) -> None:
    for index in range(len(alive)):
        o = alive[index]
        for role in range(4):
            cost_run(options, o, role, period, sync, row)
            least = costs[options.cluster[o], role]
            for n in range(len(row)):
                if row[n] < least[n]:
                    least[n] = row[n]


@step
def _add(before: Costs, costs: Costs, after: Costs) -> None:
    """after[u + n] = min(itself, before[u] + costs[n])."""
    size = len(after)
    top = size
    while top > 0 and before[top - 1] == np.inf:
        top -= 1
    low = 0
    while low < top and before[low] == np.inf:
        low += 1
    for n in range(size):
        cost = costs[n]
        if cost == np.inf:
            continue
        for u in range(low, min(top, size - n)):
            value = before[u] + cost
            if value < after[u + n]:
                after[u + n] = value


@step
def _join(state: Costs, costs: Costs, may_rest: bool, joined: Costs) -> None:
    """Add a cluster to those before it; ``joined`` holds infinities at first."""
    if may_rest:
        for taken in range(4):
            for n in range(state.shape[1]):
                joined[taken, n] = state[taken, n]
    for taken in range(4):
        for role in range(3):
            if not taken & role:
                _add(state[taken], costs[role], joined[taken | role])


def combined(costs: Costs, may_rest: NDArray[np.bool_], chosen: Ints) -> float:
    """Return the least sum over clusters in which every role and unit is taken once.

    Parameters
    ----------
    costs
        By cluster, role and units; a cluster with both roles is the only one used.
    chosen
        Output: role and units of each cluster in that sum, -1 if it is unused; (J, 2).
    """
    clusters, _, size = costs.shape
    table = np.full((clusters + 1, 4, size), np.inf)
    chosen[:] = -1
    return _combined(costs, may_rest, table, chosen)


@kernel
def _combined(
    costs: Costs, may_rest: NDArray[np.bool_], table: Costs, chosen: Ints
) -> float:
    clusters, size = costs.shape[0], costs.shape[2]
    table[0, 0, 0] = 0.0
    must = 0
    for j in range(clusters):
        _join(table[j], costs[j], may_rest[j], table[j + 1])
        if not may_rest[j]:
            must += 1
    best: float = table[clusters, 3, size - 1]
    alone = -1
    for j in range(clusters):
        free = must == 0 or (must == 1 and not may_rest[j])
        if free and costs[j, 3, size - 1] < best:
            best = costs[j, 3, size - 1]
            alone = j
    if alone >= 0:
        chosen[alone, 0], chosen[alone, 1] = 3, size - 1
    elif best < np.inf:
        _trace(costs, may_rest, table, chosen)
    return best


@step
def _trace(
    costs: Costs, may_rest: NDArray[np.bool_], table: Costs, chosen: Ints
) -> None:
    """Find the roles and units of the clusters in the least sum."""
    clusters, size = costs.shape[0], costs.shape[2]
    taken, units = 3, size - 1
    for j in range(clusters - 1, -1, -1):
        value = table[j + 1, taken, units]
        if may_rest[j] and table[j, taken, units] == value:
            continue
        for role in range(3):
            if role & ~taken or chosen[j, 0] >= 0:
                continue
            for n in range(1, units + 1):
                sum_ = table[j, taken & ~role, units - n] + costs[j, role, n]
                if sum_ == value:
                    chosen[j, 0], chosen[j, 1] = role, n
                    break
        if chosen[j, 0] > 0:
            taken &= ~chosen[j, 0]
        units -= chosen[j, 1]


def completed(
    options: Options,
    alive: Ints,
    period: float,
    sync: float,
    costs: Costs,
    may_rest: NDArray[np.bool_],
) -> Costs:
    """Return the least sum over clusters that uses each option; shape of ``alive``."""
    clusters, _, size = costs.shape
    prefix = np.full((clusters + 1, 4, size), np.inf)
    suffix = np.full((clusters + 1, 4, size), np.inf)
    others = np.full((clusters, 4, size), np.inf)
    least = np.full(len(alive), np.inf)
    _add_others(costs, may_rest, prefix, suffix, others)
    _complete(options, alive, period, sync, others, np.empty(size), least)
    return least


@kernel
def _add_others(
    costs: Costs,
    may_rest: NDArray[np.bool_],
    prefix: Costs,
    suffix: Costs,
    others: Costs,
) -> None:
    """Add up all clusters but one, for each; all outputs hold infinities at first."""
    clusters = costs.shape[0]
    prefix[0, 0, 0] = suffix[clusters, 0, 0] = 0.0
    for j in range(clusters):
        _join(prefix[j], costs[j], may_rest[j], prefix[j + 1])
    for j in range(clusters - 1, -1, -1):
        _join(suffix[j + 1], costs[j], may_rest[j], suffix[j])
    for j in range(clusters):
        for taken in range(4):
            for role in range(4):
                if not taken & role:
                    _add(prefix[j, taken], suffix[j + 1, role], others[j, taken | role])


@kernel
def _complete(
    options: Options,
    alive: Ints,
    period: float,
    sync: float,
    others: Costs,
    row: Costs,
    least: Costs,
) -> None:
    """Find the least sum of each option and the other clusters."""
    size = len(row)
    for index in range(len(alive)):
        j = options.cluster[alive[index]]
        for role in range(4):
            cost_run(options, alive[index], role, period, sync, row)
            rest = others[j, 3 & ~role]
            if role == 3 and rest[0] == np.inf:
                continue
            for n in range(1, size):
                # A cluster with both roles should be alone; the bound allows others.
                value = row[n] + rest[size - 1 - n]
                if value < least[index]:
                    least[index] = value
