"""Clusters and the links between them.

Bandwidths are per device (or NIC, or connection) and per direction, in decimal
bytes per second.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from hetopt.base.checked import checked
from hetopt.base.least import ensure_least
from hetopt.base.words import counted
from hetopt.problem.cluster.accelerator import Accelerator, Link

Staging = Literal["host", "device"]

#: The part of the training state that may be in the hosts' memory.
Offload = Literal["optimizer"]

#: Bytes per second and device that a host reads and writes, unless the file gives them;
#: published: STREAM on one of the two sockets of a DGX A100 reaches 148 GB/s
#: (https://gist.github.com/v0dro/0559e1d9b205ca9ac0ad1a29fe10377b), for 8 devices.
HOST_MEMORY_BYTES_PER_S = 2 * 148e9 / 8

#: Names and addresses that mean one host in hostfiles, shells and URLs alike.
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._:-]{0,251}[A-Za-z0-9_.])?", re.ASCII)


def host_fault(host: str) -> str | None:
    """Return what is wrong with a host's name or address; None if nothing is."""
    if _HOST.fullmatch(host):
        return None
    return (
        f"is {host!r}, expected a host name or address: up to 253 letters, digits and "
        ". _ - :, beginning with a letter, a digit or _ and not ending with - or :"
    )


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceGroup:
    """Devices of a node that share a faster link (pairs, NUMA domains, switches)."""

    size: int
    link: Link


@checked
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Cluster:
    """A homogeneous cluster: ``nodes`` x ``devices_per_node`` of one accelerator.

    Attributes
    ----------
    devices_per_node
        Devices of a node; of the largest node, if they are unequal.
    unequal
        Devices of each node, in the order of ``hosts``; None if nodes are equal.
    memory_bytes, overhead_bytes
        Per device; the overhead is outside of what the framework allocates.
    max_tp
        Largest tensor-parallel degree (H2's TP_MAX); at most ``devices_per_node``.
    group
        Faster link among neighbouring devices inside a node.
    nics_per_node
        Network interfaces per node; each carries ``inter_node.bandwidth``.
    uplink_bytes_per_s
        Bandwidth that all links to other clusters share, per direction; None: no limit.
    offload
        The part of the training state that is in the hosts' memory; None: nothing.
    host_memory_bytes_per_s
        Per device; it limits the update of an offloaded optimizer.
    price_per_hour
        Price of one node, in any one currency, at least 0; None: unknown.
    hosts
        Names or addresses of the nodes in rank order, not used in costs; None: unknown.
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
    overhead_bytes: int = 0
    uplink_bytes_per_s: float | None = None
    group: DeviceGroup | None = None
    offload: Offload | None = None
    host_memory_bytes_per_s: float = HOST_MEMORY_BYTES_PER_S
    price_per_hour: float | None = None
    hosts: tuple[str, ...] | None = None
    unequal: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        counts = "nodes", "devices_per_node", "memory_bytes", "max_tp", "nics_per_node"
        ensure_least(self, 1, counts)
        if self.overhead_bytes < 0:
            msg = f"overhead_bytes is {self.overhead_bytes}, expected 0 or more"
            raise ValueError(msg)
        if self.uplink_bytes_per_s is not None and not self.uplink_bytes_per_s > 0:
            msg = f"uplink is {self.uplink_bytes_per_s} B/s, expected more than 0"
            raise ValueError(msg)
        if not self.host_memory_bytes_per_s > 0:
            msg = (
                f"host_memory_bandwidth is {self.host_memory_bytes_per_s} B/s, "
                "expected more than 0"
            )
            raise ValueError(msg)
        if self.max_tp > self.devices_per_node:
            msg = (
                f"max_tp ({self.max_tp}) is more than "
                f"devices_per_node ({self.devices_per_node})"
            )
            raise ValueError(msg)
        if self.unequal is not None:
            self._check_unequal(self.unequal)
        for size, _ in self.sizes if self.group is not None else ():
            if self.group is not None and size % self.group.size:
                msg = (
                    f"group.size ({self.group.size}) does not divide the {size} "
                    "devices of a node"
                )
                raise ValueError(msg)
        price = self.price_per_hour
        if price is not None and not 0 <= price < math.inf:
            msg = f"price_per_hour is {price}, expected 0 or more"
            raise ValueError(msg)
        if self.hosts is not None:
            self._check_hosts(self.hosts)

    def _check_unequal(self, sizes: tuple[int, ...]) -> None:
        if len(sizes) != self.nodes or max(sizes) != self.devices_per_node:
            msg = (
                f"unequal lists {counted(len(sizes), 'node')} of at most "
                f"{max(sizes, default=0)} devices, expected {self.nodes} of at most "
                f"{self.devices_per_node}"
            )
            raise ValueError(msg)
        if min(sizes) < 1 or min(sizes) == max(sizes):
            msg = (
                f"unequal is from {min(sizes)} to {max(sizes)}, expected several sizes"
            )
            raise ValueError(msg)
        if self.price_per_hour is not None:
            msg = (
                "price_per_hour is of one of several equal nodes, but unequal is given"
            )
            raise ValueError(msg)

    def _check_hosts(self, hosts: tuple[str, ...]) -> None:
        if len(hosts) != self.nodes:
            msg = (
                f"hosts names {len(hosts)}, expected one host for each of the "
                f"{counted(self.nodes, 'node')}"
            )
            raise ValueError(msg)
        for host in hosts:
            fault = host_fault(host)
            if fault:
                raise ValueError(f"hosts {fault}")
        if len(set(hosts)) < len(hosts):
            msg = f"hosts names one of {', '.join(hosts)} twice"
            raise ValueError(msg)

    def __repr__(self) -> str:
        sizes = " and ".join(f"{nodes} x {size}" for size, nodes in self.sizes)
        return f"<Cluster: {self.name}, {sizes} {self.accelerator.name}>"

    @property
    def devices(self) -> int:
        """Number of devices in the cluster."""
        return sum(size * count for size, count in self.sizes)

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """Pairs of a node's devices and the number of such nodes, largest first."""
        if self.unequal is None:
            return ((self.devices_per_node, self.nodes),)
        return _counted(self.unequal)

    def devices_of(self, node: int) -> int:
        """Return the devices of a node, counted from 0."""
        return self.unequal[node] if self.unequal else self.devices_per_node


@lru_cache
def _counted(sizes: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Return each size with its number of occurrences, the largest first."""
    return tuple(sorted(Counter(sizes).items(), reverse=True))


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLink:
    """The network between two clusters, per direction.

    Attributes
    ----------
    latency_s
        Latency, paid once per transfer.
    capacity_bytes_per_s
        Bandwidth that all connections share; None: only nodes and interfaces limit it.
    node_bytes_per_s
        Bandwidth of one node over one boundary; None: that of its interfaces.
    connection_bytes_per_s
        Bandwidth of one pair of interfaces; None: that of the slower one.
    message_s
        Time added for each message that one connection carries.
    staged
        ``host``: device-to-host, network, host-to-device (HetAuto section 5.1);
        ``device``: device-direct (H2 section 3.2).
    """

    latency_s: float
    capacity_bytes_per_s: float | None = None
    node_bytes_per_s: float | None = None
    connection_bytes_per_s: float | None = None
    message_s: float = 0.0
    staged: Staging = "host"

    def __post_init__(self) -> None:
        for name in ("latency_s", "message_s"):
            if getattr(self, name) < 0:
                msg = f"{name} is {getattr(self, name)}, expected 0 or more"
                raise ValueError(msg)
        for name in (
            "capacity_bytes_per_s",
            "node_bytes_per_s",
            "connection_bytes_per_s",
        ):
            value = getattr(self, name)
            if value is not None and value <= 0:
                msg = f"{name} is {value}, expected more than 0"
                raise ValueError(msg)


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLinks:
    """Links between clusters: a default, and exceptions by unordered pair.

    None means that there is no link: neither a pipeline boundary nor the gradients of a
    tied embedding can cross.
    """

    default: ClusterLink | None
    pairs: Mapping[frozenset[str], ClusterLink | None] = field(default_factory=dict)

    def between(self, first: str, second: str) -> ClusterLink | None:
        """Return the link between two clusters, in either direction."""
        return self.pairs.get(frozenset({first, second}), self.default)
