"""Identical clusters: exchanging two of them turns every plan into an equal one.

Two clusters are identical if every coefficient a solver reads stays the same when they
are exchanged: times and bytes of their stages, every boundary to, from and between
them, and the user's pins. Such exchanges compose, so clusters fall into groups; a group
is named by its first cluster, the *leader*.

Among the copies of a plan that exchanges give, the tie rule prefers the *canonical*
one: it uses the first clusters of each group, in the order of their index along the
pipeline. So a search needs to find only one copy of each plan. Copies are not different
choices: only one of them counts among the best plans.

Groups are made only if all principles are kept and no order is pinned: a cluster with
several runs has no single place in an order, and a pinned order distinguishes clusters.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.table.cluster import ClusterTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.formulations.program import ProgramData
    from hetopt.problem.training.pins import Pins
    from hetopt.problem.training.principles import Principles

    Ints = NDArray[np.int64]

#: Fields of a ClusterTable that are compared directly; layouts are exchanged first.
_COLUMNS = tuple(
    field.name
    for field in fields(ClusterTable)
    if field.name not in ("strategies", "layout")
)


def leaders(
    table: CostTable, part: TableSlice, pins: Pins, principles: Principles
) -> tuple[int, ...]:
    """Return the leader of every cluster's group, at one micro-batch count.

    Parameters
    ----------
    part
        The table's slice, with all strategies.
    """
    count = len(part.clusters)
    found = list(range(count))
    if principles.relaxed or pins.order is not None:
        return tuple(found)
    for j in range(count):
        for i in range(j):
            if found[i] == i and _are_identical(table, part, pins, i, j):
                found[j] = i
                break
    return tuple(found)


def kept_leaders(data: ProgramData) -> tuple[int, ...]:
    """Return the leaders of a program's groups.

    A cluster that was narrowed to other strategies than its leader is a group by
    itself.
    """
    known = [cluster.strategies for cluster in data.part.clusters]
    if data.principles.relaxed or data.pins.order is not None or not data.leaders:
        return tuple(range(len(known)))
    return tuple(i if known[i] == known[j] else j for j, i in enumerate(data.leaders))


def subsets(data: ProgramData) -> int:
    """Return how many subsets of a program's clusters differ, up to exchanges."""
    groups = kept_leaders(data)
    hosts = [groups[j] for j, own in enumerate(data.part.clusters) if own.strategies]
    return prod(size + 1 for size in Counter(hosts).values())


def _are_identical(
    table: CostTable, part: TableSlice, pins: Pins, i: int, j: int
) -> bool:
    """Whether exchanging clusters i and j changes nothing."""
    one, other = part.clusters[i], part.clusters[j]
    names = table.cluster_names
    if (
        table.cluster_devices[i] != table.cluster_devices[j]
        or table.usable_bytes[i] != table.usable_bytes[j]
        or one.strategies != other.strategies
        or pins.of(names[i]) != pins.of(names[j])
    ):
        return False
    swapped = {names[i]: names[j], names[j]: names[i]}
    forbidden = {(swapped.get(a, a), swapped.get(b, b)) for a, b in pins.forbidden_next}
    if forbidden != set(pins.forbidden_next):
        return False
    if any(
        not np.array_equal(getattr(one, name), getattr(other, name))
        for name in _COLUMNS
    ):
        return False
    layout = np.arange(len(part.layouts))
    layout[one.layout], layout[other.layout] = other.layout, one.layout
    own = np.unique(np.concatenate([one.layout, other.layout]))
    if not np.array_equal(layout[layout[own]], own):
        return False
    costs = [*part.transfer_ns, *part.occupancy_ns]
    if part.tied_ns is not None:
        costs.append(part.tied_ns)
    if part.shared is not None:
        swap = np.arange(len(part.clusters))
        swap[[i, j]] = j, i
        shared = part.shared.uplink_ns, part.shared.link_ns
        alike = shared[0][swap], shared[1][np.ix_(swap, swap)]
        if not all(map(np.array_equal, shared, alike)):
            return False
    return all(_stays(cost, layout, own) for cost in costs)


def _stays(cost: Ints, layout: Ints, own: Ints) -> bool:
    """Whether a matrix over layouts stays the same when they are exchanged.

    Parameters
    ----------
    layout
        The layout that each one is exchanged for.
    own
        The layouts that are exchanged for others.
    """
    there = layout[own]
    return np.array_equal(cost[own], cost[np.ix_(there, layout)]) and np.array_equal(
        cost[:, own], cost[np.ix_(layout, there)]
    )
