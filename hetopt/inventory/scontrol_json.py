"""``scontrol show nodes --json`` (and ``sinfo --json`` before Slurm 23.02).

``state`` is a text with ``state_flags`` beside it before Slurm 23.02, and a list since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    state_flags: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
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
    try:
        devices = typed(parse_gres(node.gres), parse_tres(node.tres))
        used = parse_gres(node.gres_used) or parse_tres(node.tres_used)
    except ValueError as error:
        raise source.error(str(error), field=f"nodes.{index}.gres") from None
    return slurm_node(
        source.host(node.name, field=f"nodes.{index}.name"),
        node.partitions,
        devices,
        used,
        states=excluding(*states, *node.state_flags),
    )
