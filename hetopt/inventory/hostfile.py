"""Hostfiles: a host per line, with fields for the launcher.

``host slots=8`` (DeepSpeed, Open MPI), ``10.0.0.1 slots=8 type=A800`` (FlagScale),
``host:8`` (MPICH) or ``host`` alone (torchrun, pdsh), without a number of devices.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hetopt.inventory.fields import read_fields
from hetopt.inventory.hostlist import expand_hosts
from hetopt.inventory.node import NO_DEVICE, Devices, Node
from hetopt.problem.cluster.cluster import host_fault

if TYPE_CHECKING:
    from hetopt.inventory.source import Source

FORM = "hostfile"
UNKNOWN = ("whether the hosts are up and free",)

_KNOWN = frozenset({"slots", "max_slots", "max-slots", "type"})
_MPICH = re.compile(r"([^:\s]+):(\d+)", re.ASCII)
_COUNT = re.compile(r"\d{1,6}", re.ASCII)
_EQUALS = re.compile(r"\s*=\s*")


def recognises(source: Source) -> bool:
    """Whether the first line is a host, alone or followed by ``key=value``."""
    if source.data is not None or not source.lines:
        return False
    words = _words(source.lines[0][1])
    try:
        hosts = expand_hosts(_host_and_slots(words[0])[0])
    except ValueError:
        return False
    return host_fault(hosts[0]) is None and all("=" in word for word in words[1:2])


def read(source: Source) -> list[Node]:
    """Return the nodes; raises InputError."""
    nodes: list[Node] = []
    lines: dict[str, int] = {}
    for number, line in source.lines:
        for node in _nodes(source, number, _words(line)):
            repeated = lines.setdefault(node.host, number) != number
            if repeated and node.devices[0].count is not None:
                msg = f"is {node.host!r} again, first on line {lines[node.host]}"
                raise source.error(msg, line=number, field="host")
            if not repeated:
                nodes.append(node)
    return nodes


def _words(line: str) -> list[str]:
    return _EQUALS.sub("=", re.sub(r"\s#.*", "", line)).split()


def _host_and_slots(word: str) -> tuple[str, str | None]:
    match = _MPICH.fullmatch(word)
    return (match[1], match[2]) if match else (word, None)


def _nodes(source: Source, number: int, words: list[str]) -> list[Node]:
    name, slots = _host_and_slots(words[0])
    fields = read_fields(words[1:])
    if len(words) > 1 and "=" not in words[1]:
        msg = f"is {words[1]!r}, expected slots=8 or type=A800"
        raise source.error(msg, line=number, field=name)
    for key in fields:
        if key not in _KNOWN:
            msg = f"is not known, expected {', '.join(sorted(_KNOWN))}"
            raise source.error(msg, line=number, field=key)
    slots = fields.get("slots", slots)
    if slots is not None and not _COUNT.fullmatch(slots):
        msg = f"is {slots!r}, expected a number of devices"
        raise source.error(msg, line=number, field="slots")
    label = fields.get("type", "").strip("\"'") or None
    count = None if slots is None else int(slots)
    try:
        hosts = expand_hosts(name)
    except ValueError as error:
        raise source.error(str(error), line=number, field="host") from None
    return [
        Node(
            host=source.host(host, line=number),
            devices=(Devices(label=label, count=count),),
            left_out=NO_DEVICE if count == 0 else None,
        )
        for host in hosts
    ]
