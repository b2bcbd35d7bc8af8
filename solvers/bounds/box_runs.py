"""Least cost of a run of stages on one option, compiled."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.base.compiled import step

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Costs = NDArray[np.float64]
    Ints = NDArray[np.int64]


class OptionEdge(IntEnum):
    """Rows of ``Options.edge``.

    Least kappa inside the cluster, from another cluster before and to another one
    after; least omega of the same three; least time of a unit on other clusters.
    """

    INSIDE, BEFORE, AFTER, INSIDE_PACE, BEFORE_PACE, AFTER_PACE, OTHERS = range(7)


class OptionEnd(IntEnum):
    """Rows of ``Options.ends``: times and g of the units at both ends of the model."""

    LEAD, TRAIL, LEAD_SYNC, TRAIL_SYNC = range(4)


class BoxFact(IntEnum):
    """Positions in ``Options.steps``.

    Least warm-ups that a boundary adds inside a cluster and across, the most inside and
    across, whether windows of lambda count, whether all body units and cuts are alike,
    number of units at the front and at the end, and how many transfers block at a
    boundary (chi).
    """

    STEP, GAP, MOST_STEP, MOST_GAP, WINDOWS, UNIFORM, LEADS, TRAILS = range(8)
    BLOCKING = 8


class Options(NamedTuple):
    """Strategies of all clusters in one list; O options, J clusters, L units.

    Attributes
    ----------
    cluster, most
        Cluster of each option, and how many stages it has room for; shape (O,).
    run, sync
        Least that l body units add to the fill, and to g of their stage; shape
        (O, L + 1).
    busy, handed_on
        Least time that they keep a stage busy, and the part of it before a gradient is
        handed on; shape (O, L + 1).
    edge, ends
        Rows as in ``OptionEdge`` and ``OptionEnd``; shapes (7, O), (4, O).
    fits
        Most body units that memory permits on a stage at a place; shape (O, places).
    roles
        Whether a cluster may have a role; shape (J, 4).
    stages_ok, units_ok
        Whether a cluster may host a number of stages, and of units with the ends.
    steps
        Positions as in ``BoxFact``.
    """

    cluster: Ints
    most: Ints
    run: Costs
    busy: Costs
    handed_on: Costs
    sync: Costs
    edge: Costs
    ends: Costs
    fits: Ints
    roles: NDArray[np.bool_]
    stages_ok: NDArray[np.bool_]
    units_ok: NDArray[np.bool_]
    steps: Ints


@step
def most_within(costs: Costs, room: float) -> int:
    """Return the most units that cost at most ``room``; -1 if even 0 cost more."""
    low, high = 0, len(costs)
    while low < high:
        middle = (low + high) // 2
        if costs[middle] <= room:
            low = middle + 1
        else:
            high = middle
    return low - 1


class _Sides(NamedTuple):
    """What is on either side of a run of stages.

    Attributes
    ----------
    base, held
        Time of both sides in the fill, and units at the ends of the model.
    lead
        Time of the units at the front of the model, if the run begins with them.
    ahead, behind
        Time of the run's window before its first stage and after its last one.
    place
        Least warm-ups that the boundary after the run adds.
    closing, opening
        Most units that g permits on the last stage, and on the first one.
    """

    base: float
    held: int
    lead: float
    ahead: float
    behind: float
    place: int
    closing: int
    opening: int


@step
def _sides(options: Options, o: int, role: int, period: float, sync: float) -> _Sides:
    edge, ends, steps = options.edge, options.ends, options.steps
    by_sync = most_within(options.sync[o], sync)
    base, held, lead = 0.0, 0, 0.0
    opening, closing, place = by_sync, by_sync, 0
    if role & 1:
        ahead = lead = ends[OptionEnd.LEAD, o]
        base += lead
        held += steps[BoxFact.LEADS]
        # The first stage holds the units at the front as well.
        opening = most_within(options.sync[o], sync - ends[OptionEnd.LEAD_SYNC, o])
    else:
        base += edge[OptionEdge.BEFORE, o]
        ahead = _wait(options, o, edge[OptionEdge.BEFORE, o], period)
    if role & 2:
        behind = ends[OptionEnd.TRAIL, o]
        base += behind
        held += steps[BoxFact.TRAILS]
        closing = most_within(options.sync[o], sync - ends[OptionEnd.TRAIL_SYNC, o])
    else:
        base += edge[OptionEdge.AFTER, o]
        behind = _wait(options, o, edge[OptionEdge.AFTER, o], period)
        place = steps[BoxFact.GAP]
    return _Sides(base, held, lead, ahead, behind, place, closing, opening)


@step
def _wait(options: Options, o: int, kappa: float, period: float) -> float:
    """Return the least delay that comes from a neighbour on another cluster."""
    if not options.steps[BoxFact.WINDOWS]:
        return 0.0
    wait = options.edge[OptionEdge.OTHERS, o] + 2 * kappa
    wait -= options.steps[BoxFact.MOST_GAP] * period
    return float(max(0.0, wait))


@step
def _is_too_slow(options: Options, o: int, role: int, period: float) -> bool:
    """Whether omega of a boundary to another cluster exceeds lambda."""
    before = not role & 1 and options.edge[OptionEdge.BEFORE_PACE, o] > period
    return before or (not role & 2 and options.edge[OptionEdge.AFTER_PACE, o] > period)


@step
def _most_first(options: Options, o: int, sides: _Sides, room: float) -> int:
    """Return the most units of a run's first stage, where lambda leaves ``room``.

    A window may begin with the stage, which then counts with all its time. In one that
    begins on the cluster before, it counts with what it hands on.
    """
    alone = most_within(options.busy[o], room - sides.lead)
    return min(alone, most_within(options.handed_on[o], room - sides.ahead))


@step
def cost_run(
    options: Options, o: int, role: int, period: float, sync: float, row: Costs
) -> None:
    """Write the least cost of l units on an option in a role into ``row``."""
    for n in range(len(row)):
        row[n] = np.inf
    j, size = options.cluster[o], len(row)
    if not options.roles[j, role] or _is_too_slow(options, o, role, period):
        return
    sides = _sides(options, o, role, period, sync)
    busy, steps = options.busy[o], options.steps
    handed_on = options.handed_on[o]
    inside, most_step = options.edge[OptionEdge.INSIDE, o], steps[BoxFact.MOST_STEP]
    by_sync = most_within(options.sync[o], sync)
    most = min(options.most[o], size - 1)
    if options.edge[OptionEdge.INSIDE_PACE, o] > period:
        most = min(most, 1)
    total, done, carry = 0, 0, 0.0
    # What a stage waits for at its own boundaries, where transfers block.
    chi = steps[BoxFact.BLOCKING]
    before = 0.0 if role & 1 else chi * options.edge[OptionEdge.BEFORE, o]
    after = 0.0 if role & 2 else chi * options.edge[OptionEdge.AFTER, o]
    for m in range(1, most + 1):
        at = sides.place + steps[BoxFact.STEP] * (m - 1)
        slot = min(options.fits[o, min(at, options.fits.shape[1] - 1)], by_sync)
        load = carry + (after if m == 1 else chi * inside)
        if m == 1:
            load += sides.behind
            slot = min(slot, sides.closing)
        # At least one unit has to fit if no delay is inherited.
        last = min(slot, sides.opening)
        if min(last, _most_first(options, o, sides, period - before)) < 1:
            return
        last = min(last, _most_first(options, o, sides, period - load - before))
        slot = max(0, min(slot, most_within(busy, period - load - chi * inside)))
        if m == 1 and max(slot, last) < 1:
            return
        cap = min(total + max(0, last), size - 1)
        total += slot
        if steps[BoxFact.WINDOWS]:
            # The delay that the stage before inherits from this one (MODEL.md, section
            # 4). Where units are alike, every stage is filled as far as possible: one
            # unit fewer here makes room for at most one elsewhere. That every stage
            # needs a unit is ignored.
            if steps[BoxFact.UNIFORM]:
                delay = min(period, handed_on[slot] + load)
                carry = max(0.0, delay + 2 * inside - most_step * period)
            span = (1 + most_step * (m - 1)) * period
            span -= 2 * (m - 1) * inside + sides.ahead + sides.behind
            cap = min(cap, most_within(handed_on, span))
        if not options.stages_ok[j, m]:
            continue
        rest = sides.base + 2 * (m - 1) * inside
        for n in range(max(m, done + 1), cap + 1):
            if options.units_ok[j, n + sides.held]:
                row[n] = options.run[o, n] + rest
        done = max(done, cap)
        if done >= size - 1:
            return
