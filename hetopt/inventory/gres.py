"""Slurm's generic resources (GRES and TRES): which of them are accelerators.

``gpu:a100:4(S:0-1)`` are four devices of a type, ``gpu:2`` two without a type,
``gpu:a100:1(IDX:0)`` one that a job uses, and ``cpu=64,gres/gpu:a100=4`` four as TRES.
``shard`` and ``mps`` are the same devices under other names and are not counted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hetopt.inventory.node import MIG, NO_DEVICE, Devices, Node
from hetopt.inventory.states import USED

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Names of GRES that are accelerators.
ACCELERATORS = frozenset({"gpu", "npu", "dcu", "mlu", "hpu", "xpu"})

_NOTES = re.compile(r"\([^()]*\)")
_COUNT = re.compile(r"\d{1,6}", re.ASCII)
#: MIG profiles: 1g.10gb, a100_3g.40gb, nvidia_a100_1g.5gb+me.
MIG_PROFILE = re.compile(r"(?:^|[^0-9a-z])\d+g\.\d+gb", re.ASCII | re.IGNORECASE)


def parse_gres(text: str | None) -> tuple[Devices, ...]:
    """Return the accelerators of a node's GRES, kinds with a count of 0 left out.

    Raises
    ------
    ValueError
        An accelerator's entry is not ``name[:type][:count]``.
    """
    found: dict[str | None, int] = {}
    for item in _NOTES.sub("", text or "").split(","):
        name, *rest = item.strip().removeprefix("gres:").split(":")
        if name not in ACCELERATORS:
            continue
        rest = [part.strip() for part in rest if part.strip() != "no_consume"]
        count = 1
        if rest and _COUNT.fullmatch(rest[-1]):
            count = int(rest.pop())
        if len(rest) > 1:
            msg = f"is {text!r}, expected entries such as gpu:a100:4"
            raise ValueError(msg)
        # Of "gpu:(null):4" the type was left out above.
        label = (rest[0] or None) if rest else None
        found[label] = found.get(label, 0) + count
    return _devices(found)


def parse_tres(text: str | None) -> tuple[Devices, ...]:
    """Return the accelerators of a TRES list; typed entries replace the untyped one."""
    found: dict[str | None, int] = {}
    for item in (text or "").split(","):
        name, _, amount = item.strip().partition("=")
        kind, _, label = name.removeprefix("gres/").partition(":")
        if name.startswith("gres/") and kind in ACCELERATORS:
            if not _COUNT.fullmatch(amount):
                msg = f"is {text!r}, expected entries such as gres/gpu:a100=4"
                raise ValueError(msg)
            found[label or None] = found.get(label or None, 0) + int(amount)
    if len(found) > 1:
        found.pop(None, None)
    return _devices(found)


def _devices(found: dict[str | None, int]) -> tuple[Devices, ...]:
    return tuple(
        Devices(label=label, count=count) for label, count in found.items() if count
    )


def typed(gres: tuple[Devices, ...], tres: tuple[Devices, ...]) -> tuple[Devices, ...]:
    """Return the devices of GRES; those of TRES if GRES has none, or no types."""
    if not gres:
        return tres
    bare = all(item.label is None for item in gres)
    known = all(item.label is not None for item in tres)
    same = _total(gres) == _total(tres)
    return tres if bare and known and same and tres else gres


def _total(devices: tuple[Devices, ...]) -> int:
    return sum(item.count or 0 for item in devices)


def slurm_node(
    host: str,
    places: Iterable[str],
    devices: tuple[Devices, ...],
    used: tuple[Devices, ...],
    states: frozenset[str],
) -> Node:
    """Return a node of Slurm, left out if its devices cannot be used."""
    cut = any(item.label and MIG_PROFILE.search(item.label) for item in devices)
    if _total(used) and not states & USED:
        states |= {"allocated" if _total(used) == _total(devices) else "mixed"}
    return Node(
        host=host,
        # sinfo marks the default partition.
        places=frozenset(place.rstrip("*") for place in places if place.rstrip("*")),
        devices=devices,
        states=states,
        left_out=NO_DEVICE if not devices else MIG if cut else None,
    )
