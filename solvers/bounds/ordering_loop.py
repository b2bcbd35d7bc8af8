"""The compiled loop of ``ordering``: it divides units and stages for a given order.

Costs are in ns. Clusters are placed from the end of the pipeline. For every number of
placed units only a few of the best states are kept, so this finds plans, not bounds.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.base.compiled import kernel, step
from hetopt.solvers.bounds.box_runs import most_within

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Costs = NDArray[np.float64]
    Ints = NDArray[np.int64]


class Partial(IntEnum):
    """Columns of a state, the end of a pipeline that starts with a run of one option.

    Its option, units and stages of its run, units in total, the place of its first
    stage, and the state without this run.
    """

    OPTION, UNITS, STAGES, PLACED, PLACE, BEFORE = range(6)


class OptionCost(IntEnum):
    """Columns of ``OrderingData.by_option``: kappa inside, cost of either end."""

    INNER, LEAD, TRAIL = range(3)


class OrderingData(NamedTuple):
    """Input of the loop; O options, J clusters, L units.

    Attributes
    ----------
    first
        Options of cluster j are first[j] to first[j + 1]; shape (J + 1,).
    run
        Cost of l units; shape (O, L + 1).
    by_option
        Columns as in ``OptionCost``; shape (O, 3).
    most
        Most stages; shape (O,).
    fits, opening
        Most units of a stage, and of the first one, by place; shape (O, places).
    closing
        Most units of the last stage; shape (O,).
    kappa, quick
        From option to option: kappa, and whether omega is within lambda.
    must
        Whether a cluster must host a stage; shape (J,).
    steps
        Warm-ups added inside a cluster and across, and whether windows of lambda count.
    """

    first: Ints
    run: Costs
    by_option: Costs
    most: Ints
    fits: Ints
    opening: Ints
    closing: Ints
    kappa: Costs
    quick: NDArray[np.bool_]
    must: NDArray[np.bool_]
    steps: Ints


class _States(NamedTuple):
    """All states, and those that are kept by number of units, best first.

    Attributes
    ----------
    worth
        Fill so far, and E of the last stage placed.
    fresh, new
        The best state that ends with one option, by units placed, and its worth.
    """

    state: Ints
    worth: Costs
    kept: Ints
    fresh: Ints
    new: Costs


def order_clusters(
    order: Ints, data: OrderingData, period: float, width: int
) -> tuple[float, Ints]:
    """Return the least fill found, and its runs from the first stage of the pipeline.

    Every stage takes as many units as it can, except the one of each run that is placed
    last, which takes the rest of the run's units.

    Parameters
    ----------
    order
        Clusters from the end of the pipeline; one that need not host may be left out.
    width
        States kept for every number of units.
    """
    size = data.run.shape[1]
    options = int((data.first[order + 1] - data.first[order]).sum())
    states = _States(
        state=np.zeros((1 + options * size, 6), dtype=np.int64),
        worth=np.full((1 + options * size, 2), np.inf),
        kept=np.full((size, width), -1, dtype=np.int64),
        fresh=np.full((size, 6), -1, dtype=np.int64),
        new=np.full((size, 2), np.inf),
    )
    last = _order_clusters(order, data, period, states)
    path, s = [], last
    while s > 0:
        path.append(states.state[s])
        s = int(states.state[s, Partial.BEFORE])
    best = float(states.worth[last, 0]) if last > 0 else np.inf
    return best, np.array(path, dtype=np.int64).reshape(-1, 6)


def order_once() -> None:
    """Compile the loop by calling it for one cluster with one unit."""
    one = np.ones(1, dtype=np.int64)
    data = OrderingData(
        first=np.arange(2, dtype=np.int64),
        run=np.arange(2, dtype=np.float64).reshape(1, 2),
        by_option=np.zeros((1, 3)),
        most=one,
        fits=one.reshape(1, 1),
        opening=one.reshape(1, 1),
        closing=one,
        kappa=np.zeros((1, 1)),
        quick=np.ones((1, 1), dtype=bool),
        must=np.ones(1, dtype=bool),
        steps=np.zeros(3, dtype=np.int64),
    )
    order_clusters(np.zeros(1, dtype=np.int64), data, 1.0, 1)


@kernel
def _order_clusters(
    order: Ints, data: OrderingData, period: float, states: _States
) -> int:
    """Compute all states; return the best one that holds all units, or -1."""
    state, worth, kept = states.state, states.worth, states.kept
    size, width = kept.shape
    state[0, Partial.OPTION] = state[0, Partial.BEFORE] = -1
    worth[0, 0] = worth[0, 1] = 0.0
    kept[0, 0] = 0
    best, last, count = np.inf, -1, 1
    for index in range(len(order)):
        j = order[index]
        begun = count
        for o in range(data.first[j], data.first[j + 1]):
            count = _place(data, period, states, o, count)
        # If this cluster must host, states without it are dropped.
        if data.must[j]:
            for u in range(size):
                for slot in range(width):
                    kept[u, slot] = -1
        missing = False
        for i in range(index + 1, len(order)):
            if data.must[order[i]]:
                missing = True
        for s in range(begun, count):
            if state[s, Partial.PLACED] < size - 1:
                _keep(states, s)
            elif worth[s, 0] < best and not missing:
                best, last = worth[s, 0], s
    return last


@step
def _place(
    data: OrderingData, period: float, states: _States, o: int, count: int
) -> int:
    """Add the best states that end with an option; return the new number of states."""
    kept, fresh, new = states.kept, states.fresh, states.new
    size, width = kept.shape
    for u in range(size):
        new[u, 0] = np.inf
    for u in range(size - 1):
        for slot in range(width):
            s = kept[u, slot]
            if s < 0:
                break
            other = states.state[s, Partial.OPTION]
            if other < 0 or data.quick[o, other]:
                _extend(data, period, states, o, s)
    for u in range(1, size):
        if new[u, 0] < np.inf:
            for column in range(6):
                states.state[count, column] = fresh[u, column]
            states.worth[count, 0] = new[u, 0]
            states.worth[count, 1] = new[u, 1]
            count += 1
    return count


@step
def _extend(data: OrderingData, period: float, states: _States, o: int, s: int) -> None:
    """Put runs of an option before a state, and write the best ones into ``fresh``."""
    run, own, fresh, new = data.run[o], data.by_option[o], states.fresh, states.new
    within, across, windows = data.steps[0], data.steps[1], data.steps[2]
    other, u = states.state[s, Partial.OPTION], states.state[s, Partial.PLACED]
    cost, place, carry, share = states.worth[s, 0], 0, 0.0, 0
    if other >= 0:
        cost += 2 * data.kappa[o, other]
        place = states.state[s, Partial.PLACE] + across
        if windows:
            carry = states.worth[s, 1] + 2 * data.kappa[o, other] - across * period
            carry = max(0.0, carry)
    else:
        cost += own[OptionCost.TRAIL]
    total, left = 0, len(run) - 1 - u
    for m in range(1, min(data.most[o], left) + 1):
        at = min(place + within * (m - 1), data.fits.shape[1] - 1)
        load, share = carry, data.fits[o, at]
        if other < 0 and m == 1:
            load += own[OptionCost.TRAIL]
            share = min(share, data.closing[o])
        share = min(share, most_within(run, period - load))
        if share < 1:
            return
        for n in range(1, min(share, left - total) + 1):
            units = total + n
            if units == left and (
                n > data.opening[o, at] or run[n] + load + own[OptionCost.LEAD] > period
            ):
                continue
            fill = cost + run[units]
            if units == left:
                fill += own[OptionCost.LEAD]
            if fill < new[u + units, 0]:
                new[u + units, 0] = fill
                new[u + units, 1] = run[n] + load
                fresh[u + units, Partial.OPTION] = o
                fresh[u + units, Partial.UNITS] = units
                fresh[u + units, Partial.STAGES] = m
                fresh[u + units, Partial.PLACED] = u + units
                fresh[u + units, Partial.PLACE] = place + within * (m - 1)
                fresh[u + units, Partial.BEFORE] = s
        total += share
        if total >= left:
            return
        cost += 2 * own[OptionCost.INNER]
        if windows:
            carry = max(
                0.0, run[share] + load + 2 * own[OptionCost.INNER] - within * period
            )


@step
def _keep(states: _States, s: int) -> None:
    """Keep a state if it is among the best with its number of units."""
    kept, worth = states.kept[states.state[s, Partial.PLACED]], states.worth
    at = len(kept)
    while at > 0 and (kept[at - 1] < 0 or worth[kept[at - 1], 0] > worth[s, 0]):
        at -= 1
    if at < len(kept):
        for slot in range(len(kept) - 1, at, -1):
            kept[slot] = kept[slot - 1]
        kept[at] = s
