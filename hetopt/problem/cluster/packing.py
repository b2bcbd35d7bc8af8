"""How stages are placed in a cluster's nodes (MODEL.md, section 2).

A stage with at most the devices of the largest node is placed inside one node, which it
may share with other stages. A larger stage has several nodes to itself and uses the
same number of devices in each, which is all devices of some node size.
"""

from __future__ import annotations

from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from hetopt.problem.cluster.filling import always_fill

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hetopt.problem.cluster.cluster import Cluster


class Packed(NamedTuple):
    """Equal stages in the nodes of a cluster.

    Attributes
    ----------
    per_node
        Devices that a stage has in each of its nodes, a divisor of all its devices.
    stages
        Most stages that fit, at least 1.
    """

    per_node: int
    stages: int


def packed(cluster: Cluster, devices: int, inside: int) -> Packed | None:
    """Return how equal stages are placed in the nodes; None if no stage fits.

    Parameters
    ----------
    devices
        Devices of a stage.
    inside
        Divisor of its devices in each node: tensor-parallel groups stay inside a node.

    Notes
    -----
    n <= the largest node: sum over nodes of floor(m_k / n) stages. Otherwise n = r m'
    for a node size m' that ``inside`` divides: floor(#{m_k >= m'} / r) stages. The m'
    with the most stages is taken; of several, the largest.
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
    """Whether stages of these sizes fit if their sum is at most the cluster's devices.

    Only equal nodes are looked at, and sizes that are divisors or multiples of theirs.
    """
    node, sizes = cluster.devices_per_node, set(devices)
    if cluster.unequal is not None or any(n % node and node % n for n in sizes):
        return False
    return always_fill(node, frozenset(n for n in sizes if n <= node))


def fits_by_limits(cluster: Cluster, stages: Iterable[tuple[int, int]]) -> bool:
    """Whether stages of these sizes fit if they keep one limit for each size.

    The limit of a size: stages of at least that size have no more devices in all than
    ``packed`` has for stages of that size alone. It suffices if every size divides the
    next: the largest are placed first and take, of each node, a multiple of what the
    others need. Stages of several nodes have to fill them.

    Parameters
    ----------
    stages
        Devices and ``inside`` of each, as in ``packed``.
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
    """Return how many nodes of a cluster stages need; the largest are used first.

    Parameters
    ----------
    stages
        Devices of a stage -> number of such stages. Stages of several sizes fit by
        their sum (``fills_by_sum``); in unequal nodes, sizes are counted one by one.
    """
    size = cluster.devices_per_node
    shared = {own: count for own, count in stages.items() if own <= size}
    whole = sum(-(-own // size) * stages[own] for own in stages.keys() - shared.keys())
    if len(shared) > 1 and cluster.unequal is None:
        return whole + ceil(sum(own * count for own, count in shared.items()) / size)
    return whole + sum(_shared_nodes(cluster, *each) for each in shared.items())


def _shared_nodes(cluster: Cluster, devices: int, stages: int) -> int:
    """Return how many nodes equal stages need, the largest nodes first."""
    nodes = 0
    for size, count in cluster.sizes:
        if stages > 0 and size >= devices:
            taken = min(count, ceil(stages / (size // devices)))
            nodes, stages = nodes + taken, stages - taken * (size // devices)
    return nodes
