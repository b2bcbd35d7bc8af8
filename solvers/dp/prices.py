"""Least fill of what is still to be placed, by prices of devices.

Where P3 or P4 is relaxed, which clusters may come next depends on how many of their
devices are taken, and where clusters are many, on too large a subset of them: both are
too many numbers for a table. So devices have a price: with pi_j ns per
device of cluster j,

    rest[M, R] = min over j, k, l of
        tau_k(R - l .. R) + 2 min kappa out of k + pi_j n_k + rest[M - 1, R - l]

and what is left costs at least rest[M, R] less the price of all devices still free
(Lagrangian relaxation), whatever the prices are. Good ones make the bound at the root
large: they rise where the cheapest plan takes more devices than there are, and fall
where it takes fewer. Row 0 of the table is without prices, row 1 with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.compiled import kernel, step
from hetopt.solvers.arrays.program import (
    CLUSTER,
    LAYOUT,
    LEAD,
    STAGE_DEVICES,
    STOCK,
    TAU,
    TRAIL,
    L,
    P,
)
from hetopt.solvers.dp.bounds import ALONE, INFINITE

if TYPE_CHECKING:
    from hetopt.solvers.arrays.program import Costs, Ints
    from hetopt.solvers.dp.bounds import Limits

#: Rounds in which prices change.
_ROUNDS = 24


@kernel
def look_around(
    costs: Costs, limits: Limits, scratch: Ints, chosen: Ints, used: Ints, most: int
) -> None:
    """Find prices, and fill in ``limits.rest``; ``limits.price`` is where to begin.

    Parameters
    ----------
    scratch
        Shape (2, L + 1).
    chosen
        Option and units that attain each entry; shape (2, p + 1, L + 1).
    used
        Devices of each cluster in the root's relaxed plan, and the best prices so
        far; shape (2, J).
    most
        A bound above this many ns is good enough.
    """
    p, length = costs.facts[P], costs.facts[L]
    clusters = len(costs.host)
    price, best = limits.price, used[1]
    _fill_in(costs, limits, 0, scratch, chosen)
    top = -INFINITE
    if limits.rest[0, p, length] < INFINITE:
        for _ in range(_ROUNDS):
            _fill_in(costs, limits, 1, scratch, chosen)
            bound = limits.rest[1, p, length]
            for j in range(clusters):
                bound -= price[j] * costs.host[j, STOCK]
                used[0, j] = 0
            if bound > top:
                top = bound
                for j in range(clusters):
                    best[j] = price[j]
            if bound > most:
                break
            stages, left = p, length
            while stages:
                o = chosen[0, stages, left]
                used[0, costs.option[o, CLUSTER]] += costs.option[o, STAGE_DEVICES]
                left -= chosen[1, stages, left]
                stages -= 1
            norm = 0.0
            for j in range(clusters):
                excess = used[0, j] - costs.host[j, STOCK]
                if excess > 0 or price[j] > 0:
                    norm += float(excess) * float(excess)
            if norm == 0.0:
                break
            # Polyak's step towards a bound that refutes everything.
            pace = (float(most) * 1.001 + 1.0 - float(bound)) / norm
            for j in range(clusters):
                excess = used[0, j] - costs.host[j, STOCK]
                price[j] = max(0, price[j] + int(pace * excess))
    for j in range(clusters):
        price[j] = best[j] if top > -INFINITE else 0
    _fill_in(costs, limits, 1, scratch, chosen)


@step
def _fill_in(
    costs: Costs, limits: Limits, row: int, scratch: Ints, chosen: Ints
) -> None:
    """Fill in one row of ``rest``: row 1 with prices, row 0 without."""
    p, length = costs.facts[P], costs.facts[L]
    rest = limits.rest[row]
    queue, worth = scratch[0], scratch[1]
    for stages in range(p + 1):
        for end in range(length + 1):
            rest[stages, end] = INFINITE
    rest[0, 0] = 0
    for stages in range(1, p + 1):
        before, after = rest[stages - 1], rest[stages]
        first, last = 0, length
        while first <= length and before[first] >= INFINITE:
            first += 1
        while last >= 0 and before[last] >= INFINITE:
            last -= 1
        for o in range(len(costs.option)):
            longest = limits.caps[ALONE, o, p - stages + 1]
            if longest < 1:
                continue
            tau, a = costs.sums[TAU, o], costs.option[o, LAYOUT]
            extra = costs.option[o, STAGE_DEVICES]
            extra *= limits.price[costs.option[o, CLUSTER]] * row
            if stages == 1:
                extra += costs.option[o, LEAD + TAU]
            if stages == p:
                extra += costs.option[o, TRAIL + TAU]
            for y in range(first, last + 1):
                worth[y] = INFINITE
                if before[y] < INFINITE:
                    worth[y] = before[y] - tau[y]
            start, stop = first + 1, min(length - 1, last + longest)
            if stages == p:
                start = stop = length
            head, tail, following = 0, 0, first
            for end in range(start, stop + 1):
                while following <= last and following < end:
                    while tail > head and worth[queue[tail - 1]] >= worth[following]:
                        tail -= 1
                    queue[tail] = following
                    tail += 1
                    following += 1
                while tail > head and queue[head] < end - longest:
                    head += 1
                if tail == head or worth[queue[head]] > INFINITE // 2:
                    continue
                cost = tau[end] + worth[queue[head]] + extra
                if stages < p:
                    cost += limits.out[costs.cut[end], a]
                if cost < after[end]:
                    after[end] = cost
                    chosen[0, stages, end] = o
                    chosen[1, stages, end] = end - queue[head]
