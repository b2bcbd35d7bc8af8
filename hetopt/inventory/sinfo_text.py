"""``sinfo -h --Node -o "%N %t %G %c %m %P"``: one line per node and partition.

A header (without ``-h``) may name the columns in another order, below a date (``-l``);
without ``--Node`` a line is for a list of nodes. The generic resources may contain
spaces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.inventory.gres import parse_gres, slurm_node
from hetopt.inventory.hostlist import expand_hosts
from hetopt.inventory.states import excluding, is_state

if TYPE_CHECKING:
    from hetopt.inventory.node import Node
    from hetopt.inventory.source import Source

FORM = "sinfo"
COMMAND = 'sinfo -h --Node -o "%N %t %G %c %m %P"'
UNKNOWN: tuple[str, ...] = ()

_COLUMNS = ("NODELIST", "STATE", "GRES", "CPUS", "MEMORY", "PARTITION")
_NEEDED = ("NODELIST", "STATE", "GRES", "PARTITION")
#: Two of these words make a header.
_HEADINGS = frozenset({*_COLUMNS, "AVAIL", "HOSTNAMES", "NODES", "TIMELIMIT"})


def recognises(source: Source) -> bool:
    """Whether the first or second line is a header, or the first has a node's state."""
    if source.data is not None or not source.lines:
        return False
    if _start(source) is not None:
        return True
    words = source.lines[0][1].split()
    states = [is_state(word) and word[0].isalpha() for word in words]
    return len(words) > 2 and any(states) and "=" not in source.lines[0][1]


def read(source: Source) -> list[Node]:
    """Return the nodes, one per line and host; raises InputError."""
    columns: tuple[str, ...] = _COLUMNS
    nodes: list[Node] = []
    start = _start(source)
    for number, line in source.lines[start or 0 :]:
        words = line.split()
        if _is_header(words):
            columns = tuple(words)
            lacks = [name for name in _NEEDED if name not in columns]
            if lacks:
                msg = (
                    f"has the columns {', '.join(columns)} but not {', '.join(lacks)}, "
                    f"expected {', '.join(_NEEDED)}, as of {COMMAND}"
                )
                raise source.error(msg, line=number)
            continue
        known = start is not None or nodes or is_state(words[1])
        if len(words) < len(columns) or not known:
            msg = (
                f"has {counted(len(words), 'field')} ({' '.join(words)[:80]}), "
                f"expected {len(columns)} ({', '.join(columns)}), as of {COMMAND}"
            )
            raise source.error(msg, line=number)
        nodes += _nodes(source, number, words, columns)
    return nodes


def _start(source: Source) -> int | None:
    """Return the position of the header, if the first or second line is one."""
    heads = [_is_header(line.split()) for _, line in source.lines[:2]]
    return heads.index(True) if any(heads) else None


def _is_header(words: list[str]) -> bool:
    return len(_HEADINGS.intersection(words)) > 1


def _nodes(
    source: Source, number: int, words: list[str], columns: tuple[str, ...]
) -> list[Node]:
    fields = _fields(words, columns)
    devices = source.read(parse_gres, fields["GRES"], "GRES", number)
    hosts = source.read(expand_hosts, fields["NODELIST"], "NODELIST", number)
    return [
        slurm_node(
            source.host(host, line=number, field="NODELIST"),
            fields["PARTITION"].split(","),
            devices,
            used=(),
            states=excluding(fields["STATE"]),
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
