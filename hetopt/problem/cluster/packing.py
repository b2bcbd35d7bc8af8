"""How stages are placed in a cluster's nodes (MODEL.md, section 2).

A stage with at most the devices of the largest node is placed inside one node, which it
may share with other stages. A larger stage has several nodes to itself and uses the
same number of devices in each, which is all devices of some node size.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

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


def nodes_for(cluster: Cluster, stages: Mapping[tuple[int, int], int]) -> int:
    """Return how many nodes of a cluster stages need.

    Parameters
    ----------
    stages
        Devices and ``inside`` of a stage, as in ``packed`` -> number of such stages.

    Notes
    -----
    A stage of several nodes has as many as ``packed`` divides it over: of unequal
    nodes, the smallest that are large enough. Then stages inside one node are placed,
    the largest first, each in the largest node that has room and is used or free.
    In equal nodes, stages of several sizes fit by their sum (``fills_by_sum``).
    """
    size = cluster.devices_per_node
    whole: list[int] = []
    shared: Counter[int] = Counter()
    for (devices, inside), count in stages.items():
        if devices <= size:
            shared[devices] += count
        else:
            fit = packed(cluster, devices, inside)
            each = size if fit is None else fit.per_node
            whole += [each] * (ceil(devices / each) * count)
    if cluster.unequal is not None:
        return _unequal_nodes(cluster.unequal, whole, shared)
    if len(shared) == 1:
        ((devices, count),) = shared.items()
        return len(whole) + ceil(count / (size // devices))
    return len(whole) + ceil(sum(own * n for own, n in shared.items()) / size)


def _unequal_nodes(
    sizes: tuple[int, ...], whole: list[int], shared: Counter[int]
) -> int:
    """Return how many nodes are used; all, if stages find no room in this order.

    Parameters
    ----------
    whole
        Devices taken in each node that a stage has to itself.
    shared
        Devices of a stage inside one node -> number of such stages.
    """
    free = sorted(sizes)
    for devices in sorted(whole, reverse=True):
        smallest = bisect_left(free, devices)
        if smallest == len(free):
            return len(sizes)
        del free[smallest]
    free.reverse()
    left = list(free)
    for devices in sorted(shared.elements(), reverse=True):
        place = next((k for k, room in enumerate(left) if room >= devices), None)
        if place is None:
            return len(sizes)
        left[place] -= devices
    return len(whole) + sum(room < size for room, size in zip(left, free, strict=True))
