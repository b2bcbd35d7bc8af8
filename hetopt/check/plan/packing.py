"""Whether stages fit into a cluster's nodes, counted from the nodes alone.

A stage of no more devices than the largest node lies in one node; a larger one takes
as many devices, the size of some node, from each of several nodes of its own.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hetopt.base.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.plans.strategy import Strategy
    from hetopt.problem.cluster.cluster import Cluster

    #: Number of free devices of a node and how many nodes have it, ascending.
    Free = tuple[tuple[int, int], ...]


def most_stages(cluster: Cluster, strategy: Strategy) -> int:
    """Return the largest number of stages of one strategy that the nodes hold."""
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


def part_of(cluster: Cluster, strategy: Strategy) -> int:
    """Return how many devices a stage of several nodes has in each of them.

    The part that lets the most such stages into the cluster; of equally good ones, the
    largest.
    """
    free = _nodes(cluster)
    rooms = {
        size: sum(count for other, count in free if other >= size) * size
        for size in _parts(free, strategy)
    }
    return max(
        rooms,
        key=lambda size: (rooms[size] // strategy.devices, size),
        default=free[-1][0],
    )


def cut(cluster: Cluster, shares: Sequence[Sequence[int]]) -> bool:
    """Whether parts can be cut from the nodes, those of a share from different nodes.

    Parameters
    ----------
    shares
        The sizes of each share's parts.
    """
    parts = sorted((size, owner) for owner, own in enumerate(shares) for size in own)
    whole = tuple((size, ()) for size, count in _nodes(cluster) for _ in range(count))
    open_: list[tuple[int, tuple[tuple[int, tuple[int, ...]], ...]]]
    open_, seen = [(len(parts), whole)], set()
    while open_:
        left, nodes = open_.pop()
        if not left:
            return True
        if (left, nodes) in seen:
            continue
        seen.add((left, nodes))
        size, owner = parts[left - 1]
        for node in set(nodes):
            free, owners = node
            if free >= size and owner not in owners:
                after = list(nodes)
                after[after.index(node)] = free - size, tuple(sorted((*owners, owner)))
                open_.append((left - 1, tuple(sorted(after))))
    return False


def packing_findings(cluster: Cluster, stages: Sequence[Strategy]) -> Iterator[str]:
    """Yield why the stages of a cluster do not fit into its nodes together.

    A stage that does not even fit alone is reported by ``mesh_findings``.
    """
    devices = sum(strategy.devices for strategy in stages)
    nodes = _nodes(cluster)
    there_are = sum(size * count for size, count in nodes)
    if devices > there_are:
        yield (
            f"cluster {cluster.name!r}: stages take {counted(devices, 'device')}, it "
            f"has {there_are}"
        )
        return
    if not all(most_stages(cluster, strategy) for strategy in set(stages)):
        return
    if not _fit(nodes, stages):
        counts = Counter(strategy.devices for strategy in stages)
        listed = " and ".join(
            f"{count} of {counted(own, 'device')}"
            for own, count in sorted(counts.items())
        )
        sizes = ", ".join(f"{count} of {size}" for size, count in reversed(nodes))
        yield (
            f"cluster {cluster.name!r}: its nodes ({sizes} devices) cannot hold "
            f"stages: {listed}"
        )


def _nodes(cluster: Cluster) -> Free:
    if cluster.unequal is None:
        return ((cluster.devices_per_node, cluster.nodes),)
    return tuple(sorted(Counter(cluster.unequal).items()))


def _parts(nodes: Free, strategy: Strategy) -> list[int]:
    """Return how many devices a large stage may have in each of its nodes."""
    return [
        size
        for size, _ in nodes
        if strategy.devices % size == 0
        and size % strategy.tp == 0
        and size % strategy.etp == 0
    ]


def _fit(nodes: Free, stages: Sequence[Strategy]) -> bool:
    """Whether all stages find a place, by a search that places the largest first.

    Of nodes with equally many free devices one is tried; no state is visited twice.
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
        # The last entry is tried first: the fullest node.
        open_ += [(depth + 1, after) for after in _placed(nodes, free, order[depth])]
    return False


def _placed(nodes: Free, free: Free, strategy: Strategy) -> Iterator[Free]:
    """Yield the free devices after one more stage, for each place it may take."""
    devices = strategy.devices
    if devices <= nodes[-1][0]:
        for size, _ in reversed(free):
            if size >= devices:
                left = Counter(dict(free))
                left[size] -= 1
                left[size - devices] += 1
                yield _sorted(left)
        return
    # Nodes are still whole, as larger stages are placed first.
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
