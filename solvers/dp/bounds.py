"""Least fill of the stages still to be placed: the dynamic program's lower bound.

Labels grow from the end of the pipeline. The remaining cost of a label is bounded by
the same program without the delay E and without gradient synchronisation, in which
every run has the neighbours with the least kappa. The rest then decomposes into runs:
with *mask* the clusters not used yet, M stages and R body units to go,

    rest[mask, M, R] = min over j in mask, k, m, l of
        tau_k(R - l .. R) + 2 (m - 1) kappa_k + 2 min kappa out of k
        + rest[mask - j, M - m, R - l].

A run of m stages holds at most the units that each stage may hold (by lambda, and by
memory at the least W of its place), and at most those of the window over all of it:

    sum of tau <= (1 + sum of delta) lambda - 2 sum of kappa.

If gradients of weights run apart and take w, a stage adds tau - 2 w to the fill, and
tau - w to windows unless it is their first stage.

Of identical clusters those with the lowest numbers are left
(``ProgramOptions.leaders``), so few masks occur. For fixed (j, k, m) the minimum over l
is a sliding-window minimum as R grows.

If P3 or P4 is relaxed, or there are many clusters, ``dp.prices`` has the bound instead.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.base.compiled import kernel, step
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.solvers.arrays.costs import Delta, Edge, Fact, HostColumn, Option, Sum
from hetopt.solvers.arrays.windows import INFINITE, slide

if TYPE_CHECKING:
    from hetopt.solvers.arrays.costs import Costs, Ints

#: A product up to this plus a lambda stays within 64 bits.
_LARGEST = 2**62


class Scalar(IntEnum):
    """Positions in ``RangeLimits.scalars``."""

    PERIOD, STAGE, BOUNDARY, FLOOR, PACE, ORDERED, LOW = range(7)


class Cap(IntEnum):
    """Rows of ``RangeLimits.caps``.

    Units of a stage of the last run, and of one of an earlier run; units of a run by
    its window.
    """

    ALONE, ENDED, WINDOW = range(3)


class RangeLimits(NamedTuple):
    """The limits of a search over one range of lambda.

    Attributes
    ----------
    scalars
        ``PERIOD``: lambda's upper end in 1 / PERIOD_SCALE ticks, ``INFINITE`` without
        a steady state. ``STAGE``, ``BOUNDARY``: largest tau and kappa in ns.
        ``FLOOR``: ns that some tau or kappa has to reach. ``PACE``: least pace in ns
        (gpipe). ``ORDERED``: whether the tie rule decides between equal labels.
        ``LOW``: lambda's lower end, in the unit of ``PERIOD``.
    delta
        For memory and for the period, by cut class and layouts; shape (2, X, A, A).
    calm
        By cut class and layout of the later stage: a smaller E delays no stage.
    caps
        Most body units on stage i from the end, and on a run of m stages by its
        window; shape (3, O, p + 1).
    out
        Least 2 kappa to another cluster (if devices have prices, to any stage), by
        cut class and layout, and in the last row between stages of a run; shape
        (X + 1, A).
    rest
        The recursion's table by ``Costs.row``; shape (rows, p + 1, L + 1), in ns.
        If devices have prices, the table of ``dp.prices``; shape (2, p + 1, L + 1).
    price
        Price of a device of each cluster in ns.
    """

    scalars: Ints
    delta: Ints
    calm: Ints
    caps: Ints
    out: Ints
    rest: Ints
    price: Ints


@kernel
def shortest(sums: Ints, least: Ints) -> None:
    """Fill ``least``, shaped as ``Costs.sums``, with the least of any l body units."""
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


def empty_limits(costs: Costs, scalars: Ints, delta: Ints) -> RangeLimits:
    """Return empty limits, for ``limit`` to fill in."""
    options, layouts = len(costs.option), len(costs.home)
    classes, p = costs.edge.shape[1], int(costs.facts[Fact.P])
    tables = 2 if costs.facts[Fact.PRICED] else int(costs.row.max()) + 1
    return RangeLimits(
        scalars=scalars,
        delta=delta,
        calm=np.full((classes, layouts), INFINITE, dtype=np.int64),
        caps=np.zeros((3, options, p + 1), dtype=np.int64),
        out=np.full((classes + 1, layouts), INFINITE, dtype=np.int64),
        rest=np.full(
            (tables, p + 1, costs.facts[Fact.L] + 1), INFINITE, dtype=np.int64
        ),
        price=np.zeros(len(costs.host), dtype=np.int64),
    )


@kernel
def limit(
    costs: Costs, short: Ints, limits: RangeLimits, scratch: Ints, most: int
) -> None:
    """Fill in ``calm``, ``caps`` and ``out``, and ``rest`` unless devices have prices.

    Parameters
    ----------
    short
        The array that ``shortest`` filled.
    scratch
        As for ``slide``.
    most
        Entries of ``rest`` above this many ns are infinite.
    """
    least, across = _cross_boundaries(costs, limits)
    for o in range(len(costs.option)):
        _cap_stages(costs, short, limits, o, least, across)
        _cap_runs(costs, short, limits, o)
    if not costs.facts[Fact.PRICED]:
        _look_ahead(costs, limits, scratch, most)


@step
def _cross_boundaries(costs: Costs, limits: RangeLimits) -> tuple[int, int]:
    """Fill in ``calm`` and ``out``; return the least delta, and the least across."""
    delta, calm, out = limits.delta, limits.calm, limits.out
    classes, period = costs.edge.shape[1], limits.scalars[Scalar.PERIOD]
    least, across = 3, 3
    for x in range(classes):
        if not _is_cut(costs, x):
            continue
        kappa = costs.edge[Edge.KAPPA, x]
        for a in range(len(costs.home)):
            out[classes, a] = min(out[classes, a], 2 * kappa[a, a])
            for b in range(len(costs.home)):
                same = costs.home[a] == costs.home[b]
                if same:
                    least = min(least, delta[Delta.LIGHT, x, b, a])
                else:
                    across = min(across, delta[Delta.LIGHT, x, b, a])
                if costs.facts[Fact.PRICED] or not same:
                    out[x, a] = min(out[x, a], 2 * kappa[a, b])
                if period < INFINITE:
                    hidden = delta[Delta.HEAVY, x, b, a] * period
                    hidden -= 2 * PERIOD_SCALE * kappa[b, a]
                    calm[x, a] = min(calm[x, a], hidden)
    return min(least, across), across


@step
def _is_cut(costs: Costs, x: int) -> bool:
    """Whether some cut of the body belongs to class ``x``."""
    found = False
    for cut in range(1, costs.facts[Fact.L]):
        found = found or costs.cut[cut] == x
    return found


@step
def _cap_stages(
    costs: Costs, short: Ints, limits: RangeLimits, o: int, least: int, across: int
) -> None:
    """Fill in the most units of a stage at each place, by lambda and memory."""
    q, p = costs.facts[Fact.Q], costs.facts[Fact.P]
    tau = short[Sum.TAU, o]
    wait = costs.facts[Fact.BLOCKING] * _least_kappa(costs, o)
    peak = costs.temporary[o, 0]
    for u in range(1, costs.facts[Fact.L]):
        peak = min(peak, costs.temporary[o, u])
    free = costs.option[o, Option.FREE_BYTES] - peak
    for ended in range(2):
        before = -1
        fits = 0
        for i in range(1, p + 1):
            # If transfers block, a stage waits at each of its boundaries.
            room = limits.scalars[Scalar.STAGE] - wait * ((i > 1) + (i < p))
            within = _fitting(tau, tau, 0, room)
            warmup = 1 + (i - 1) * least
            if ended and i > 1:
                warmup += across - least
            warmup = q if costs.facts[Fact.GPIPE] else min(warmup, q)
            if warmup != before:
                before = warmup
                fits = _fitting(short[Sum.STATE, o], short[Sum.ACTIVE, o], warmup, free)
            limits.caps[ended, o, i] = min(within, fits)


@step
def _least_kappa(costs: Costs, o: int) -> int:
    """Return the least kappa of any boundary of an option's stage; 0 without any."""
    a, least = costs.option[o, Option.LAYOUT], INFINITE
    for x in range(costs.edge.shape[1]):
        if _is_cut(costs, x):
            for b in range(len(costs.home)):
                least = min(least, costs.edge[Edge.KAPPA, x, a, b])
                least = min(least, costs.edge[Edge.KAPPA, x, b, a])
    return 0 if least >= INFINITE else int(least)


@step
def _cap_runs(costs: Costs, short: Ints, limits: RangeLimits, o: int) -> None:
    """Fill in the most units of a run of m stages, by the window over all of it."""
    period = limits.scalars[Scalar.PERIOD]
    inside = short[Sum.INSIDE, o]
    a = costs.option[o, Option.LAYOUT]
    gain = -INFINITE
    blocked = costs.facts[Fact.BLOCKING] * limits.out[len(limits.out) - 1, a]
    if blocked >= INFINITE:
        # No cut is inside a run.
        blocked = 0
    for x in range(costs.edge.shape[1]):
        # ``calm`` is infinite for classes that no cut belongs to.
        if limits.calm[x, a] < INFINITE:
            hidden = limits.delta[Delta.HEAVY, x, a, a] * period
            hidden -= 2 * PERIOD_SCALE * costs.edge[Edge.KAPPA, x, a, a]
            gain = max(gain, hidden)
    for m in range(1, costs.facts[Fact.P] + 1):
        limits.caps[Cap.WINDOW, o, m] = costs.facts[Fact.L]
        if period < INFINITE:
            span = _span(period, gain, m)
            if blocked and period <= _LARGEST // m:
                # Each stage is busy with its own boundaries as well.
                span = min(span, m * period // PERIOD_SCALE - (m - 1) * blocked)
            limits.caps[Cap.WINDOW, o, m] = _fitting(inside, inside, 0, span)


@step
def _span(period: int, gain: int, stages: int) -> int:
    """Return the most time of a window over ``stages`` stages, in ns.

    Parameters
    ----------
    gain
        Time that each boundary adds, or takes off if < 0; in 1 / PERIOD_SCALE ticks.
    """
    most = _LARGEST // max(1, stages - 1)
    if gain > most:
        return INFINITE
    if gain < -most:
        return -1
    return (period + (stages - 1) * gain) // PERIOD_SCALE


@step
def _look_ahead(costs: Costs, limits: RangeLimits, scratch: Ints, most: int) -> None:
    """Fill in ``rest`` by the recursion in this module's docstring."""
    p, full = costs.facts[Fact.P], (1 << len(costs.host)) - 1
    for mask in range(full + 1):
        if costs.row[mask] < 0:
            continue
        limits.rest[costs.row[mask], 0, 0] = 0
        low = p if mask == full else 1
        high = p if mask == full else p - 1
        for o in range(len(costs.option)):
            j = costs.option[o, Option.CLUSTER]
            if not mask >> j & 1 or mask & costs.host[j, HostColumn.AHEAD]:
                continue
            for stages in range(low, high + 1):
                _begin_with(costs, limits, mask, o, stages, scratch, most)


@step
def _begin_with(
    costs: Costs,
    limits: RangeLimits,
    mask: int,
    o: int,
    stages: int,
    scratch: Ints,
    most: int,
) -> None:
    """Let a run of option o end a part of ``stages`` stages on clusters of ``mask``."""
    p, a = costs.facts[Fact.P], costs.option[o, Option.LAYOUT]
    j, fill = costs.option[o, Option.CLUSTER], costs.sums[Sum.FILL, o]
    after = limits.rest[costs.row[mask], stages]
    ended = Cap.ALONE if stages == p else Cap.ENDED
    total = 0
    for m in range(1, min(costs.option[o, Option.MOST_STAGES], stages) + 1):
        each = limits.caps[ended, o, p - stages + m]
        if each < 1:
            break
        total += each
        longest = min(total, limits.caps[Cap.WINDOW, o, m])
        if longest < m or not costs.stages_ok[j, m]:
            continue
        extra = (m - 1) * limits.out[len(limits.out) - 1, a]
        if stages == p:
            extra += costs.option[o, Option.TRAIL + Sum.FILL]
        if stages == m:
            extra += costs.option[o, Option.LEAD + Sum.FILL]
        before = limits.rest[costs.row[mask ^ (1 << j)], stages - m]
        start, stop = slide(before, fill, m, longest, stages == p, scratch)
        for end in range(start, stop + 1):
            y = scratch[2, end]
            if y < 0:
                continue
            cost = fill[end] - fill[y] + before[y] + extra
            if stages < p:
                cost += limits.out[costs.cut[end], a]
            if cost <= most and cost < after[end]:
                after[end] = cost
