"""``sinfo -h --Node -o "%N %t %G %c %m %P"``: one line per node and partition.

A header (without ``-h``) may name the columns in another order; without ``--Node``
a line is for a list of nodes. The generic resources may contain spaces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.inventory.gres import parse_gres, slurm_node
from hetopt.inventory.hostlist import expand_hosts
from hetopt.inventory.slurm_state import is_state, reason_to_leave_out

if TYPE_CHECKING:
    from hetopt.inventory.node import Node
    from hetopt.inventory.source import Source

FORM = "sinfo"
COMMAND = 'sinfo -h --Node -o "%N %t %G %c %m %P"'
UNKNOWN: tuple[str, ...] = ()

_COLUMNS = ("NODELIST", "STATE", "GRES", "CPUS", "MEMORY", "PARTITION")
_NEEDED = ("NODELIST", "STATE", "GRES", "PARTITION")


def recognises(source: Source) -> bool:
    """Whether the first line is a header, or its second field a node's state."""
    if source.data is not None or not source.lines:
        return False
    words = source.lines[0][1].split()
    if _is_header(words):
        return True
    return len(words) > 2 and is_state(words[1]) and "=" not in words[2]


def read(source: Source) -> list[Node]:
    """Return the nodes, one per line and host; raises InputError."""
    columns: tuple[str, ...] = _COLUMNS
    nodes: list[Node] = []
    for number, line in source.lines:
        words = line.split()
        if _is_header(words):
            columns = tuple(words)
            for name in _NEEDED:
                if name not in columns:
                    msg = f"has no column {name}, expected those of {COMMAND}"
                    raise source.error(msg, line=number)
            continue
        nodes += _nodes(source, number, words, columns)
    return nodes


def _is_header(words: list[str]) -> bool:
    return {"NODELIST", "STATE"} <= set(words)


def _nodes(
    source: Source, number: int, words: list[str], columns: tuple[str, ...]
) -> list[Node]:
    if len(words) < len(columns):
        msg = (
            f"has {counted(len(words), 'field')}, expected {len(columns)} "
            f"({', '.join(columns)}), as of {COMMAND}"
        )
        raise source.error(msg, line=number)
    fields = _fields(words, columns)
    try:
        devices = parse_gres(fields["GRES"])
    except ValueError as error:
        raise source.error(str(error), line=number, field="GRES") from None
    try:
        hosts = expand_hosts(fields["NODELIST"])
    except ValueError as error:
        raise source.error(str(error), line=number, field="NODELIST") from None
    return [
        slurm_node(
            source.host(host, line=number, field="NODELIST"),
            fields["PARTITION"].split(","),
            devices,
            used=(),
            left_out=reason_to_leave_out(fields["STATE"]),
        )
        for host in hosts
    ]


def _fields(words: list[str], columns: tuple[str, ...]) -> dict[str, str]:
    """Return fields by column; extra words belong to GRES."""
    gres = columns.index("GRES")
    extra = len(words) - len(columns)
    middle = " ".join(words[gres : gres + extra + 1])
    joined = [*words[:gres], middle, *words[gres + extra + 1 :]]
    return dict(zip(columns, joined, strict=True))
