"""Compiled loops of the relaxation: they add up clusters and compare strategies.

Costs are in ns, and infinite where there is no plan. Axes are stages, then body units.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.base.compiled import kernel, step

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Costs = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Places = NDArray[np.uint64]


#: Steps of one call of ``_min_plus``, which takes 0.1 to 0.2 s: a deadline can end the
#: work only between calls.
_MOST_STEPS = 200_000_000


def min_plus(before: Costs, costs: Costs, after: Costs) -> None:
    """after[s + m, u + l] = min(itself, before[s, u] + costs[m, l])."""
    cells = costs.size
    at_once = max(1, _MOST_STEPS // max(1, before.size))
    spans = np.empty((before.shape[0], 2), dtype=np.uint64)
    # All sums are contiguous arrays, so these are views.
    flat = before.reshape(-1), after.reshape(-1)
    for first in range(0, cells, at_once):
        last = min(first + at_once, cells)
        _min_plus(*flat, costs, after.shape[0], spans, first, last)


@kernel
def _min_plus(
    before: Costs,
    after: Costs,
    costs: Costs,
    stages: int,
    spans: Places,
    first: int,
    last: int,
) -> None:
    """Do what ``min_plus`` does for some cells of ``costs``, counted row by row.

    Parameters
    ----------
    before, after
        Flattened row by row.
    stages
        Rows of ``after``.
    spans
        Space for the range of finite cells of each row of ``before``, without its end.
        Unsigned, so that the loop over them is vectorised.
    """
    rows, units = spans.shape[0], costs.shape[1]
    for s in range(rows):
        left, right = units, 0
        for u in range(units):
            if before[s * units + u] < np.inf:
                left, right = min(left, u), u + 1
        spans[s, 0], spans[s, 1] = s * units + left, s * units + right
    for cell in range(first, last):
        m, n = cell // units, cell % units
        cost = costs[m, n]
        if cost == np.inf:
            continue
        shift = np.uint64(m * units + n)
        for s in range(min(rows, stages - m)):
            end = min(spans[s, 1], np.uint64((s + 1) * units - n))
            for i in range(spans[s, 0], end):
                value = before[i] + cost
                # Always stored, so that there is no branch.
                after[i + shift] = (
                    value if value < after[i + shift] else after[i + shift]
                )


@kernel
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


def add_once() -> None:
    """Compile the functions for several clusters by calling them on tiny arrays."""
    nothing = np.full((1, 1), np.inf)
    min_plus(nothing, nothing, nothing)
    complete(nothing, nothing, nothing[0])
    caps, permitted = np.zeros((1, 1), dtype=np.int64), np.zeros((1, 1), dtype=np.bool_)
    row = nothing[0]
    cheapest_with(nothing, row, row, caps, permitted, nothing, row)
    capped_first(caps, caps[0], 1, caps)


@kernel
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


@kernel
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
        Whether (m, l) is permitted; shape (M + 1, L + 1).
    others
        Cost of the other clusters beside m stages, by the units that these clusters
        hold; shape (M + 1, L + 1).
    bounds
        Output; shape (K,).
    """
    length = run.shape[1] - 1
    for k in range(run.shape[0]):
        for m in range(1, others.shape[0]):
            rest = base[k] + 2 * (m - 1) * inner[k]
            for n in range(m, min(caps[k, m], length) + 1):
                if permitted[m, n]:
                    value = run[k, n] + rest + others[m, length - n]
                    bounds[k] = min(bounds[k], value)


@kernel
def capped(
    run: Costs,
    handed_on: Costs,
    memory: Ints,
    ends: Costs,
    pace: Costs,
    flags: NDArray[np.bool_],
    most: Ints,
    caps: Ints,
) -> None:
    """Find the most body units on m stages of one cluster, per strategy.

    Parameters
    ----------
    run, handed_on
        Time that l units keep a stage busy, and add to windows; shape (K, L + 1).
    memory
        Most units per slot, the last stage's first; shape (K, M).
    ends
        Cost of the leading and of the trailing units, kappa and omega of a boundary
        within, and least kappa to the cluster before and after; shape (6, K).
    pace
        Lambda, the most that warm-up counts grow by from stage to stage, and how many
        transfers block at a boundary (chi).
    flags
        Whether the cluster hosts the first and the last stage, whether lambda
        limits a stage, and whether it limits several together.
    most, caps
        Stages there is room for, shape (K,); the output, zeros at first, shape
        (K, M + 1).
    """
    length = run.shape[1] - 1
    period, more, chi = pace[0], pace[1], pace[2]
    for k in range(run.shape[0]):
        lead = ends[0, k] if flags[0] else 0.0
        trail = ends[1, k] if flags[1] else 0.0
        # What a stage waits for at its own boundaries, where transfers block.
        within = chi * ends[2, k]
        before = 0.0 if flags[0] else chi * ends[4, k]
        after = 0.0 if flags[1] else chi * ends[5, k]
        total = 0
        for m in range(min(memory.shape[1], most[k])):
            right = trail + after if m == 0 else within
            first = slot = memory[k, m]
            if flags[2]:
                # Limit if this is the cluster's first stage, and if others precede it.
                first = min(first, _most_within(run[k], period - right - before))
                slot = min(slot, _most_within(run[k], period - right - within))
            if flags[2] and m > 0 and ends[3, k] > period:
                break
            if first >= 1:
                cap = min(total + first, length)
                if flags[3]:
                    room = (1 + more * m) * period - 2 * m * ends[2, k] - (lead + trail)
                    if handed_on[k, cap] > room:
                        cap = min(cap, _most_within(handed_on[k], room))
                caps[k, m + 1] = cap
            if slot < 1:
                break
            total += slot


@step
def _most_within(run: Costs, room: float) -> int:
    """Return the largest l with run[l] <= room, at least 0."""
    low, high = 0, len(run) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if run[middle] <= room:
            low = middle
        else:
            high = middle - 1
    return low


@kernel
def capped_first(memory: Ints, most: Ints, stages: int, caps: Ints) -> None:
    """Tighten the caps of the first of several clusters when p = ``stages``.

    Parameters
    ----------
    memory
        Column i: most units on a stage that i + 1 others follow; shape (K, P).
    most
        Most units on any stage; shape (K,).
    """
    for k in range(caps.shape[0]):
        total = 0
        for m in range(1, caps.shape[1]):
            # Of m slots the first is followed by stages - 1 others.
            if m < stages:
                total += min(memory[k, stages - 1 - m], most[k])
            if m >= stages or min(memory[k, stages - 2], most[k]) < 1:
                caps[k, m] = 0
            else:
                caps[k, m] = min(caps[k, m], total)
