"""Packs parts of nodes into nodes, in any order of the parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.problem.cluster.cluster import Cluster

    #: Node and first device of each part.
    Places = list[tuple[int, int]]


class Part(NamedTuple):
    """Devices to take from one node; ``alone``: from one that no other part has."""

    size: int
    alone: bool = False


class Choice(NamedTuple):
    """Nodes chosen for the ``done`` first parts.

    Attributes
    ----------
    free
        Devices left in each node.
    node
        The node of the last part.
    before
        The choice that this one extends.
    """

    done: int
    free: tuple[int, ...]
    node: int = 0
    before: Choice | None = None


def node_parts(
    cluster: Cluster, wanted: Sequence[Sequence[int]]
) -> list[Places] | None:
    """Return the place of every part on a cluster's nodes; None if they do not fit.

    Parameters
    ----------
    wanted
        By pipeline, the devices of each part; a part lies in one node.

    Returns
    -------
    The places of the parts by pipeline. Of the nodes with enough free devices, the
    fullest is tried first; of equally full nodes, the first.
    """
    parts = [
        (Part(size), pipeline, number)
        for pipeline, own in enumerate(wanted)
        for number, size in enumerate(own)
    ]
    parts.sort(key=lambda part: -part[0].size)
    sizes = _sizes(cluster)
    choice = _chosen([part for part, _, _ in parts], sizes)
    if choice is None:
        return None
    found: list[Places] = [[(0, 0)] * len(own) for own in wanted]
    while choice.before is not None:
        _, pipeline, number = parts[choice.done - 1]
        first = sizes[choice.node] - choice.before.free[choice.node]
        found[pipeline][number] = choice.node, first
        choice = choice.before
    return found


def nodes_of(cluster: Cluster, parts: Sequence[Part]) -> list[int] | None:
    """Return the node of every part, counted from 0; None if they do not fit."""
    order = sorted(
        range(len(parts)), key=lambda k: (parts[k].alone, parts[k].size), reverse=True
    )
    choice = _chosen([parts[k] for k in order], _sizes(cluster))
    if choice is None:
        return None
    found = [0] * len(parts)
    while choice.before is not None:
        found[order[choice.done - 1]] = choice.node
        choice = choice.before
    return found


def _sizes(cluster: Cluster) -> tuple[int, ...]:
    return cluster.unequal or (cluster.devices_per_node,) * cluster.nodes


def _chosen(parts: Sequence[Part], sizes: tuple[int, ...]) -> Choice | None:
    """Search for a node for each part; of equally full nodes only one is tried."""
    open_, seen = [Choice(0, sizes)], set()
    while open_:
        choice = open_.pop()
        if choice.done == len(parts):
            return choice
        rooms = sorted(zip(choice.free, sizes, strict=True))
        key = choice.done, tuple(rooms)
        if key in seen:
            continue
        seen.add(key)
        part = parts[choice.done]
        able = {
            (left, size)
            for left, size in rooms
            if left >= part.size and (left == size or not part.alone)
        }
        # The choice that is added last is tried first.
        for left, size in sorted(able, reverse=True):
            node = _first(choice.free, sizes, (left, size))
            after = 0 if part.alone else left - part.size
            free = (*choice.free[:node], after, *choice.free[node + 1 :])
            open_.append(Choice(choice.done + 1, free, node, choice))
    return None


def _first(free: Sequence[int], sizes: Sequence[int], room: tuple[int, int]) -> int:
    """Return the first node of this size with this many devices left."""
    return next(k for k, own in enumerate(zip(free, sizes, strict=True)) if own == room)
