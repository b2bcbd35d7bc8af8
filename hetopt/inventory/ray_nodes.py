"""``json.dumps(ray.nodes())``: a list of objects with ``Alive`` and ``Resources``.

Ray counts accelerators under one name per maker and gives their type as a further
resource, ``accelerator_type:H200``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from hetopt.inventory.gres import MIG_PROFILE
from hetopt.inventory.node import DOWN, MIG, NO_DEVICE, SHARED, Devices, Node
from hetopt.inventory.source import Lenient, parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.inventory.source import Source

FORM = "ray.nodes()"
UNKNOWN = ("which devices running jobs use",)

#: Ray's resource names ("Accelerator Support" in Ray's documentation).
_COUNTED = ("GPU", "NPU", "HPU", "TPU", "RBLN")
_TYPE = "accelerator_type:"
#: Labels from Ray 2.49 on, the finer first.
_PLACES = ("ray.io/availability-zone", "ray.io/availability-region")
_ADDRESS = "nodes.{}.NodeManagerAddress"


class _Node(Lenient):
    Alive: bool
    NodeManagerAddress: str
    Resources: dict[str, float] = Field(default_factory=dict)
    Labels: dict[str, str] = Field(default_factory=dict)


class _Document(Lenient):
    nodes: list[_Node]


def recognises(source: Source) -> bool:
    """Whether the file is a list of objects with Ray's keys."""
    data = source.data
    return isinstance(data, list) and all(
        isinstance(item, dict) and ("NodeManagerAddress" in item or "NodeID" in item)
        for item in data
    )


def read(source: Source) -> list[Node]:
    """Return the nodes; raises InputError."""
    document = parse(_Document, source, {"nodes": source.data})
    # Ray keeps a lost node in its list when the same machine joins again.
    alive = {node.NodeManagerAddress for node in document.nodes if node.Alive}
    return [
        _node(source.host(node.NodeManagerAddress, field=_ADDRESS.format(number)), node)
        for number, node in enumerate(document.nodes)
        if node.Alive or node.NodeManagerAddress not in alive
    ]


def _node(host: str, node: _Node) -> Node:
    counts = [node.Resources[name] for name in _COUNTED if node.Resources.get(name)]
    devices, left_out = _devices(counts, node.Resources)
    if not node.Alive:
        # Ray reports no resources of a node it has lost.
        left_out = DOWN
    return Node(
        host=host,
        places=frozenset(
            [node.Labels[name] for name in _PLACES if node.Labels.get(name)][:1]
        ),
        devices=devices,
        left_out=left_out,
    )


def _devices(
    counts: list[float], resources: Mapping[str, float]
) -> tuple[tuple[Devices, ...], str | None]:
    """Return the devices, and why they cannot be used or None."""
    labels = [name.removeprefix(_TYPE) for name in resources if name.startswith(_TYPE)]
    if not counts:
        return (), NO_DEVICE
    if any(count != int(count) for count in counts):
        return (), SHARED
    if any(MIG_PROFILE.search(label) for label in labels):
        return (), MIG
    if len(labels) == len(counts) == 1:
        return (Devices(label=labels[0], count=int(counts[0])),), None
    if not labels:
        return tuple(Devices(label=None, count=int(count)) for count in counts), None
    # Ray does not tell how many devices there are of each type.
    return tuple(Devices(label=label, count=None) for label in labels), None
