"""Stages put into nodes one by one: what packing has to find, the slow way."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.problem.cluster.cluster import Cluster

    #: Devices and tp of a stage.
    Need = tuple[int, int]


def sizes_of(cluster: Cluster) -> tuple[int, ...]:
    """Devices of every node."""
    return cluster.unequal or (cluster.devices_per_node,) * cluster.nodes


def room(cluster: Cluster, devices: int, tp: int) -> int:
    """Stages of one strategy that the nodes hold."""
    nodes = sizes_of(cluster)
    if devices <= max(nodes):
        count = 0
        for left in nodes:
            while left >= devices:
                count, left = count + 1, left - devices
        return count
    most = 0
    for size in set(nodes):
        if devices % size == 0 and size % tp == 0:
            able = [other for other in nodes if other >= size]
            most = max(most, len(able) // (devices // size))
    return most


def fits(
    cluster: Cluster, stages: Sequence[Need], within: Sequence[int] | None = None
) -> bool:
    """Whether the stages find a place, those of several nodes alone in theirs.

    Parameters
    ----------
    within
        Devices of the nodes that may be used; None: all.
    """
    nodes = sizes_of(cluster)
    needs = tuple(sorted(stages, reverse=True))
    free = nodes if within is None else within
    return _placed(nodes, max(nodes), tuple(sorted(free)), needs)


@cache
def _placed(
    nodes: tuple[int, ...], largest: int, free: tuple[int, ...], needs: tuple[Need, ...]
) -> bool:
    if not needs:
        return True
    (devices, tp), rest = needs[0], needs[1:]
    if devices <= largest:
        tried = (
            tuple(sorted((*free[:i], left - devices, *free[i + 1 :])))
            for i, left in enumerate(free)
            if left >= devices
        )
        return any(_placed(nodes, largest, after, rest) for after in tried)
    for size in set(nodes):
        if devices % size == 0 and size % tp == 0:
            count = devices // size
            able = [left for left in free if left >= size]
            if len(able) >= count:
                after = list(free)
                for left in able[:count]:
                    after.remove(left)
                if _placed(nodes, largest, tuple(after), rest):
                    return True
    return False
