"""Least fills of parts of a pipeline, by (clusters, stages, units).

Runs are added one by one, to the pipeline's end or to its beginning. For a given
option and number of stages, the least over the run's units is one over a window that
slides along the body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.compiled import kernel, step
from hetopt.solvers.arrays.program import (
    AUTO,
    CLUSTER,
    GPIPE,
    KAPPA,
    LAYOUT,
    LEAD,
    ROOM,
    TAU,
    TRAIL,
    L,
    P,
    Q,
)
from hetopt.solvers.simulated.bounds import ACROSS, BOTH, INFINITE, INSIDE, fitting

if TYPE_CHECKING:
    from hetopt.solvers.arrays.program import Costs, Ints
    from hetopt.solvers.simulated.bounds import Limits


@step
def _run_cap(
    costs: Costs, short: Ints, steps: Ints, level: Limits, o: int, ended: int, at: int,
    m: int,
) -> int:  # fmt: skip
    """Return the most body units of a run of m stages by the excess of its window.

    The run's last stage is the ``at``-th from the end.
    """
    q = costs.facts[Q]
    if m < 2 or costs.facts[GPIPE] or costs.facts[AUTO]:
        return int(costs.facts[L])
    heavy = 1 + (at - 1 - ended) * steps[1, INSIDE] + ended * steps[1, ACROSS]
    turn = 1 + (m - 1) * steps[1, INSIDE]
    turns = (q - heavy) // turn
    if turns < 1:
        return int(costs.facts[L])
    room = level.excess // turns - 2 * (m - 1) * level.inner[o]
    return fitting(short[BOTH, o], 1, short[BOTH, o], 0, room)


@step
def _bits(mask: int) -> int:
    count = 0
    while mask:
        count += mask & 1
        mask >>= 1
    return count


@kernel
def _join(costs: Costs, joint: Ints) -> None:
    layouts = len(costs.home)
    for x in range(costs.edge.shape[1]):
        for o in range(len(costs.option)):
            own = costs.option[o, LAYOUT]
            for j in range(len(costs.host)):
                least = INFINITE
                for b in range(layouts):
                    if costs.home[b] == j:
                        least = min(least, 2 * costs.edge[KAPPA, x, own, b])
                joint[1 << j, x, o] = least
            for mask in range(1, 1 << len(costs.host)):
                low = mask & -mask
                joint[mask, x, o] = min(joint[low, x, o], joint[mask ^ low, x, o])


def joints(costs: Costs) -> Ints:
    """Return the least 2 kappa from an option to any of some clusters.

    Shape (2 ** J, X, O), by the clusters, the class of the cut and the option.
    """
    shape = (1 << len(costs.host), costs.edge.shape[1], len(costs.option))
    joint = np.full(shape, INFINITE, dtype=np.int64)
    _join(costs, joint)
    return joint


@kernel
def _suffixes(
    costs: Costs,
    short: Ints,
    steps: Ints,
    joint: Ints,
    level: Limits,
    most: int,
    least: Ints,
    queue: Ints,
    worth: Ints,
    floor: Ints,
) -> None:
    p, length = costs.facts[P], costs.facts[L]
    clusters = len(costs.host)
    full = 1 << clusters
    least[0, 0, length] = 0
    for mask in range(full - 1):
        ended = _bits(mask)
        for s in range(p):
            now = least[mask, s]
            first = 1
            while first <= length and now[first] >= INFINITE:
                first += 1
            if first > length:
                continue
            for o in range(len(costs.option)):
                j = costs.option[o, CLUSTER]
                if mask >> j & 1:
                    continue
                tau = costs.sums[TAU, o]
                for e in range(first, length + 1):
                    worth[e] = INFINITE
                    if now[e] < INFINITE:
                        worth[e] = now[e] + tau[e]
                        if s:
                            worth[e] += joint[mask, costs.cut[e], o]
                        else:
                            worth[e] += costs.option[o, TRAIL + TAU]
                total = 0
                for m in range(1, min(costs.option[o, ROOM], p - s) + 1):
                    each = level.caps[ended, o, s + m]
                    if each < 1:
                        break
                    total += each
                    if not costs.stages_ok[j, m]:
                        continue
                    longest = min(
                        total,
                        _run_cap(costs, short, steps, level, o, ended, s + 1, m),
                    )
                    if longest < m:
                        continue
                    after = least[mask | 1 << j, s + m]
                    extra = 2 * (m - 1) * level.inner[o] if m > 1 else 0
                    # Runs from y to e with m <= e - y <= longest, y falling.
                    head, tail, following = 0, 0, length
                    for y in range(length - m, -1, -1):
                        if y + longest < first:
                            break
                        while following >= first and following >= y + m:
                            while (
                                tail > head
                                and worth[queue[tail - 1]] >= worth[following]
                            ):
                                tail -= 1
                            queue[tail] = following
                            tail += 1
                            following -= 1
                        while tail > head and queue[head] > y + longest:
                            head += 1
                        if tail == head or worth[queue[head]] >= INFINITE:
                            continue
                        cost = worth[queue[head]] - tau[y] + extra
                        if y == 0:
                            cost += costs.option[o, LEAD + TAU]
                        if cost + floor[y] <= most and cost < after[y]:
                            after[y] = cost


def suffixes(
    costs: Costs, short: Ints, steps: Ints, joint: Ints, level: Limits, most: int
) -> Ints:
    """Return the least fill of the pipeline's end; shape (2 ** J, p + 1, L + 1).

    By the clusters used, stages, and the body units *before* it; with none before,
    it is a whole pipeline of as many stages, lead included. p is the largest of
    interest: one table serves all. Infinite where more than ``most`` ns are certain.
    """
    table, queue, worth = _table(costs)
    floor = _floor(costs, level)
    _suffixes(costs, short, steps, joint, level, most, table, queue, worth, floor)
    return table


def _floor(costs: Costs, level: Limits) -> Ints:
    """Return what the first body units take at least, each on its quickest option."""
    able = level.caps.any(axis=(0, 2))
    unit = np.diff(costs.sums[TAU][able], axis=1).min(axis=0, initial=INFINITE >> 20)
    floor: Ints = np.concatenate([[0], np.cumsum(unit)])
    return floor


def _table(costs: Costs) -> tuple[Ints, Ints, Ints]:
    """Return an infinite table over clusters, stages and units, and scratch."""
    p, size = int(costs.facts[P]), int(costs.facts[L]) + 1
    shape = (1 << len(costs.host), p + 1, size)
    scratch = np.empty((2, size), dtype=np.int64)
    return np.full(shape, INFINITE, dtype=np.int64), scratch[0], scratch[1]


@kernel
def _prefixes(
    costs: Costs,
    short: Ints,
    steps: Ints,
    joint: Ints,
    level: Limits,
    most: int,
    rest: Ints,
    queue: Ints,
    worth: Ints,
) -> None:
    p, length = costs.facts[P], costs.facts[L]
    clusters = len(costs.host)
    full = (1 << clusters) - 1
    for mask in range(full + 1):
        rest[mask, 0, 0] = 0
        ended = clusters - _bits(mask)
        for o in range(len(costs.option)):
            j = costs.option[o, CLUSTER]
            if not mask >> j & 1:
                continue
            tau = costs.sums[TAU, o]
            for s in range(1 if ended else p, p - ended + 1):
                after = rest[mask, s]
                total = 0
                for m in range(1, min(costs.option[o, ROOM], s) + 1):
                    each = level.caps[ended, o, p - s + m]
                    if each < 1:
                        break
                    total += each
                    if not costs.stages_ok[j, m]:
                        continue
                    longest = min(
                        total,
                        _run_cap(costs, short, steps, level, o, ended, p - s + 1, m),
                    )
                    if longest < m:
                        continue
                    extra = 2 * (m - 1) * level.inner[o] if m > 1 else 0
                    if not ended:
                        extra += costs.option[o, TRAIL + TAU]
                    if s == m:
                        extra += costs.option[o, LEAD + TAU]
                    before = rest[mask ^ (1 << j), s - m]
                    first, last = 0, 0
                    if s > m:
                        while first <= length and before[first] >= INFINITE:
                            first += 1
                        last = length
                        while last >= 0 and before[last] >= INFINITE:
                            last -= 1
                    for y in range(first, last + 1):
                        worth[y] = INFINITE
                        if before[y] < INFINITE:
                            worth[y] = before[y] - tau[y]
                    start, stop = first + m, min(length - 1, last + longest)
                    if not ended:
                        start = stop = length
                    head, tail, following = 0, 0, first
                    for e in range(start, stop + 1):
                        while following <= last and following <= e - m:
                            while (
                                tail > head
                                and worth[queue[tail - 1]] >= worth[following]
                            ):
                                tail -= 1
                            queue[tail] = following
                            tail += 1
                            following += 1
                        while tail > head and queue[head] < e - longest:
                            head += 1
                        if tail == head or worth[queue[head]] > INFINITE // 2:
                            continue
                        cost = tau[e] + worth[queue[head]] + extra
                        if ended:
                            cost += joint[full ^ mask, costs.cut[e], o]
                        if cost <= most and cost < after[e]:
                            after[e] = cost


def prefixes(
    costs: Costs, short: Ints, steps: Ints, joint: Ints, level: Limits, most: int
) -> Ints:
    """Return the least fill of the pipeline's beginning; shape (2 ** J, p + 1, L + 1).

    By the clusters not used by the rest, stages, and body units, all of a pipeline
    of p stages; with the boundary to the rest. Infinite above ``most`` ns.
    """
    table, queue, worth = _table(costs)
    _prefixes(costs, short, steps, joint, level, most, table, queue, worth)
    return table


@kernel
def promising(
    costs: Costs,
    short: Ints,
    steps: Ints,
    joint: Ints,
    level: Limits,
    end: Ints,
    begin: Ints,
    most: int,
    found: Ints,
) -> None:
    """Mark every option in ``found`` that some pipeline of fill <= ``most`` has.

    Parameters
    ----------
    end, begin
        Of ``suffixes`` and ``prefixes``.
    """
    p, length = costs.facts[P], costs.facts[L]
    clusters = len(costs.host)
    full = (1 << clusters) - 1
    for o in range(len(costs.option)):
        j = costs.option[o, CLUSTER]
        tau = costs.sums[TAU, o]
        for mask in range(full):
            if mask >> j & 1 or found[o]:
                continue
            ended = _bits(mask)
            left = full ^ mask ^ (1 << j)
            for s in range(ended, p):
                total = 0
                for m in range(1, min(costs.option[o, ROOM], p - s) + 1):
                    each = level.caps[ended, o, s + m]
                    if each < 1 or found[o]:
                        break
                    total += each
                    longest = min(
                        total,
                        _run_cap(costs, short, steps, level, o, ended, s + 1, m),
                    )
                    extra = 2 * (m - 1) * level.inner[o] if m > 1 else 0
                    if s + m == p:
                        extra += costs.option[o, LEAD + TAU]
                    for e in range(m, length + 1):
                        if end[mask, s, e] >= INFINITE:
                            continue
                        so_far = end[mask, s, e] + extra
                        if s:
                            so_far += joint[mask, costs.cut[e], o]
                        else:
                            so_far += costs.option[o, TRAIL + TAU]
                        for y in range(max(0, e - longest), e - m + 1):
                            whole = so_far + tau[e] - tau[y]
                            whole += begin[left, p - s - m, y]
                            if whole <= most:
                                found[o] = 1
                                break
                        if found[o]:
                            break
