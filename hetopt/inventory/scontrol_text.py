"""``scontrol show node``: records of ``Key=value``, on many lines each or (-o) on one.

Devices in use are in ``GresUsed`` (with ``-d``) or ``AllocTRES``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.inventory.fields import read_fields
from hetopt.inventory.gres import parse_gres, parse_tres, slurm_node, typed
from hetopt.inventory.states import excluding

if TYPE_CHECKING:
    from hetopt.inventory.node import Node
    from hetopt.inventory.source import Source

FORM = "scontrol show node"
UNKNOWN: tuple[str, ...] = ()

#: Fields of free text, which come last in a record and may look like other fields.
_FREE_TEXT = frozenset({"Reason", "Comment", "Extra"})


def recognises(source: Source) -> bool:
    """Whether the first line begins with ``NodeName=``."""
    lines = source.lines if source.data is None else []
    return bool(lines) and lines[0][1].startswith("NodeName=")


def read(source: Source) -> list[Node]:
    """Return the nodes; raises InputError."""
    records: list[tuple[int, list[str]]] = []
    for number, line in source.lines:
        if line.startswith("NodeName="):
            records.append((number, []))
        records[-1][1].extend(line.split())
    return [_node(source, number, words) for number, words in records]


def _node(source: Source, number: int, words: list[str]) -> Node:
    fields = read_fields(words, _FREE_TEXT)
    for key in ("NodeName", "State"):
        if not fields.get(key):
            raise source.error("is missing from the node", line=number, field=key)
    if "Gres" not in fields and "CfgTRES" not in fields:
        msg = "is missing from the node, and so is CfgTRES"
        raise source.error(msg, line=number, field="Gres")
    gres, gres_used = (
        source.read(parse_gres, fields.get(name), name, number)
        for name in ("Gres", "GresUsed")
    )
    tres, tres_used = (
        source.read(parse_tres, fields.get(name), name, number)
        for name in ("CfgTRES", "AllocTRES")
    )
    return slurm_node(
        source.host(fields["NodeName"], line=number, field="NodeName"),
        fields.get("Partitions", "").split(","),
        typed(gres, tres),
        gres_used or tres_used,
        states=excluding(fields["State"]),
    )
