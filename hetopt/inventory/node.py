"""A node as an inventory names it, whatever the inventory's format."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from hetopt.inventory.source import Source

#: Why a node is left out, where several formats say the same.
PARTLY_USED = "partly or wholly used"
NO_DEVICE = "without an accelerator"
DRAINED = "drained"
DOWN = "down"
NOT_READY = "not ready"
CORDONED = "cordoned"
MIG = "with devices cut into MIG partitions"
SHARED = "with devices shared by time slicing or MPS"
INCOMPLETE = "with devices that are there but not offered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """Accelerators of one kind in a node.

    Attributes
    ----------
    label
        What the inventory calls them; None where it does not say.
    count
        How many; None where the inventory does not say.
    memory_bytes
        Of one, as a driver reports it; None where the inventory does not say.
    """

    label: str | None
    count: int | None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node.

    Attributes
    ----------
    host
        Name or address.
    places
        Partitions or zones it belongs to; empty where the format has none.
    devices
        Its accelerators, kind by kind.
    left_out
        Why a plan cannot use it; None: it can.
    remark
        What else the user should know of it, or None.
    """

    host: str
    places: frozenset[str] = frozenset()
    devices: tuple[Devices, ...] = ()
    left_out: str | None = None
    remark: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one file says.

    Attributes
    ----------
    file, form
        Its name, and what kind of inventory it is.
    nodes
        In the file's order, each host once.
    unknown
        What this kind of inventory never says, for the user to check.
    """

    file: str
    form: str
    nodes: tuple[Node, ...]
    unknown: tuple[str, ...] = field(default=())


class InventoryFormat(Protocol):
    """A kind of inventory; the modules of this package that read one fit it."""

    @property
    def FORM(self) -> str:
        """What the user calls it."""

    @property
    def UNKNOWN(self) -> tuple[str, ...]:
        """What this kind of inventory never says."""

    def recognises(self, source: Source) -> bool:
        """Whether the file is of this kind; it may still be malformed."""

    def read(self, source: Source) -> list[Node]:
        """Return its nodes, a host perhaps several times; raises InputError."""
