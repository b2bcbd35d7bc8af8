"""Least fill of what is still to be placed: how the dynamic program looks ahead.

The labels grow from the end of the pipeline. What a label still costs is bounded by
the same program without the delay E and without gradient synchronisation, in which
a run's neighbours are whichever is nearest. What is left then decomposes into runs:
with *mask* the clusters not used yet, M stages and R body units to go,

    rest[mask, M, R] = min over j in mask, k, m, l of
        tau_k(R - l .. R) + 2 (m - 1) kappa_k + 2 min kappa out of k
        + rest[mask - j, M - m, R - l].

A run of m stages holds at most what each may take (lambda, and memory at the least W
of its place), and no more than the window over all of it:

    sum of tau <= (1 + sum of delta) lambda - 2 sum of kappa.

Of identical clusters those with the lowest numbers are left (``Offer.leaders``), so
few masks occur. For fixed (j, k, m) the minimum over l is one over a window that
slides with R.

Where P3 or P4 is relaxed, or clusters are many, ``dp.prices`` bounds what is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.compiled import kernel, step
from hetopt.formulations.program import PERIOD_SCALE
from hetopt.solvers.arrays.program import (
    ACTIVE,
    AHEAD,
    AUTO,
    CLUSTER,
    FREE,
    GPIPE,
    KAPPA,
    LAYOUT,
    LEAD,
    PRICED,
    ROOM,
    STATE,
    TAU,
    TRAIL,
    L,
    P,
    Q,
)

if TYPE_CHECKING:
    from hetopt.solvers.arrays.program import Costs, Ints

#: More than any sum of times.
INFINITE = 2**60
#: Products up to this, and lambda, are added up within 64 bits.
_LARGEST = 2**62
#: Positions in ``Limits.knobs``.
PERIOD, STAGE, BOUNDARY, FLOOR, PACE, ORDERED = range(6)
#: Rows of ``Limits.delta``: for memory and for the period.
LIGHT, HEAVY = range(2)
#: Rows of ``Limits.caps``: units of a stage before which no cluster has ended, and
#: of one before which one has; units of a run by its window.
ALONE, ENDED, WINDOW = range(3)


class Limits(NamedTuple):
    """What a search over one range of lambda keeps to.

    Attributes
    ----------
    knobs
        ``PERIOD``: lambda's upper end in 1 / PERIOD_SCALE ticks, ``INFINITE`` where
        there is no steady state. ``STAGE``, ``BOUNDARY``: most tau and kappa in ns.
        ``FLOOR``: ns that some tau or kappa has to reach. ``PACE``: least pace in ns
        (gpipe). ``ORDERED``: whether equal labels are told apart by the tie rule.
    delta
        For memory and for the period, by cut class and layouts; shape (2, X, A, A).
    calm
        By cut class and layout of the later stage: E below this delays nothing.
    caps
        Most body units on stage i from the end, and on a run of m stages by its
        window; shape (3, O, p + 1).
    out
        Least 2 kappa to another cluster (where devices have prices, to any stage), by
        cut class and layout, and in the last row between stages of a run; shape
        (X + 1, A).
    rest
        The recursion's table by ``Costs.row``; shape (rows, p + 1, L + 1), in ns.
        Where devices have prices that of ``dp.prices``; shape (2, p + 1, L + 1).
    price
        Of a device of each cluster in ns.
    """

    knobs: Ints
    delta: Ints
    calm: Ints
    caps: Ints
    out: Ints
    rest: Ints
    price: Ints


@kernel
def shortest(sums: Ints, least: Ints) -> None:
    """Write down the least of any run of l body units, shaped as ``Costs.sums``."""
    kinds, count, size = sums.shape
    for c in range(kinds):
        for o in range(count):
            prefix = sums[c, o]
            for length in range(1, size):
                best = prefix[length] - prefix[0]
                for start in range(1, size - length):
                    best = min(best, prefix[start + length] - prefix[start])
                least[c, o, length] = best


@step
def _fitting(least: Ints, more: Ints, times: int, room: int) -> int:
    """Return the largest length with least + times * more <= room; -1 if none has."""
    low, high = 0, len(least)
    while low < high:
        middle = (low + high) // 2
        if least[middle] + times * more[middle] <= room:
            low = middle + 1
        else:
            high = middle
    return low - 1


def empty_limits(costs: Costs, knobs: Ints, delta: Ints) -> Limits:
    """Return limits that ``limit`` is to fill in."""
    options, layouts = len(costs.option), len(costs.home)
    classes, p, length = costs.edge.shape[1], int(costs.facts[P]), int(costs.facts[L])
    tables = 2 if costs.facts[PRICED] else int(costs.row.max()) + 1
    return Limits(
        knobs=knobs,
        delta=delta,
        calm=np.full((classes, layouts), INFINITE, dtype=np.int64),
        caps=np.zeros((3, options, p + 1), dtype=np.int64),
        out=np.full((classes + 1, layouts), INFINITE, dtype=np.int64),
        rest=np.full((tables, p + 1, length + 1), INFINITE, dtype=np.int64),
        price=np.zeros(len(costs.host), dtype=np.int64),
    )


@kernel
def limit(costs: Costs, short: Ints, limits: Limits, scratch: Ints, most: int) -> None:
    """Fill in ``calm``, ``caps`` and ``out``, and ``rest`` unless devices have prices.

    Parameters
    ----------
    short
        What ``shortest`` wrote.
    scratch
        Shape (2, L + 1).
    most
        What costs more ns is infinite in ``rest``.
    """
    knobs, delta = limits.knobs, limits.delta
    calm, caps, out = limits.calm, limits.caps, limits.out
    p, length, q = costs.facts[P], costs.facts[L], costs.facts[Q]
    count, layouts, classes = len(costs.option), len(costs.home), costs.edge.shape[1]
    period = knobs[PERIOD]
    priced = costs.facts[PRICED] != 0
    least, across = 3, 3
    for x in range(classes):
        seen = False
        for cut in range(1, length):
            seen = seen or costs.cut[cut] == x
        if not seen:
            continue
        kappa = costs.edge[KAPPA, x]
        for a in range(layouts):
            out[classes, a] = min(out[classes, a], 2 * kappa[a, a])
            for b in range(layouts):
                same = costs.home[a] == costs.home[b]
                if same:
                    least = min(least, delta[LIGHT, x, b, a])
                else:
                    across = min(across, delta[LIGHT, x, b, a])
                if priced or not same:
                    out[x, a] = min(out[x, a], 2 * kappa[a, b])
                if period < INFINITE:
                    hidden = delta[HEAVY, x, b, a] * period
                    hidden -= 2 * PERIOD_SCALE * kappa[b, a]
                    calm[x, a] = min(calm[x, a], hidden)
    least = min(least, across)
    for o in range(count):
        peak = costs.temporary[o, 0]
        for u in range(1, length):
            peak = min(peak, costs.temporary[o, u])
        room = costs.option[o, FREE] - peak
        tau = short[TAU, o]
        within = _fitting(tau, tau, 0, knobs[STAGE])
        for ended in range(2):
            before = -1
            fits = 0
            for i in range(1, p + 1):
                warmup = 1 + (i - 1) * least
                if ended and i > 1:
                    warmup += across - least
                warmup = q if costs.facts[GPIPE] else min(warmup, q)
                if warmup != before:
                    before = warmup
                    fits = _fitting(short[STATE, o], short[ACTIVE, o], warmup, room)
                caps[ended, o, i] = min(within, fits)
        gain = -INFINITE
        a = costs.option[o, LAYOUT]
        for x in range(classes):
            # That is, for the classes seen above.
            if calm[x, a] < INFINITE:
                hidden = delta[HEAVY, x, a, a] * period
                gain = max(gain, hidden - 2 * PERIOD_SCALE * costs.edge[KAPPA, x, a, a])
        for m in range(1, p + 1):
            caps[WINDOW, o, m] = length
            # With enough warm-ups no window is too long.
            if period < INFINITE and not costs.facts[AUTO]:
                span = _span(period, gain, m)
                caps[WINDOW, o, m] = _fitting(tau, tau, 0, span)
    if not priced:
        _look_ahead(costs, caps, out, limits.rest, scratch, most)


@step
def _span(period: int, gain: int, stages: int) -> int:
    """Return what a window over so many stages may take, in ns.

    Parameters
    ----------
    gain
        What each boundary adds to lambda, or takes off; in 1 / PERIOD_SCALE ticks.
    """
    most = _LARGEST // max(1, stages - 1)
    if gain > most:
        return INFINITE
    if gain < -most:
        return -1
    return (period + (stages - 1) * gain) // PERIOD_SCALE


@step
def _look_ahead(
    costs: Costs, caps: Ints, out: Ints, rest: Ints, scratch: Ints, most: int
) -> None:
    p, length = costs.facts[P], costs.facts[L]
    classes = len(out) - 1
    full = (1 << len(costs.host)) - 1
    queue, worth = scratch[0], scratch[1]
    for mask in range(full + 1):
        if costs.row[mask] < 0:
            continue
        own = rest[costs.row[mask]]
        own[0, 0] = 0
        low = p if mask == full else 1
        high = p if mask == full else p - 1
        for o in range(len(costs.option)):
            j, a = costs.option[o, CLUSTER], costs.option[o, LAYOUT]
            if not mask >> j & 1 or mask & costs.host[j, AHEAD]:
                continue
            for stages in range(low, high + 1):
                total = 0
                for m in range(1, min(costs.option[o, ROOM], stages) + 1):
                    row = ALONE if stages == p else ENDED
                    each = caps[row, o, p - stages + m]
                    if each < 1:
                        break
                    total += each
                    longest = min(total, caps[WINDOW, o, m])
                    if longest < m or not costs.stages_ok[j, m]:
                        continue
                    extra = (m - 1) * out[classes, a]
                    if stages == p:
                        extra += costs.option[o, TRAIL + TAU]
                    if stages == m:
                        extra += costs.option[o, LEAD + TAU]
                    before = rest[costs.row[mask ^ (1 << j)], stages - m]
                    after = own[stages]
                    tau = costs.sums[TAU, o]
                    # A run from y to end: m <= end - y <= longest.
                    first, last = 0, 0
                    if stages > m:
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
                    if stages == p:
                        start = stop = length
                    head, tail, following = 0, 0, first
                    for end in range(start, stop + 1):
                        while following <= last and following <= end - m:
                            while (
                                tail > head
                                and worth[queue[tail - 1]] >= worth[following]
                            ):
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
                            cost += out[costs.cut[end], a]
                        if cost <= most and cost < after[end]:
                            after[end] = cost
