"""The loops of the relaxation: clusters added up, strategies compared; compiled.

Costs are in ns; what cannot be is infinite. Axes are stages, then body units.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.solvers.compiled import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Costs = NDArray[np.float64]
    Ints = NDArray[np.int64]


@compiled
def min_plus(before: Costs, costs: Costs, after: Costs) -> None:
    """after[s + m, u + l] = min(itself, before[s, u] + costs[m, l])."""
    stages, units = after.shape
    top, bottom, left, right = stages, 0, units, 0
    for s in range(before.shape[0]):
        for u in range(units):
            if before[s, u] < np.inf:
                top, bottom = min(top, s), s + 1
                left, right = min(left, u), max(right, u + 1)
    for m in range(min(costs.shape[0], stages)):
        for n in range(min(costs.shape[1], units)):
            cost = costs[m, n]
            if cost == np.inf:
                continue
            wide = min(right, units - n)
            for s in range(top, min(bottom, stages - m)):
                source, target = before[s], after[s + m]
                for u in range(left, wide):
                    value = source[u] + cost
                    if value < target[u + n]:
                        target[u + n] = value


@compiled
def complete(before: Costs, costs: Costs, total: Costs) -> None:
    """total[s + m] = min(itself, before[s, L - l] + costs[m, l]); L units in all."""
    stages, units = before.shape
    for m in range(1, min(costs.shape[0], stages)):
        for n in range(units):
            cost = costs[m, n]
            if cost == np.inf:
                continue
            for s in range(stages - m):
                value = before[s, units - 1 - n] + cost
                if value < total[s + m]:
                    total[s + m] = value


@compiled
def cheapest(
    run: Costs, base: Costs, inner: Costs, caps: Ints, least: Costs, best: Ints
) -> None:
    """Find the least cost of m stages with l units over K strategies.

    Parameters
    ----------
    run
        Cost of l units; shape (K, L + 1).
    base, inner
        Cost besides units and boundaries; of a boundary, one way; shape (K,).
    caps
        Most units on m stages; shape (K, M + 1).
    least, best
        What is found, and the first strategy that attains it; shape (M + 1, L + 1).
    """
    for m in range(1, least.shape[0]):
        for k in range(run.shape[0]):
            rest = base[k] + 2 * (m - 1) * inner[k]
            for n in range(m, min(caps[k, m], run.shape[1] - 1) + 1):
                value = run[k, n] + rest
                if value < least[m, n]:
                    least[m, n] = value
                    best[m, n] = k


@compiled
def cheapest_with(
    run: Costs,
    base: Costs,
    inner: Costs,
    caps: Ints,
    permitted: NDArray[np.bool_],
    others: Costs,
    bounds: Costs,
) -> None:
    """Find, per strategy, the least cost of all L units beside other clusters.

    Parameters
    ----------
    permitted
        Which (m, l) may be; shape (M + 1, L + 1).
    others
        Cost of what m stages and l units leave; shape (M + 1, L + 1).
    bounds
        What is found; shape (K,).
    """
    length = run.shape[1] - 1
    for k in range(run.shape[0]):
        for m in range(1, others.shape[0]):
            rest = base[k] + 2 * (m - 1) * inner[k]
            for n in range(m, min(caps[k, m], length) + 1):
                if permitted[m, n]:
                    value = run[k, n] + rest + others[m, length - n]
                    bounds[k] = min(bounds[k], value)
