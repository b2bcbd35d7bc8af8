"""Chooses the nodes from which pipelines side by side get their parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.problem.cluster.cluster import Cluster

    #: Node and first device of each part.
    Places = list[tuple[int, int]]


class Choice(NamedTuple):
    """Nodes chosen for the ``done`` largest parts.

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
        (size, pipeline, number)
        for pipeline, own in enumerate(wanted)
        for number, size in enumerate(own)
    ]
    parts.sort(key=lambda part: -part[0])
    sizes = cluster.unequal or (cluster.devices_per_node,) * cluster.nodes
    choice = _chosen([size for size, _, _ in parts], sizes)
    if choice is None:
        return None
    found: list[Places] = [[(0, 0)] * len(own) for own in wanted]
    while choice.before is not None:
        _, pipeline, number = parts[choice.done - 1]
        first = sizes[choice.node] - choice.before.free[choice.node]
        found[pipeline][number] = choice.node, first
        choice = choice.before
    return found


def _chosen(parts: Sequence[int], sizes: tuple[int, ...]) -> Choice | None:
    """Search for a node for each part; of equally full nodes only one is tried."""
    open_, seen = [Choice(0, sizes)], set()
    while open_:
        choice = open_.pop()
        if choice.done == len(parts):
            return choice
        key = choice.done, tuple(sorted(choice.free))
        if key in seen:
            continue
        seen.add(key)
        size = parts[choice.done]
        # The choice that is added last is tried first.
        for left in sorted(
            {free for free in choice.free if free >= size}, reverse=True
        ):
            node = choice.free.index(left)
            free = (*choice.free[:node], left - size, *choice.free[node + 1 :])
            open_.append(Choice(choice.done + 1, free, node, choice))
    return None
