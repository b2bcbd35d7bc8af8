"""How stages of so many devices lie in a cluster's nodes (MODEL.md, section 2).

A stage of no more devices than the largest node has lies inside one node, beside others
as far as there is room. A larger one takes equally many devices of several nodes, each
of which is its own: as many as nodes of some size have.
"""

from __future__ import annotations

from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hetopt.problem.cluster.cluster import Cluster


class Packed(NamedTuple):
    """Stages that are all alike, in the nodes of a cluster.

    Attributes
    ----------
    per_node
        Devices that a stage has in each of its nodes; they divide its devices.
    stages
        The most that there is room for, at least 1.
    """

    per_node: int
    stages: int


def packed(cluster: Cluster, devices: int, inside: int) -> Packed | None:
    """Return how stages of so many devices lie in the nodes; None if none fits.

    Parameters
    ----------
    devices
        Of a stage.
    inside
        What divides them in every node, as its tensor degrees stay inside one.

    Notes
    -----
    n <= the largest node: sum over nodes of floor(m_k / n) stages. Otherwise n = r m'
    for the size m' of a node that this divides: floor(#{m_k >= m'} / r) stages. Of
    several m' the one that holds most stages is taken, of those the largest.
    """
    if devices <= cluster.devices_per_node:
        fit = sum(count * (size // devices) for size, count in cluster.sizes)
        return Packed(devices, fit)
    best = None
    nodes = most = 0
    for size, count in cluster.sizes:
        nodes += count
        if devices % size or size % inside:
            continue
        stages = nodes // (devices // size)
        if stages > most:
            best, most = Packed(size, stages), stages
    return best


def fills_by_sum(cluster: Cluster, devices: Iterable[int]) -> bool:
    """Whether stages of these sizes fit whenever their devices add up to no more.

    So they do in equal nodes that every size divides, or is a multiple of.
    """
    size = cluster.devices_per_node
    return cluster.unequal is None and all(
        size % own == 0 or own % size == 0 for own in devices
    )


def fits_by_limits(cluster: Cluster, stages: Iterable[tuple[int, int]]) -> bool:
    """Whether stages of these sizes fit whenever each size and larger ones leave room.

    The room is what ``packed`` has for stages of that size alone. So it is if every
    size divides the next: the largest ones are put first, and take of each node a
    multiple of what the others need. Those of several nodes have to fill them.

    Parameters
    ----------
    stages
        Devices, and what divides them in every node.
    """
    largest = cluster.devices_per_node
    pairs = sorted(set(stages))
    sizes = [devices for devices, _ in pairs]
    across = [packed(cluster, *pair) for pair in pairs if pair[0] > largest]
    if across:
        sizes = sorted([*sizes, largest])
    whole = all(fit is not None and fit.per_node == largest for fit in across)
    return whole and all(more % own == 0 for own, more in pairwise(sizes))


def nodes_for(cluster: Cluster, stages: Mapping[int, int]) -> int:
    """Return how many of a cluster's nodes stages need, of unequal ones the largest.

    Parameters
    ----------
    stages
        How many stages there are of each number of devices. Stages of several sizes
        fit by their sum (``fills_by_sum``); in unequal nodes they share none.
    """
    size = cluster.devices_per_node
    shared = {own: count for own, count in stages.items() if own <= size}
    whole = sum(-(-own // size) * stages[own] for own in stages.keys() - shared.keys())
    if len(shared) > 1 and cluster.unequal is None:
        return whole + ceil(sum(own * count for own, count in shared.items()) / size)
    return whole + sum(_shared_nodes(cluster, *each) for each in shared.items())


def _shared_nodes(cluster: Cluster, devices: int, stages: int) -> int:
    """Return how many nodes stages of so many devices need, largest nodes first."""
    nodes = 0
    for size, count in cluster.sizes:
        if stages > 0 and size >= devices:
            taken = min(count, ceil(stages / (size // devices)))
            nodes, stages = nodes + taken, stages - taken * (size // devices)
    return nodes
