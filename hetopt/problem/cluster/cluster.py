"""Accelerators, clusters and the links inside and between them.

Bandwidths are per device (or NIC, or connection) and per direction, in decimal
bytes per second.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, get_args

from hetopt.base.words import counted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

    from hetopt.problem.training.choices import Precision

#: Share of a device's memory that is overhead if the overhead is unknown: we assume it.
UNKNOWN_OVERHEAD = 0.06

Staging = Literal["host", "device"]

#: The part of the training state that may be in the hosts' memory.
Offload = Literal["optimizer"]

#: Bytes per second and device that a host reads and writes, unless the file gives them;
#: published: STREAM on one of the two sockets of a DGX A100 reaches 148 GB/s
#: (https://gist.github.com/v0dro/0559e1d9b205ca9ac0ad1a29fe10377b), for 8 devices.
HOST_MEMORY_BYTES_PER_S = 2 * 148e9 / 8

#: Formats that a device may multiply in.
Arithmetic = Literal["bf16", "fp16", "fp32", "tf32", "fp8"]
ARITHMETIC: tuple[Arithmetic, ...] = get_args(Arithmetic)

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
class PeakFlops:
    """Dense FLOP/s of one device by the format it multiplies in; None: it cannot.

    Without sparsity; accumulation is in FP32 (tensor cores) or in the same precision.
    """

    bf16: float | None = None
    fp16: float | None = None
    fp32: float | None = None
    tf32: float | None = None
    fp8: float | None = None

    def __post_init__(self) -> None:
        for name in ARITHMETIC:
            rate = getattr(self, name)
            if rate is not None and not rate > 0:
                msg = f"{name} is {rate}, expected more than 0"
                raise ValueError(msg)
        if not self.known:
            msg = f"peak_flops is empty, expected one of {', '.join(ARITHMETIC)}"
            raise ValueError(msg)

    @classmethod
    def dense_16_bit(cls, rate: float) -> Self:
        """Return the rates that one number means: it for BF16 and FP16, no others."""
        return cls(bf16=rate, fp16=rate)

    @property
    def known(self) -> tuple[Arithmetic, ...]:
        """Formats that the device multiplies in."""
        return tuple(name for name in ARITHMETIC if getattr(self, name) is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One device type.

    Attributes
    ----------
    memory_bytes
        Device memory as a program can see it.
    overhead_bytes
        Memory that a training program uses beyond what its framework allocates: the
        context, buffers of collectives, gaps between allocations. None: unknown.
    memory_bandwidth_bytes_per_s
        Bandwidth of the device's own memory.
    intra_node
        Default link between two devices of one node.
    host_device
        Default link between a device and its host.
    sold_as_bytes
        Memory in the vendor's sheet, by which inventories recognise a device; None:
        ``memory_bytes``.
    sources
        Field name -> where the number comes from.
    """

    name: str
    peak_flops: PeakFlops
    memory_bytes: int
    memory_bandwidth_bytes_per_s: float
    intra_node: Link
    host_device: Link
    overhead_bytes: int | None = None
    sold_as_bytes: int | None = field(default=None, compare=False)
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        for name in ("memory_bytes", "memory_bandwidth_bytes_per_s"):
            if not getattr(self, name) > 0:
                msg = f"{name} is {getattr(self, name)}, expected more than 0"
                raise ValueError(msg)

    def lacks(self, precision: Precision) -> bool:
        """Whether the device cannot multiply in a training precision."""
        needed = ("fp8", "bf16") if precision == "fp8" else (precision,)
        return any(self._rate(name) is None for name in needed)

    def peak_flops_of(
        self, precision: Precision, emulate: Precision | None = None
    ) -> float:
        """Return the FLOP/s of a training precision.

        FP32 training multiplies in TF32 where the device has it.

        Parameters
        ----------
        emulate
            Precision in which a device without ``precision`` multiplies.

        Raises
        ------
        ValueError
            The device has neither.
        """
        used = emulate if emulate is not None and self.lacks(precision) else precision
        rate = self._rate(used)
        if rate is None or self.lacks(used):
            msg = f"{self.name} has no {used}, only {', '.join(self.peak_flops.known)}"
            raise ValueError(msg)
        return rate

    def _rate(self, precision: str) -> float | None:
        if precision == "fp32" and self.peak_flops.tf32 is not None:
            return self.peak_flops.tf32
        rate: float | None = getattr(self.peak_flops, precision)
        return rate

    def overhead_of(self, memory_bytes: int) -> int:
        """Return the overhead in bytes; if unknown, a share of ``memory_bytes``."""
        if self.overhead_bytes is None:
            return math.ceil(memory_bytes * UNKNOWN_OVERHEAD)
        return self.overhead_bytes


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
