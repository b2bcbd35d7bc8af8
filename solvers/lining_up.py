"""The loop of the line-up: clusters in a given order, units and stages shared out.

Costs are in ns. Clusters are taken from the end of the pipeline; for every number of
units placed only a few of the best states are kept, so this finds plans, not bounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.compiled import compiled
from hetopt.solvers.outline_sums import most_within

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Costs = NDArray[np.float64]
    Ints = NDArray[np.int64]

#: Columns of a state: its option, units and stages of its run, units in all, the
#: place of its first stage, and the state before it.
OPTION, UNITS, STAGES, PLACED, PLACE, BEFORE = range(6)


@compiled
def line_up(
    order: Ints,
    first: Ints,
    run: Costs,
    inner: Costs,
    lead: Costs,
    trail: Costs,
    fits: Ints,
    closing: Ints,
    opening: Ints,
    most: Ints,
    kappa: Costs,
    quick: NDArray[np.bool_],
    period: float,
    windows: bool,
    steps: Ints,
    must: NDArray[np.bool_],
    width: int,
) -> tuple[float, Ints]:
    """Return the least fill found, and the states that lead to it, first one first.

    A stage takes as many units as it can, so that the last one of a run's stages to
    be placed has what is left.

    Parameters
    ----------
    order
        Clusters from the end of the pipeline; each may be left out unless it must.
    first
        Options of cluster j are first[j] to first[j + 1]; shape (J + 1,).
    run, inner, lead, trail, most
        By option: cost of l units, kappa inside, cost of the ends, most stages.
    fits, closing, opening
        Most units of a stage by option and place; of the last stage; of the first.
    kappa, quick
        From option to option: kappa, and whether omega is within lambda.
    windows
        Whether windows of lambda count.
    steps
        Warm-ups added inside a cluster and across.
    must
        Clusters that have to host.
    width
        States kept for every number of units.
    """
    size, places = run.shape[1], fits.shape[1]
    step, gap = steps[0], steps[1]
    options = 0
    for j in order:
        options += first[j + 1] - first[j]
    state = np.zeros((1 + options * size, 6), dtype=np.int64)
    # Fill so far, and E of the last stage placed.
    worth = np.full((len(state), 2), np.inf)
    state[0, OPTION] = state[0, BEFORE] = -1
    worth[0] = 0.0
    # Per number of units the states that are kept, best first.
    kept = np.full((size, width), -1, dtype=np.int64)
    kept[0, 0] = 0
    count = 1
    best, last = np.inf, -1
    fresh = np.full((size, 6), -1, dtype=np.int64)
    value = np.full((size, 2), np.inf)
    for j in order:
        begun = count
        for o in range(first[j], first[j + 1]):
            value[:] = np.inf
            for u in range(size - 1):
                for slot in range(width):
                    s = kept[u, slot]
                    if s < 0:
                        break
                    other = state[s, OPTION]
                    cost, place, carry = worth[s, 0], 0, 0.0
                    if other >= 0:
                        if not quick[o, other]:
                            continue
                        cost += 2 * kappa[o, other]
                        place = state[s, PLACE] + gap
                        if windows:
                            carry = worth[s, 1] + 2 * kappa[o, other] - gap * period
                            carry = max(0.0, carry)
                    else:
                        cost += trail[o]
                    total, left = 0, size - 1 - u
                    for m in range(1, min(most[o], left) + 1):
                        at = min(place + step * (m - 1), places - 1)
                        load = carry
                        share = fits[o, at]
                        if other < 0 and m == 1:
                            load += trail[o]
                            share = min(share, closing[o])
                        share = min(share, most_within(run[o], period - load))
                        if share < 1:
                            break
                        for n in range(1, min(share, left - total) + 1):
                            if n == left - total and (
                                n > opening[o, at]
                                or run[o, n] + load + lead[o] > period
                            ):
                                continue
                            units = total + n
                            new = cost + run[o, units]
                            if units == left:
                                new += lead[o]
                            if new < value[u + units, 0]:
                                value[u + units, 0] = new
                                value[u + units, 1] = run[o, n] + load
                                fresh[u + units, OPTION] = o
                                fresh[u + units, UNITS] = units
                                fresh[u + units, STAGES] = m
                                fresh[u + units, PLACED] = u + units
                                fresh[u + units, PLACE] = place + step * (m - 1)
                                fresh[u + units, BEFORE] = s
                        total += share
                        if total >= left:
                            break
                        cost += 2 * inner[o]
                        if windows:
                            carry = run[o, share] + load + 2 * inner[o] - step * period
                            carry = max(0.0, carry)
            for u in range(1, size):
                if value[u, 0] < np.inf:
                    state[count] = fresh[u]
                    worth[count] = value[u]
                    count += 1
        # A cluster that must host leaves no state without it.
        if must[j]:
            kept[:] = -1
        for s in range(begun, count):
            u = state[s, PLACED]
            if u == size - 1:
                missing = False
                for i in range(len(order) - 1, -1, -1):
                    if order[i] == j:
                        break
                    if must[order[i]]:
                        missing = True
                if worth[s, 0] < best and not missing:
                    best, last = worth[s, 0], s
                continue
            at = width
            while at > 0 and (
                kept[u, at - 1] < 0 or worth[kept[u, at - 1], 0] > worth[s, 0]
            ):
                at -= 1
            if at < width:
                for slot in range(width - 1, at, -1):
                    kept[u, slot] = kept[u, slot - 1]
                kept[u, at] = s
    length = 0
    s = last
    while s > 0:
        length += 1
        s = state[s, BEFORE]
    path = np.empty((length, 6), dtype=np.int64)
    s = last
    for i in range(length):
        path[i] = state[s]
        s = state[s, BEFORE]
    return best, path
