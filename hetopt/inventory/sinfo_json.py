"""``sinfo --json`` from Slurm 23.02: rows of equal nodes.

Older versions print ``nodes`` like ``scontrol show nodes --json``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.inventory.gres import parse_gres, slurm_node
from hetopt.inventory.hostlist import expand_hosts
from hetopt.inventory.source import Lenient, parse
from hetopt.inventory.states import excluding

if TYPE_CHECKING:
    from hetopt.inventory.node import Node
    from hetopt.inventory.source import Source

FORM = "sinfo --json"
UNKNOWN: tuple[str, ...] = ()


class _Partition(Lenient):
    name: str


class _State(Lenient):
    state: list[str] | str


class _Names(Lenient):
    nodes: list[str]


class _Gres(Lenient):
    total: str | None = None
    used: str | None = None


class _Row(Lenient):
    partition: _Partition
    node: _State
    nodes: _Names
    gres: _Gres = _Gres()


class _Document(Lenient):
    sinfo: list[_Row]


def recognises(source: Source) -> bool:
    """Whether the file is an object with a list ``sinfo``."""
    return isinstance(source.data, dict) and "sinfo" in source.data


def read(source: Source) -> list[Node]:
    """Return the nodes, one per row and host; raises InputError."""
    nodes: list[Node] = []
    for index, row in enumerate(parse(_Document, source, source.data).sinfo):
        field = f"sinfo.{index}"
        states = [row.node.state] if isinstance(row.node.state, str) else row.node.state
        devices = source.read(parse_gres, row.gres.total, f"{field}.gres.total")
        used = source.read(parse_gres, row.gres.used, f"{field}.gres.used")
        hosts = [
            host
            for name in row.nodes.nodes
            for host in source.read(expand_hosts, name, f"{field}.nodes.nodes")
        ]
        nodes += [
            slurm_node(
                source.host(host, field=f"{field}.nodes.nodes"),
                [row.partition.name],
                devices,
                used,
                states=excluding(*states),
            )
            for host in hosts
        ]
    return nodes
