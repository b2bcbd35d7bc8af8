"""A node of an inventory of any format."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from hetopt.inventory.source import Source

#: Reasons to leave a node out that several formats have in common.
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
        Their name in the inventory; None: unknown.
    count
        Their number; None: unknown.
    memory_bytes
        Memory of one, as its driver reports it; None: unknown.
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
        Partitions or zones that it belongs to; empty if the format has none.
    devices
        Its accelerators, one entry for each kind.
    states
        Names of the states (see ``states``) in which a plan does not use it, unless the
        user includes all of them.
    left_out
        Why a plan cannot use it, whatever is included; None: it can.
    remark
        A further remark for the user, or None.
    """

    host: str
    places: frozenset[str] = frozenset()
    devices: tuple[Devices, ...] = ()
    states: frozenset[str] = frozenset()
    left_out: str | None = None
    remark: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The content of one file.

    Attributes
    ----------
    file, form
        Its name, and its kind of inventory.
    nodes
        In the file's order, each host once.
    unknown
        What this kind of inventory never tells, for the user to check.
    """

    file: str
    form: str
    nodes: tuple[Node, ...]
    unknown: tuple[str, ...] = field(default=())


class InventoryFormat(Protocol):
    """A kind of inventory; the modules of this package that read one have this form."""

    @property
    def FORM(self) -> str:
        """Its name for the user."""

    @property
    def UNKNOWN(self) -> tuple[str, ...]:
        """What this kind of inventory never tells."""

    def recognises(self, source: Source) -> bool:
        """Whether the file is of this kind; it may still be malformed."""

    def read(self, source: Source) -> list[Node]:
        """Return its nodes; a host may occur several times. Raises InputError."""
