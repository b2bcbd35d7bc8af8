"""Whether stages fit into a cluster's nodes, counted here from the nodes alone.

A stage of no more devices than the largest node lies in one node; a larger one takes
equally many devices, as many as some node has, of several nodes that are its own.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.plans.strategy import Strategy
    from hetopt.problem.cluster.cluster import Cluster

    #: How many nodes have so many devices free, by devices, ascending.
    Free = tuple[tuple[int, int], ...]


def most_stages(cluster: Cluster, strategy: Strategy) -> int:
    """Return how many stages of one strategy the nodes hold."""
    free = _nodes(cluster)
    devices = strategy.devices
    largest = free[-1][0]
    if devices <= largest:
        return sum(count * (size // devices) for size, count in free)
    most = 0
    for size in _parts(free, strategy):
        able = sum(count for other, count in free if other >= size)
        most = max(most, able * size // devices)
    return most


def cut(cluster: Cluster, parts: Sequence[int]) -> bool:
    """Whether parts of so many devices can be cut from the nodes, each from one."""
    open_ = [(tuple(sorted(parts)), _nodes(cluster))]
    seen = set()
    while open_:
        left, free = open_.pop()
        if not left:
            return True
        if (left, free) in seen:
            continue
        seen.add((left, free))
        for size, _ in free:
            if size >= left[-1]:
                after = Counter(dict(free))
                after[size] -= 1
                after[size - left[-1]] += 1
                open_.append((left[:-1], _sorted(after)))
    return False


def packing_findings(cluster: Cluster, stages: Sequence[Strategy]) -> Iterator[str]:
    """Yield why stages, all of one cluster, do not fit into its nodes together.

    One that fits into none is a matter of its mesh.
    """
    devices = sum(strategy.devices for strategy in stages)
    nodes = _nodes(cluster)
    there_are = sum(size * count for size, count in nodes)
    if devices > there_are:
        yield (
            f"cluster {cluster.name!r}: stages take {devices} devices, it has "
            f"{there_are}"
        )
        return
    if not all(most_stages(cluster, strategy) for strategy in set(stages)):
        return
    if not _fit(nodes, stages):
        counts = Counter(strategy.devices for strategy in stages)
        listed = " and ".join(
            f"{count} of {own} devices" for own, count in sorted(counts.items())
        )
        sizes = ", ".join(f"{count} of {size}" for size, count in reversed(nodes))
        yield (
            f"cluster {cluster.name!r}: its nodes ({sizes} devices) have no room for "
            f"stages {listed}"
        )


def _nodes(cluster: Cluster) -> Free:
    if cluster.unequal is None:
        return ((cluster.devices_per_node, cluster.nodes),)
    return tuple(sorted(Counter(cluster.unequal).items()))


def _parts(nodes: Free, strategy: Strategy) -> list[int]:
    """Return what a large stage may have in each of its nodes."""
    return [
        size
        for size, _ in nodes
        if strategy.devices % size == 0
        and size % strategy.tp == 0
        and size % strategy.etp == 0
    ]


def _fit(nodes: Free, stages: Sequence[Strategy]) -> bool:
    """Search for a place for every stage, the largest first.

    Of nodes as good as each other one is tried; what failed once is not tried again.
    """
    order = sorted(stages, key=lambda strategy: -strategy.devices)
    open_ = [(0, nodes)]
    seen = set()
    while open_:
        depth, free = open_.pop()
        if depth == len(order):
            return True
        if (depth, free) in seen:
            continue
        seen.add((depth, free))
        # The last one is tried first: the fullest node.
        open_ += [(depth + 1, after) for after in _placed(nodes, free, order[depth])]
    return False


def _placed(nodes: Free, free: Free, strategy: Strategy) -> Iterator[Free]:
    """Yield what is free after one more stage, by where it is put."""
    devices = strategy.devices
    if devices <= nodes[-1][0]:
        for size, _ in reversed(free):
            if size >= devices:
                left = Counter(dict(free))
                left[size] -= 1
                left[size - devices] += 1
                yield _sorted(left)
        return
    # No node is shared yet: larger stages come first.
    for size in _parts(nodes, strategy):
        left = Counter(dict(free))
        wanted = devices // size
        for other, count in free:
            taken = min(wanted, count) if other >= size else 0
            left[other] -= taken
            wanted -= taken
        if not wanted:
            yield _sorted(left)


def _sorted(left: Counter[int]) -> Free:
    return tuple(sorted((size, n) for size, n in left.items() if n and size))
