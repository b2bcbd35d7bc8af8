"""Single nodes and devices, where it matters which one is which."""

from __future__ import annotations

from typing import NamedTuple


class Device(NamedTuple):
    """One device of a node.

    Attributes
    ----------
    number
        Within its node, from 0, as before any was lost.
    """

    cluster: str
    host: str
    number: int

    @property
    def name(self) -> str:
        """Host and number, as ``--lost`` takes them."""
        return f"{self.host}:{self.number}"


class Node(NamedTuple):
    """One node of a cluster.

    Attributes
    ----------
    devices
        The number of each device that it has, ascending.
    """

    cluster: str
    host: str
    devices: tuple[int, ...]

    def device(self, place: int) -> Device:
        """Return one of its devices, counted from 0 among those it has."""
        return Device(self.cluster, self.host, self.devices[place])
