"""Packs parts of nodes into nodes, in any order of the parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.problem.cluster.cluster import Cluster

    #: Node and first device of each part.
    Places = list[tuple[int, int]]


class Part(NamedTuple):
    """Devices to take from one node.

    Attributes
    ----------
    alone
        Whether no other part may have some of that node.
    pipeline
        That the part is of, which has no other part of that node; None: any may be in
        one node.
    """

    size: int
    alone: bool = False
    pipeline: int | None = None


class Room(NamedTuple):
    """The devices of a node that are left, of ``size``, and whose the others are."""

    left: int
    size: int
    pipelines: tuple[int, ...] = ()

    def after(self, part: Part) -> Room | None:
        """Return what is left after a part; None: it has no place here."""
        if part.size > self.left or part.pipeline in self.pipelines:
            return None
        if not part.alone:
            own = () if part.pipeline is None else (part.pipeline,)
            left = self.left - part.size
            return Room(left, self.size, tuple(sorted(self.pipelines + own)))
        return Room(0, self.size) if self.left == self.size else None


class Choice(NamedTuple):
    """Nodes chosen for the ``done`` first parts.

    Attributes
    ----------
    rooms
        What is left of each node.
    node
        The node of the last part.
    before
        The choice that this one extends.
    """

    done: int
    rooms: tuple[Room, ...]
    node: int = 0
    before: Choice | None = None


def node_parts(
    cluster: Cluster, wanted: Sequence[Sequence[int]]
) -> list[Places] | None:
    """Return the place of every part on a cluster's nodes; None if they do not fit.

    Parameters
    ----------
    wanted
        By pipeline, the devices of each part; a part lies in one node, and the parts of
        a pipeline in different ones.

    Returns
    -------
    The places of the parts by pipeline. Of the nodes with enough free devices, the
    fullest is tried first; of equally full nodes, the first.
    """
    parts = [
        (Part(size, pipeline=pipeline), pipeline, number)
        for pipeline, own in enumerate(wanted)
        for number, size in enumerate(own)
    ]
    parts.sort(key=lambda part: -part[0].size)
    choice = _chosen(cluster, [part for part, _, _ in parts])
    if choice is None:
        return None
    found: list[Places] = [[(0, 0)] * len(own) for own in wanted]
    while choice.before is not None:
        _, pipeline, number = parts[choice.done - 1]
        room = choice.before.rooms[choice.node]
        found[pipeline][number] = choice.node, room.size - room.left
        choice = choice.before
    return found


def nodes_of(cluster: Cluster, parts: Sequence[Part]) -> list[int] | None:
    """Return the node of every part, counted from 0; None if they do not fit."""
    order = sorted(
        range(len(parts)), key=lambda k: (parts[k].alone, parts[k].size), reverse=True
    )
    choice = _chosen(cluster, [parts[k] for k in order])
    if choice is None:
        return None
    found = [0] * len(parts)
    while choice.before is not None:
        found[order[choice.done - 1]] = choice.node
        choice = choice.before
    return found


def _chosen(cluster: Cluster, parts: Sequence[Part]) -> Choice | None:
    """Search for a node for each part; of nodes with equal room only one is tried."""
    sizes = cluster.unequal or (cluster.devices_per_node,) * cluster.nodes
    open_, seen = [Choice(0, tuple(Room(size, size) for size in sizes))], set()
    while open_:
        choice = open_.pop()
        if choice.done == len(parts):
            return choice
        key = choice.done, tuple(sorted(choice.rooms))
        if key in seen:
            continue
        seen.add(key)
        # The choice that is added last is tried first.
        for room in sorted(set(choice.rooms), reverse=True):
            after = room.after(parts[choice.done])
            if after is not None:
                node = choice.rooms.index(room)
                rooms = (*choice.rooms[:node], after, *choice.rooms[node + 1 :])
                open_.append(Choice(choice.done + 1, rooms, node, choice))
    return None
