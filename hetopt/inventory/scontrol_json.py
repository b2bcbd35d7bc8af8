"""``scontrol show nodes --json`` (and ``sinfo --json`` before Slurm 23.02).

``state`` is a text with ``state_flags`` beside it before Slurm 23.02, and a list since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field

from hetopt.inventory.gres import parse_gres, parse_tres, slurm_node, typed
from hetopt.inventory.source import Lenient, parse
from hetopt.inventory.states import excluding

if TYPE_CHECKING:
    from hetopt.inventory.node import Node
    from hetopt.inventory.source import Source

FORM = "scontrol show nodes --json"
UNKNOWN: tuple[str, ...] = ()


class _Node(Lenient):
    name: str
    state: list[str] | str
    state_flags: list[str] = Field(default_factory=list)
    partitions: list[str] = Field(default_factory=list)
    gres: str | None
    gres_used: str | None = None
    tres: str | None = None
    tres_used: str | None = None


class _Document(Lenient):
    nodes: list[_Node]


def recognises(source: Source) -> bool:
    """Whether the file is an object with ``nodes``."""
    data: Any = source.data
    return isinstance(data, dict) and "nodes" in data and "sinfo" not in data


def read(source: Source) -> list[Node]:
    """Return the nodes; raises InputError."""
    document = parse(_Document, source, source.data)
    return [_node(source, index, node) for index, node in enumerate(document.nodes)]


def _node(source: Source, index: int, node: _Node) -> Node:
    states = [node.state] if isinstance(node.state, str) else node.state
    field = f"nodes.{index}"
    gres, gres_used = (
        source.read(parse_gres, getattr(node, name), f"{field}.{name}")
        for name in ("gres", "gres_used")
    )
    tres, tres_used = (
        source.read(parse_tres, getattr(node, name), f"{field}.{name}")
        for name in ("tres", "tres_used")
    )
    return slurm_node(
        source.host(node.name, field=f"{field}.name"),
        node.partitions,
        typed(gres, tres),
        gres_used or tres_used,
        states=excluding(*states, *node.state_flags),
    )
