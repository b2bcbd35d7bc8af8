"""Whether counting devices is enough to place stages of several sizes in nodes."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hetopt.problem.cluster.cluster import Cluster

#: Most groups of stages that are tried; with more the answer is no.
_MOST_GROUPS = 1 << 17


def fills_by_sum(cluster: Cluster, devices: Iterable[int]) -> bool:
    """Whether stages of these sizes fit if their sum is at most the cluster's devices.

    Only equal nodes are looked at, and sizes that are divisors or multiples of theirs.
    """
    node, sizes = cluster.devices_per_node, set(devices)
    if cluster.unequal is not None or any(n % node and node % n for n in sizes):
        return False
    return _always_fill(node, frozenset(n for n in sizes if n <= node))


@cache
def _always_fill(node: int, sizes: frozenset[int]) -> bool:
    """Whether stages fit into k nodes whenever they have at most ``k * node`` devices.

    False may also mean that there are too many sizes to find out.

    Parameters
    ----------
    node
        Devices of every node.
    sizes
        Devices of stages, each of them a divisor of ``node``.

    Notes
    -----
    Two sizes always fit: let stages of one size fill nodes; of each size, less than a
    node is left. A size that divides all others may be left out: such stages come last
    and fill every gap.

    For more sizes, join r stages of n devices, r the least prime for which r n divides
    ``node``, until fewer than r are left of every size. Joined stages are harder to
    place and have as many devices, so it suffices to look at these few. With more than
    2 nodes' devices and at most 2.5, they have three nodes: stages are put into the
    first until it has what two nodes cannot hold, at most half of it; as no stage has
    more than half a node, it holds the last one of them, too. So it suffices that those
    of at most 2 nodes' devices fit into two.
    """
    parts = sorted(sizes - {node})
    while parts and all(other % parts[0] == 0 for other in parts):
        del parts[0]
    if len(parts) <= 2:
        return True
    most = _counts(node, parts)
    devices = sum(size * count for size, count in most.items())
    groups = prod(count + 1 for count in most.values())
    if 2 * devices > 5 * node or groups > _MOST_GROUPS:
        return False
    return _fit(node, tuple(most.items()), 0, 1)


def _counts(node: int, parts: list[int]) -> dict[int, int]:
    """Return how many stages of each size are left at most after joining them."""
    most: dict[int, int] = {}
    waiting = list(parts)
    while waiting:
        size = waiting.pop()
        if size not in most and size < node:
            ratio = node // size
            prime = next(r for r in range(2, ratio + 1) if ratio % r == 0)
            most[size] = prime - 1
            waiting.append(prime * size)
    return most


def _fit(node: int, left: tuple[tuple[int, int], ...], total: int, sums: int) -> bool:
    """Whether stages fit into two nodes, whichever others are added.

    Parameters
    ----------
    left
        Sizes that may still be added, and how many of each.
    total
        Devices of the stages so far.
    sums
        Bit s: some of the stages have s devices together.
    """
    if total > 2 * node:
        return True
    if not left:
        # The first node has s devices, the second one the others.
        least = max(0, total - node)
        return bool(sums >> least & (1 << (node - least + 1)) - 1)
    (size, most), *others = left
    for count in range(most + 1):
        if count:
            total, sums = total + size, sums | sums << size
        if not _fit(node, tuple(others), total, sums):
            return False
    return True
