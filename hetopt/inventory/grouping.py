"""Group equal nodes of one partition or zone into clusters."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hetopt.inventory.naming import Match, match_accelerator
from hetopt.inventory.reading import merge_nodes
from hetopt.inventory.states import reason_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hetopt.inventory.node import Devices, Node, Reading

#: Such a node would be in two clusters at once, so the user must choose.
SEVERAL_KINDS = "with several kinds of accelerator, see the questions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A cluster, with the fields that an inventory gives.

    Attributes
    ----------
    name
        Name of the cluster, different from all others.
    match
        Its accelerator, or the question which one it is.
    devices
        Devices of each node.
    place
        The partition or zone of all its nodes, or None.
    also
        Each other partition or zone -> those of the nodes that belong to it, too.
    hosts
        In the inventory's order.
    optional
        Whether its nodes are left out unless the user chooses it.
    """

    name: str
    match: Match
    devices: Devices
    place: str | None
    also: dict[str, tuple[str, ...]]
    hosts: tuple[str, ...]
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Clusters, and the nodes that are in none.

    Attributes
    ----------
    readings
        Content of each file.
    nodes
        Number of hosts in all files.
    drafts
        The clusters, optional ones last.
    left_out
        Reason -> hosts.
    keepers
        Reason -> the states that have to be included to keep its hosts; a reason that
        no state gives is not there.
    remarks
        Remark -> hosts of clusters.
    """

    readings: tuple[Reading, ...]
    nodes: int
    drafts: tuple[Draft, ...]
    left_out: dict[str, tuple[str, ...]]
    keepers: dict[str, tuple[str, ...]]
    remarks: dict[str, tuple[str, ...]]


def group_nodes(
    readings: Sequence[Reading], include: frozenset[str] = frozenset()
) -> Inventory:
    """Return the clusters of some files' nodes.

    Parameters
    ----------
    include
        States in which a node is used, although it is not idle.
    """
    nodes = merge_nodes(node for reading in readings for node in reading.nodes)
    reasons = [(n.left_out or reason_of(n.states - include), n) for n in nodes]
    used = [node for reason, node in reasons if reason is None]
    whole = [node for node in used if len(node.devices) == 1]
    several = [node for node in used if len(node.devices) > 1]
    left_out = _grouped((reason, node.host) for reason, node in reasons)
    if several:
        left_out[SEVERAL_KINDS] = tuple(node.host for node in several)
    drafts = [
        *_drafts([(node.devices[0], node) for node in whole]),
        *_drafts([(kind, n) for n in several for kind in n.devices], optional=True),
    ]
    return Inventory(
        readings=tuple(readings),
        nodes=len(nodes),
        drafts=_named(drafts),
        left_out=left_out,
        keepers=_grouped(
            (None if node.left_out else reason, state)
            for reason, node in reasons
            for state in sorted(node.states - include)
        ),
        remarks=_grouped(
            (remark, node.host) for node in whole for remark in _remarks(node)
        ),
    )


def _remarks(node: Node) -> Iterator[str | None]:
    yield node.remark
    if node.states:
        yield f"included though {', '.join(sorted(node.states))}"


def _grouped(pairs: Iterable[tuple[str | None, str]]) -> dict[str, tuple[str, ...]]:
    """Return what belongs to each text, once; what belongs to None is left out."""
    found: dict[str, dict[str, None]] = {}
    for reason, each in pairs:
        if reason is not None:
            found.setdefault(reason, {})[each] = None
    return {reason: tuple(each) for reason, each in found.items()}


def _drafts(
    members: list[tuple[Devices, Node]], *, optional: bool = False
) -> Iterator[Draft]:
    """Yield clusters in the order of their first nodes, without their final names."""
    alike: dict[tuple[object, ...], list[tuple[Devices, Node]]] = {}
    for devices, node in members:
        match = match_accelerator(devices.label, devices.memory_bytes)
        unnamed = (devices.label, devices.memory_bytes)
        key = (match.accelerator or unnamed, devices.count)
        alike.setdefault(key, []).append((devices, node))
    for same in alike.values():
        devices = same[0][0]
        for place, nodes in _by_place([node for _, node in same]):
            yield Draft(
                name="",
                match=match_accelerator(devices.label, devices.memory_bytes),
                devices=devices,
                place=place,
                also=_grouped(
                    (each, n.host) for n in nodes for each in sorted(n.places - {place})
                ),
                hosts=tuple(node.host for node in nodes),
                optional=optional,
            )


def _by_place(nodes: list[Node]) -> Iterator[tuple[str | None, list[Node]]]:
    """Yield each place with its nodes; of several places the largest gets a node."""
    left = list(nodes)
    while left:
        sizes = Counter(place for node in left for place in node.places)
        place = min(sizes, key=lambda name: (-sizes[name], name), default=None)
        if place is None:
            yield None, left
            return
        yield place, [node for node in left if place in node.places]
        left = [node for node in left if place not in node.places]


def _named(drafts: list[Draft]) -> tuple[Draft, ...]:
    """Return the clusters with short names, made longer until they differ."""
    names = [_base(draft) for draft in drafts]
    for longer in (
        lambda draft: draft.place,
        lambda draft: f"x{draft.devices.count}",
    ):
        taken = Counter(names)
        names = [
            _slug(f"{name}-{longer(draft)}")
            if taken[name] > 1 and longer(draft)
            else name
            for name, draft in zip(names, drafts, strict=True)
        ]
    used: set[str] = set()
    result: list[Draft] = []
    for name, draft in zip(names, drafts, strict=True):
        unique, number = name, 2
        while unique in used:
            unique, number = f"{name}-{number}", number + 1
        used.add(unique)
        result.append(replace(draft, name=unique))
    return tuple(result)


def _base(draft: Draft) -> str:
    return _slug(draft.match.accelerator or draft.devices.label or "") or "devices"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
