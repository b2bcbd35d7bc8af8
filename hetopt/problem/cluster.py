"""Accelerators, clusters and the links inside and between them.

Bandwidths are per device (or NIC, or connection) and per direction, in decimal
bytes per second.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Staging = Literal["host", "device"]

#: Names and addresses that mean one host in hostfiles, shells and URLs alike.
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._:-]{0,251}[A-Za-z0-9_.])?", re.ASCII)


def host_fault(host: str) -> str | None:
    """Say what is wrong with a host's name or address; None if nothing is."""
    if _HOST.fullmatch(host):
        return None
    return (
        f"is {host!r}, expected a host name or address: letters, digits and . _ - :, "
        "beginning and ending with a letter or a digit"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """An alpha-beta link: ``latency_s + bytes / bandwidth_bytes_per_s``."""

    latency_s: float
    bandwidth_bytes_per_s: float

    def __post_init__(self) -> None:
        if self.latency_s < 0:
            msg = f"latency is {self.latency_s} s, expected 0 or more"
            raise ValueError(msg)
        if not self.bandwidth_bytes_per_s > 0:
            msg = f"bandwidth is {self.bandwidth_bytes_per_s} B/s, expected more than 0"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One device type.

    Attributes
    ----------
    peak_flops
        Dense BF16/FP16 FLOP/s (without sparsity); FP16 where BF16 is missing, and
        FP32 where neither has units of its own.
    fp32_flops
        Dense FP32 FLOP/s; None: half of ``peak_flops``.
    memory_bytes
        Device memory as the driver offers it, before hetopt's reserve.
    memory_bandwidth_bytes_per_s
        Of the device's own memory.
    intra_node
        Default link between two devices of one node.
    host_device
        Default link between a device and its host.
    sources
        Field name -> where the number comes from.
    """

    name: str
    peak_flops: float
    memory_bytes: int
    memory_bandwidth_bytes_per_s: float
    intra_node: Link
    host_device: Link
    fp32_flops: float | None = None
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        for name in ("peak_flops", "memory_bytes", "memory_bandwidth_bytes_per_s"):
            if not getattr(self, name) > 0:
                msg = f"{name} is {getattr(self, name)}, expected more than 0"
                raise ValueError(msg)
        if self.fp32_flops is not None and not self.fp32_flops > 0:
            msg = f"fp32_flops is {self.fp32_flops}, expected more than 0"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceGroup:
    """Devices of a node that share a faster link (pairs, NUMA domains, switches)."""

    size: int
    link: Link


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A homogeneous cluster: ``nodes`` x ``devices_per_node`` of one accelerator.

    Attributes
    ----------
    memory_bytes
        Per device, before the reserve.
    max_tp
        Largest tensor-parallel degree (H2's TP_MAX); at most ``devices_per_node``.
    group
        Optional faster link among neighbouring devices inside a node.
    nics_per_node
        Network interfaces per node; each carries ``inter_node.bandwidth``.
    hosts
        Names or addresses of the nodes, in the order ranks are placed; None where
        nobody said. They change no cost, so a plan made without them stays valid.
    """

    name: str
    accelerator: Accelerator
    nodes: int
    devices_per_node: int
    memory_bytes: int
    max_tp: int
    intra_node: Link
    inter_node: Link
    host_device: Link
    nics_per_node: int
    group: DeviceGroup | None = None
    hosts: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in (
            "nodes",
            "devices_per_node",
            "memory_bytes",
            "max_tp",
            "nics_per_node",
        ):
            if getattr(self, name) < 1:
                msg = f"{name} is {getattr(self, name)}, expected at least 1"
                raise ValueError(msg)
        if self.max_tp > self.devices_per_node:
            msg = (
                f"max_tp ({self.max_tp}) is more than "
                f"devices_per_node ({self.devices_per_node})"
            )
            raise ValueError(msg)
        if self.group is not None and self.devices_per_node % self.group.size:
            msg = (
                f"group.size ({self.group.size}) does not divide "
                f"devices_per_node ({self.devices_per_node})"
            )
            raise ValueError(msg)
        if self.hosts is not None:
            self._check_hosts(self.hosts)

    def _check_hosts(self, hosts: tuple[str, ...]) -> None:
        if len(hosts) != self.nodes:
            msg = (
                f"hosts names {len(hosts)}, expected one host for each of the "
                f"{self.nodes} nodes"
            )
            raise ValueError(msg)
        for host in hosts:
            fault = host_fault(host)
            if fault:
                raise ValueError(f"hosts {fault}")
        if len(set(hosts)) < len(hosts):
            msg = f"hosts names one of {', '.join(hosts)} twice"
            raise ValueError(msg)

    @property
    def devices(self) -> int:
        """Number of devices in the cluster."""
        return self.nodes * self.devices_per_node


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLink:
    """The network between two clusters.

    Attributes
    ----------
    connection
        Latency and bandwidth of **one** connection, per direction.
    aggregate_bytes_per_s
        Cap on the sum over all connections, or None when only NICs limit it.
    staged
        ``host``: device-to-host, network, host-to-device (HetAuto section 5.1);
        ``device``: device-direct (H2 section 3.2).
    """

    connection: Link
    aggregate_bytes_per_s: float | None = None
    staged: Staging = "host"

    def __post_init__(self) -> None:
        if self.aggregate_bytes_per_s is not None and self.aggregate_bytes_per_s <= 0:
            msg = f"aggregate is {self.aggregate_bytes_per_s} B/s, expected more than 0"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLinks:
    """Links between clusters: a default, and exceptions by unordered pair."""

    default: ClusterLink
    pairs: Mapping[frozenset[str], ClusterLink] = field(default_factory=dict)

    def between(self, first: str, second: str) -> ClusterLink:
        """Return the link between two clusters, in either direction."""
        return self.pairs.get(frozenset({first, second}), self.default)
