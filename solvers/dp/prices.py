"""Least fill of the stages still to be placed, by prices of devices.

If P3 or P4 is relaxed, which clusters may come next depends on how many of their
devices are taken; if there are many clusters, on which subset of them is left. Either
way a table would be too large. So devices have a price: with pi_j ns per device of
cluster j,

    rest[M, R] = min over j, k, l of
        tau_k(R - l .. R) + 2 min kappa out of k + pi_j n_k + rest[M - 1, R - l]

and the rest costs at least rest[M, R] less the price of all devices still free
(Lagrangian relaxation), for any prices >= 0. Good prices make the bound at the root
large: a price rises if the cheapest relaxed plan takes more of a cluster's devices
than there are, and falls if it takes fewer. Row 0 of the table is without prices,
row 1 with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.compiled import kernel, step
from hetopt.solvers.arrays.costs import Fact, HostColumn, Option, Sum
from hetopt.solvers.arrays.windows import INFINITE, slide
from hetopt.solvers.dp.bounds import Cap

if TYPE_CHECKING:
    from hetopt.solvers.arrays.costs import Costs, Ints
    from hetopt.solvers.dp.bounds import RangeLimits

#: Rounds of price updates.
_ROUNDS = 24


@kernel
def look_around(
    costs: Costs,
    limits: RangeLimits,
    scratch: Ints,
    chosen: Ints,
    used: Ints,
    most: int,
) -> None:
    """Improve ``limits.price``, starting from its values, and fill in ``limits.rest``.

    Parameters
    ----------
    scratch
        As for ``slide``.
    chosen
        Scratch: option and units that attain each entry; shape (2, p + 1, L + 1).
    used
        Devices of each cluster in the root's relaxed plan, and the best prices so
        far; shape (2, J).
    most
        Prices with a bound above this many ns are good enough.
    """
    p, length = costs.facts[Fact.P], costs.facts[Fact.L]
    clusters = len(costs.host)
    price, best = limits.price, used[1]
    _fill_in(costs, limits, 0, scratch, chosen)
    top = -INFINITE
    if limits.rest[0, p, length] < INFINITE:
        for _ in range(_ROUNDS):
            _fill_in(costs, limits, 1, scratch, chosen)
            bound = limits.rest[1, p, length]
            for j in range(clusters):
                bound -= price[j] * costs.host[j, HostColumn.DEVICES]
            if bound > top:
                top = bound
                for j in range(clusters):
                    best[j] = price[j]
            if bound > most:
                break
            if not _step(
                costs, limits, chosen, used[0], float(most) * 1.001 + 1.0 - float(bound)
            ):
                break
    for j in range(clusters):
        price[j] = best[j] if top > -INFINITE else 0
    _fill_in(costs, limits, 1, scratch, chosen)


@step
def _step(
    costs: Costs, limits: RangeLimits, chosen: Ints, used: Ints, missing: float
) -> bool:
    """Change prices to raise the root's bound; False if no change can.

    It is Polyak's step along the devices that the root's relaxed plan takes in excess.

    Parameters
    ----------
    missing
        Ns that the bound lacks to refute the whole program.
    """
    price, clusters = limits.price, len(costs.host)
    for j in range(clusters):
        used[j] = 0
    stages, left = costs.facts[Fact.P], costs.facts[Fact.L]
    while stages:
        option = costs.option[chosen[0, stages, left]]
        used[option[Option.CLUSTER]] += option[Option.DEVICES]
        left -= chosen[1, stages, left]
        stages -= 1
    norm = 0.0
    for j in range(clusters):
        excess = used[j] - costs.host[j, HostColumn.DEVICES]
        if excess > 0 or price[j] > 0:
            norm += float(excess) * float(excess)
    if norm == 0.0:
        return False
    pace = missing / norm
    for j in range(clusters):
        excess = used[j] - costs.host[j, HostColumn.DEVICES]
        price[j] = max(0, price[j] + int(pace * excess))
    return True


@step
def _fill_in(
    costs: Costs, limits: RangeLimits, row: int, scratch: Ints, chosen: Ints
) -> None:
    """Fill in one row of ``rest``: row 1 with prices, row 0 without."""
    p, length = costs.facts[Fact.P], costs.facts[Fact.L]
    rest = limits.rest[row]
    for stages in range(p + 1):
        for end in range(length + 1):
            rest[stages, end] = INFINITE
    rest[0, 0] = 0
    for stages in range(1, p + 1):
        before, after = rest[stages - 1], rest[stages]
        for o in range(len(costs.option)):
            longest = limits.caps[Cap.ALONE, o, p - stages + 1]
            if longest < 1:
                continue
            fill, a = costs.sums[Sum.FILL, o], costs.option[o, Option.LAYOUT]
            extra = costs.option[o, Option.DEVICES]
            extra *= limits.price[costs.option[o, Option.CLUSTER]] * row
            if stages == 1:
                extra += costs.option[o, Option.LEAD + Sum.FILL]
            if stages == p:
                extra += costs.option[o, Option.TRAIL + Sum.FILL]
            start, stop = slide(before, fill, 1, longest, stages == p, scratch)
            for end in range(start, stop + 1):
                y = scratch[2, end]
                if y < 0:
                    continue
                cost = fill[end] - fill[y] + before[y] + extra
                if stages < p:
                    cost += limits.out[costs.cut[end], a]
                if cost < after[end]:
                    after[end] = cost
                    chosen[0, stages, end] = o
                    chosen[1, stages, end] = end - y
