"""Compiled inner loops of deriving bounds again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.base.compiled import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]

#: More than any sum of times, and small enough for two of them to be added.
NEVER = 2**60


#: This many sums take about a tenth of a second.
_SUMS = 10**8


def add(before: Ints, costs: Ints, after: Ints) -> None:
    """Set after[p + m, u + l] = min(itself, before[p, u] + costs[m, l]).

    No entry of ``after`` exceeds ``NEVER``. As every stage holds at least one unit,
    entries with p > u or m > l are ``NEVER``. Large tables are processed in parts, so
    that a deadline can interrupt this: a single row of thousands of units and stages
    takes ten seconds.
    """
    reached = costs < NEVER
    spans = np.zeros((len(costs), 2), dtype=np.int64)
    spans[:, 0] = reached.argmax(axis=1)
    spans[:, 1] = costs.shape[1] - reached[:, ::-1].argmax(axis=1)
    spans[~reached.any(axis=1)] = 0
    many = max(1, _SUMS // costs.size)
    for first in range(0, before.size, many):
        add_cells(before, costs, spans, after, first, min(before.size, first + many))


@kernel
def add_cells(
    before: Ints, costs: Ints, spans: Ints, after: Ints, first: int, end: int
) -> None:
    """Do what ``add`` does for the cells of ``before`` from ``first`` to ``end``.

    Parameters
    ----------
    spans
        By row of ``costs``, the first column with a number less than ``NEVER`` and the
        one behind the last.
    """
    stages, units = before.shape
    for cell in range(first, end):
        p, u = cell // units, cell % units
        reached = before[p, u]
        if reached >= NEVER:
            continue
        for m in range(min(len(costs), stages - p)):
            begin, stop = spans[m, 0], min(spans[m, 1], units - u)
            # Slices of rows, so that the compiler can vectorise the inner loop.
            cost, least = costs[m, begin:stop], after[p + m, u + begin : u + stop]
            for n in range(len(least)):
                least[n] = min(least[n], reached + cost[n])


class Fills(NamedTuple):
    """Least fills of (stages, body units) on some clusters.

    Attributes
    ----------
    with_last
        One of these clusters hosts the last stage.
    without
        None of them does.
    """

    with_last: Ints
    without: Ints


def joined(some: Fills, others: Fills) -> Fills:
    """Return the least fills on both sets of clusters."""
    both = Fills(*(np.full_like(some.without, NEVER) for _ in Fills._fields))
    add(some.with_last, others.without, both.with_last)
    add(some.without, others.with_last, both.with_last)
    add(some.without, others.without, both.without)
    return both


class StageCosts(NamedTuple):
    """Costs and limits of the stages of one cluster; K strategies, M stages at most.

    Attributes
    ----------
    run
        Least time of l neighbouring units; shape (K, length + 1), rising with l.
    inner
        Least kappa between stages of the cluster; length K.
    ends
        Time of units at the model's ends that the cluster holds; length K.
    sides
        Least kappa into and out of the cluster, if other clusters are there; length K.
    room
        Most units that m stages can hold, for all l or for each; shape (K, 1, M + 1) or
        (K, length + 1, M + 1).
    limits
        Longest time of m stages together; length M + 1.
    stages_ok, units_ok
        What pins permit; lengths M + 1 and length + 1.
    """

    run: Ints
    inner: Ints
    ends: Ints
    sides: Ints
    room: Ints
    limits: Ints
    stages_ok: Flags
    units_ok: Flags


@kernel
def cheapest(costs: StageCosts, least: Ints) -> None:
    """Lower ``least`` to the least fill of m stages with l body units.

    Parameters
    ----------
    least
        Overwritten if a strategy is cheaper; shape (M + 1, length + 1).
    """
    run, room = costs.run, costs.room
    length = run.shape[1] - 1
    for m in range(1, len(least)):
        if not costs.stages_ok[m]:
            continue
        for k in range(len(run)):
            fixed = costs.ends[k] + 2 * (m - 1) * costs.inner[k]
            differs = room.shape[1] > 1
            most = length if differs else min(length, room[k, 0, m])
            for n in range(m, most + 1):
                time = run[k, n] + fixed
                if time > costs.limits[m]:
                    break
                if costs.units_ok[n] and (not differs or n <= room[k, n, m]):
                    least[m, n] = min(least[m, n], time + costs.sides[k])


@kernel
def replaced(columns: Ints, gone: Flags) -> None:
    """Mark rows that are nowhere below another row; of equal rows the first stays.

    Parameters
    ----------
    columns
        Shape (K, M).
    gone
        Set if another row replaces it; length K, all False at first.
    """
    rows, width = columns.shape
    for k in range(rows):
        for i in range(rows):
            if i == k or gone[i]:
                continue
            same = True
            larger = False
            for m in range(width):
                if columns[i, m] > columns[k, m]:
                    larger = True
                    break
                if columns[i, m] < columns[k, m]:
                    same = False
            if not larger and (not same or i < k):
                gone[k] = True
                break


@kernel
def together(opening: Ints, others: Ints, least: int, total: Ints) -> None:
    """Set total[p] = min(itself, opening[m, l] + others[p - m, length - l]).

    Parameters
    ----------
    opening, others
        By (stages, body units); shapes (M + 1, length + 1) and (P + 1, length + 1).
    least
        The least p that is needed.
    total
        Fill of p stages with all body units; length P + 1 at most.
    """
    length = others.shape[1] - 1
    for m in range(1, len(opening)):
        for n in range(m, length):
            cost = opening[m, n]
            if cost >= NEVER:
                continue
            for p in range(max(m + 1, least), min(len(total), m + len(others))):
                value = cost + others[p - m, length - n]
                total[p] = min(total[p], value)


@kernel
def spared(costs: StageCosts, most: Ints, kept: Flags) -> None:
    """Mark strategies with which some m stages and l units cost no more than allowed.

    Parameters
    ----------
    costs
        Its ``room`` is the same for every l.
    most
        The most that the cluster may cost; shape (M + 1, length + 1).
    kept
        Set for these strategies; length K.
    """
    run, room = costs.run, costs.room
    for k in range(len(run)):
        if kept[k]:
            continue
        for m in range(1, min(len(most), room.shape[2])):
            if not costs.stages_ok[m]:
                continue
            fixed = costs.ends[k] + 2 * (m - 1) * costs.inner[k]
            for n in range(m, run.shape[1]):
                time = run[k, n] + fixed
                if time > costs.limits[m] or n > room[k, 0, m]:
                    break
                if costs.units_ok[n] and time + costs.sides[k] <= most[m, n]:
                    kept[k] = True
                    break
            if kept[k]:
                break


class Excess(NamedTuple):
    """What the excess of stages is made of; K strategies.

    Attributes
    ----------
    sums, ends
        The three times that a path's weights multiply: least of l neighbouring body
        units, and of units at the ends; shapes (3, K, length + 1) and (3, K).
    beside
        The least kappa beside a stage; length K.
    held
        Most warm-ups with l body units; shape (K, length + 1).
    weights
        By warm-ups; shape (n + 1, 4).
    """

    sums: Ints
    ends: Ints
    beside: Ints
    held: Ints
    weights: Ints


@kernel
def within_excess(of: Excess, warmups: Ints, period: int, most: Ints) -> None:
    """Set ``most`` to the most body units of stages whose excess is allowed.

    Parameters
    ----------
    warmups
        Fewest and most of each stage; shape (2, W).
    period
        The largest excess.
    most
        Shape (K, W).
    """
    for k in range(len(of.beside)):
        for i in range(warmups.shape[1]):
            low, high = 0, of.sums.shape[2] - 1
            while low < high:
                n = (low + high + 1) // 2
                many = min(warmups[1, i], of.held[k, n])
                by, late = of.weights[many], of.weights[warmups[0, i]]
                excess = by[3] * of.beside[k]
                excess += by[0] * (of.sums[0, k, n] + of.ends[0, k])
                excess += by[1] * (of.sums[1, k, n] + of.ends[1, k])
                excess += late[2] * (of.sums[2, k, n] + of.ends[2, k])
                if many >= 1 and excess <= period:
                    low = n
                else:
                    high = n - 1
            most[k, i] = low
