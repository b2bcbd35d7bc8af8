"""Single nodes and devices, by their host and number."""

from __future__ import annotations

from typing import NamedTuple


class Device(NamedTuple):
    """One device of a node.

    Attributes
    ----------
    number
        Number within its node, from 0, as before any device was lost.
    """

    cluster: str
    host: str
    number: int

    @property
    def name(self) -> str:
        """Host and number, as ``--lost`` expects them."""
        return f"{self.host}:{self.number}"


class Node(NamedTuple):
    """One node of a cluster.

    Attributes
    ----------
    devices
        Numbers of the devices that it has, ascending.
    """

    cluster: str
    host: str
    devices: tuple[int, ...]

    def device(self, place: int) -> Device:
        """Return the device at a position, from 0, among those that the node has."""
        return Device(self.cluster, self.host, self.devices[place])
