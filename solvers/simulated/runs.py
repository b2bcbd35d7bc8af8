"""Runs of stages in pipelines within an excess, and their share of the fill."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.base.compiled import kernel, step
from hetopt.solvers.arrays.costs import Delta, Edge, Fact, Option, Sum, Weight
from hetopt.solvers.arrays.least import Least, fitting
from hetopt.solvers.arrays.windows import INFINITE
from hetopt.solvers.simulated.bounds import Boundary, End, uplink_excess, warmups

if TYPE_CHECKING:
    from hetopt.solvers.arrays.costs import Costs, Ints
    from hetopt.solvers.simulated.bounds import StageLimits


class Runs(NamedTuple):
    """Costs of runs, and the most units of their stages within an excess.

    Attributes
    ----------
    ends
        Result of ``at_ends``, which the fills here include.
    leading
        Options that are enough for the least fills; see ``leading``.
    unlike
        Units at the beginning that are unlike those after them; 0 if none are.
    """

    costs: Costs
    short: Ints
    steps: Ints
    joint: Ints
    level: StageLimits
    ends: Ints
    leading: Ints
    unlike: int


class Reach(NamedTuple):
    """The most body units of a run of m stages, by where it begins.

    Attributes
    ----------
    wide, later
        Of any run, and of one that begins after all units that are unlike others.
    each
        If every stage begins with any unit.
    mixed
        The most of at most m stages of which the first begins with any unit.
    """

    wide: int
    later: int
    each: int
    mixed: int


@step
def reach_of(runs: Runs, o: int, ended: int, at: int, m: int, before: Reach) -> Reach:
    """Return the reach of a run whose last stage is the ``at``-th from the end.

    Some of its first stages may have unlike units alone, all of them together; only the
    next one may have some of them beside others. ``before`` is for one stage less.
    """
    caps, last = runs.level.caps, at + m - 1
    own, unlike = caps[ended, o, last], runs.unlike
    each = before.each + own
    if not unlike:
        return Reach(each, each, each, 0)
    later = before.later + caps[ended + len(runs.costs.host), o, last]
    mixed = before.later + own
    wide = min(each, max(mixed, unlike + before.mixed))
    return Reach(wide, later, each, max(before.mixed, mixed))


@step
def run_cap(runs: Runs, o: int, ended: int, at: int, m: int) -> int:
    """Return the most body units of a run of m stages by the excess of its window.

    The run's last stage is the ``at``-th from the end.
    """
    facts, steps, level = runs.costs.facts, runs.steps[Delta.HEAVY], runs.level
    q, length = facts[Fact.Q], facts[Fact.L]
    if m < 2 or not facts[Fact.WINDOWS]:
        return int(length)
    inside, across = steps[Boundary.INSIDE], steps[Boundary.ACROSS]
    heavy = 1 + (at - 1 - ended) * inside + ended * across
    turns = (q - heavy) // (1 + (m - 1) * inside)
    if turns < 1:
        return int(length)
    left = level.excess // turns - 2 * (m - 1) * level.inner[o]
    return fitting(runs.short[Least.FILL, o], left)


@step
def is_in_time(runs: Runs, o: int, ended: int, at: int, m: int) -> bool:
    """Whether an uplink can carry what a run between two others sends by an excess."""
    costs, last = runs.costs, at + m - 1
    heavy = warmups(costs, runs.steps[Delta.HEAVY], ended, last)
    return ended == 0 or uplink_excess(costs, o, heavy) <= runs.level.excess


@step
def opening(costs: Costs, ends: Ints, o: int, units: int) -> int:
    """Return what the first run adds to the fill beside tau of its body units.

    Parameters
    ----------
    units
        Least body units of the first stage, whose g ends the path.
    """
    first = costs.sums[Sum.SYNC, o, max(1, units)]
    first += max(0, costs.facts[Fact.HOPS] - 2) * costs.facts[Fact.WAY_BACK]
    return int(costs.option[o, Option.LEAD + Sum.FILL] + ends[o, End.SYNC] + first)


@step
def closing(runs: Runs, o: int, m: int, alone: bool) -> int:
    """Return what the last run adds to the fill beside its body units."""
    trail = runs.costs.option[o, Option.TRAIL + Sum.FILL]
    if not alone:
        trail += runs.ends[o, End.TIED]
    elif m > 1:
        trail += runs.ends[o, End.ALONE]
    return int(trail)


@step
def bits(mask: int) -> int:
    """Return how many clusters a set has."""
    count = 0
    while mask:
        count += mask & 1
        mask >>= 1
    return count


@kernel
def _join(costs: Costs, busiest: int, slowest: int, joint: Ints) -> None:
    layouts = len(costs.home)
    for x in range(costs.edge.shape[1]):
        for o in range(len(costs.option)):
            own = costs.option[o, Option.LAYOUT]
            for j in range(len(costs.host)):
                least = INFINITE
                for b in range(layouts):
                    if (
                        costs.home[b] == j
                        and costs.edge[Edge.OMEGA, x, own, b] <= busiest
                        and costs.edge[Edge.KAPPA, x, own, b] <= slowest
                    ):
                        kappa = costs.edge[Edge.KAPPA, x, own, b]
                        least = min(least, costs.facts[Fact.HOPS] * kappa)
                joint[1 << j, x, o] = least
            for mask in range(1, 1 << len(costs.host)):
                low = mask & -mask
                joint[mask, x, o] = min(joint[low, x, o], joint[mask ^ low, x, o])


def longest_occupancy(costs: Costs, excess: int) -> int:
    """Return the longest occupancy of a link within an excess."""
    more = int(costs.weights[0, Weight.BACKWARD])
    return excess // more if more and not costs.facts[Fact.BLOCKING] else INFINITE


def joints(costs: Costs, excess: int, slowest: int) -> Ints:
    """Return the least share in the fill of a boundary to any of some clusters.

    Shape (2 ** J, X, O), by the clusters, the class of the cut and the option. Links
    whose own excess, q - 1 occupancies, is larger than ``excess``, or whose kappa is
    above ``slowest``, count as infinite.
    """
    busiest = longest_occupancy(costs, excess)
    shape = (1 << len(costs.host), costs.edge.shape[1], len(costs.option))
    joint = np.full(shape, INFINITE, dtype=np.int64)
    _join(costs, busiest, slowest, joint)
    return joint


def worths(costs: Costs, joint: Ints, inner: Ints, ends: Ints) -> Ints:
    """Return all numbers of an option that fills depend on; smaller is better.

    Shape (O, F).
    """
    own = costs.option
    columns = (
        np.diff(costs.sums[Sum.FILL], axis=1),
        # Units of the first stage add to g as well.
        np.diff(costs.sums[Sum.FILL] + costs.sums[Sum.SYNC], axis=1),
        own[:, [Option.LEAD + Sum.FILL, Option.TRAIL + Sum.FILL]],
        -own[:, [Option.MOST_STAGES]],
        ends,
        inner[:, None],
        joint.transpose(2, 0, 1).reshape(len(own), -1),
    )
    return np.ascontiguousarray(np.concatenate(columns, axis=1))


@kernel
def _lead(cluster: Ints, worth: Ints, caps: Ints, order: Ints, found: Ints) -> int:
    count = 0
    for o in order:
        needed = False
        for c in range(caps.shape[0]):
            for i in range(caps.shape[2]):
                needed = needed or caps[c, o, i] > 0
        for n in range(count):
            if needed and cluster[found[n]] == cluster[o]:
                needed = not _is_as_good(worth, caps, found[n], o)
        if needed:
            found[count] = o
            count += 1
    return count


@step
def _is_as_good(worth: Ints, caps: Ints, one: int, other: int) -> bool:
    """Whether option ``one`` can replace ``other`` in any run, at no more cost."""
    for f in range(worth.shape[1]):
        if worth[one, f] > worth[other, f]:
            return False
    for c in range(caps.shape[0]):
        for i in range(caps.shape[2]):
            if caps[c, one, i] < caps[c, other, i]:
                return False
    return True


def leading(costs: Costs, worth: Ints, level: StageLimits) -> Ints:
    """Return options that are enough for the least fills within an excess.

    Any other one holds no unit, or one of these can replace it (``_is_as_good``).

    Parameters
    ----------
    worth
        Result of ``worths``.
    """
    # Options that are quicker, or as quick and hold more, come before others.
    quick = costs.sums[Sum.TAU, :, -1]
    order = np.lexsort((-level.caps.sum(axis=(0, 2)), quick))
    cluster = np.ascontiguousarray(costs.option[:, Option.CLUSTER])
    found = np.empty(len(order), dtype=np.int64)
    count = _lead(cluster, worth, level.caps, order, found)
    return found[:count]
