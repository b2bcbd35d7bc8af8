"""Read an inventory of any kind, which is recognised by its content."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.inventory import (
    hostfile,
    kubernetes,
    ray_nodes,
    scontrol_json,
    scontrol_text,
    sinfo_json,
    sinfo_text,
)
from hetopt.inventory.node import Devices, InventoryFormat, Node, Reading
from hetopt.inventory.source import Source, load_source

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Formats in the order they are tried; the first that recognises a file reads it.
FORMATS: tuple[InventoryFormat, ...] = (
    sinfo_json,
    scontrol_json,
    kubernetes,
    ray_nodes,
    scontrol_text,
    sinfo_text,
    hostfile,
)

DISAGREEMENT = "with contradictory entries"


def read_inventory(path: str) -> Reading:
    """Read the inventory in a file.

    Raises
    ------
    InputError
        It is no inventory that hetopt knows, or is malformed; with line or field.
    """
    return read_source(load_source(path))


def read_source(source: Source) -> Reading:
    """Read a file's content; see ``read_inventory``."""
    for form in FORMATS:
        if form.recognises(source):
            nodes = merge_nodes(form.read(source))
            if not nodes:
                raise source.error(f"holds no node ({form.FORM})")
            return Reading(
                file=source.file, form=form.FORM, nodes=nodes, unknown=form.UNKNOWN
            )
    known = ", ".join(form.FORM for form in FORMATS)
    line = source.lines[0][0] if source.lines and source.data is None else None
    msg = f"is no inventory that hetopt knows, expected the output of one of: {known}"
    raise source.error(msg, line=line)


def merge_nodes(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Return each host once, with all its places and states, and the first reason.

    A host is listed once per partition, and perhaps in several files.
    """
    merged: dict[str, Node] = {}
    for node in nodes:
        known = merged.get(node.host)
        merged[node.host] = node if known is None else _merged(known, node)
    return tuple(merged.values())


def _merged(first: Node, second: Node) -> Node:
    devices = _fuller(first.devices, second.devices)
    left_out = first.left_out or second.left_out
    if devices is None:
        left_out = left_out or DISAGREEMENT
    return replace(
        first,
        places=first.places | second.places,
        states=first.states | second.states,
        devices=first.devices if devices is None else devices,
        left_out=left_out,
        remark=first.remark or second.remark,
    )


def _fuller(
    first: tuple[Devices, ...], second: tuple[Devices, ...]
) -> tuple[Devices, ...] | None:
    """Return devices with what either of both tells; None if they contradict."""
    if first == second:
        return first
    if len(first) != 1 or len(second) != 1:
        return None
    a, b = first[0], second[0]
    pairs = (
        (a.label, b.label),
        (a.count, b.count),
        (a.memory_bytes, b.memory_bytes),
    )
    if any(None not in pair and pair[0] != pair[1] for pair in pairs):
        return None
    return (
        Devices(
            label=a.label or b.label,
            count=b.count if a.count is None else a.count,
            memory_bytes=a.memory_bytes or b.memory_bytes,
        ),
    )
