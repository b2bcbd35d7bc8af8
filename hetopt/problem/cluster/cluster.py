"""Clusters and the links between them.

Bandwidths are per device (or NIC, or connection) and per direction, in decimal
bytes per second.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le
from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema

from hetopt.base.faults import Fault, inside
from hetopt.base.fields import (
    MAX_WHOLE,
    Count,
    Expected,
    Name,
    Read,
    each,
    name,
    number,
    whole,
)
from hetopt.base.record import INTERNAL, derived, record
from hetopt.base.words import counted, describe
from hetopt.problem.calibration import most_overhead
from hetopt.problem.cluster.accelerator import (
    Accelerator,
    Link,
    completed_link,
    named_device,
)
from hetopt.problem.cluster.nearby import (
    WRONG,
    DeviceGroup,
    FastDomain,
    ensure_faster,
    grouped,
    in_domain,
)
from hetopt.problem.fields import Bandwidth, Memory, memory_size, with_unit

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


def _host(value: Any) -> str:
    host = name(value)
    if fault := host_fault(host):
        raise Fault(fault)
    return host


def _overhead(value: Any, info: ValidationInfo) -> Any:
    """Complete the overhead, by default that of the accelerator."""
    memory, device = info.data.get("memory_bytes"), info.data.get("accelerator")
    if info.context is None or memory is None or device is None:
        # Without these, their faults are said.
        return value or 0 if info.context is None else 0
    if value is not None:
        ensure_overhead(found := memory_size(value), memory)
        return found
    if (found := device.overhead_of(memory)) > most_overhead(memory):
        msg = (
            f"is {found} bytes for this accelerator, but the memory has {memory}: give "
            "the cluster's overhead"
        )
        raise Fault(msg)
    return found


def ensure_overhead(overhead: int, memory_bytes: int) -> None:
    """Raise Fault for an overhead that leaves no memory."""
    if overhead > most_overhead(memory_bytes):
        msg = (
            f"is {overhead} bytes, expected less than the memory ({memory_bytes} bytes)"
        )
        raise Fault(msg)


def _of_accelerator(field: str) -> BeforeValidator:
    """Return a reader of a link that is completed by the accelerator's."""

    def read(value: Any, info: ValidationInfo) -> Any:
        if info.context is None:
            return value
        device = info.data.get("accelerator")
        return completed_link(value, getattr(device, field) if device else WRONG)

    return BeforeValidator(read)


def _with_latency(value: Any, info: ValidationInfo) -> Any:
    """Complete a link between nodes, or take that inside a node that is alone."""
    if value is ALONE:
        return info.data.get("intra_node", WRONG)
    if value is None and not info.data.keys() >= {"accelerator", "nodes", "intra_node"}:
        return WRONG
    if value is None:
        such = "{bandwidth: 100 Gbps, latency: 5 us}"
        raise Fault(f"is missing, expected one such as {such}")
    if info.context is None or not isinstance(value, dict):
        return value
    latency = value.get("latency")
    usual = Fraction(INTER_NODE_LATENCY_S)
    return {**value, "latency": usual if latency is None else latency}


#: In place of a link between nodes, where no byte ever leaves the node.
ALONE = object()
#: Latency of an inter-node link that gives only its bandwidth.
INTER_NODE_LATENCY_S = 5e-6
#: Most nodes whose devices may be listed one by one.
MAX_LISTED_NODES = 10**4
#: Highest price of a node per hour, in any currency: sums and products stay finite.
MAX_PRICE = 1e9
_WHOLE = {"type": "integer", "minimum": 1}
Price = Annotated[
    float,
    Ge(0),
    Le(MAX_PRICE),
    Read(number),
    Expected(f"a number from 0 to {MAX_PRICE:g}, without a currency"),
    Field(examples=[32.77]),
]


@record
class Cluster:
    """A homogeneous cluster of nodes x devices_per_node accelerators.

    Nodes may have unequal numbers of devices, as after a failure.

    Attributes
    ----------
    name
        A name that plans and pins use.
    accelerator
        A name from `hetopt catalog`, or the device's own numbers.
    nodes
        The number of nodes; or the devices of each node, as in [8, 8, 8, 7],
        without devices_per_node.
    devices_per_node
        The number of devices of a node, if nodes is a number; of the largest node,
        if they are unequal.
    unequal
        Devices of each node, in the order of ``hosts``; None if nodes are equal.
    memory_bytes
        Per device; default: the accelerator's.
    overhead_bytes
        Per device, outside of what the framework allocates: context, buffers of
        collectives, gaps between allocations; default: the accelerator's.
    max_tp
        Largest tensor parallelism (H2's TP_MAX); default: the devices of the
        largest node.
    intra_node
        Per device and direction; default: the accelerator's.
    inter_node
        One NIC, per direction; latency 5 us unless given. Only a single node that
        is the whole problem needs none.
    host_device
        Per device and direction; default: the accelerator's.
    nics_per_node
        Network interfaces per node, each with inter_node's bandwidth; default: one
        per device of the largest node.
    uplink_bytes_per_s
        Bandwidth that all links of the cluster to others share, per direction;
        default: nothing but the links themselves limits it.
    group
        Neighbouring devices of a node that share a faster link; default: none do.
    domain
        Consecutive nodes whose devices share a fast link, such as 18 nodes of 4 GB200;
        default: none do. Tensor-parallel groups stay inside a node all the same.
    offload
        optimizer: the optimizer's states are in the hosts' memory, and the hosts
        update the weights; default: nothing is offloaded.
    host_memory_bytes_per_s
        What a host reads and writes per device, which limits the update of an
        offloaded optimizer; default: 37 GB/s, STREAM on a DGX A100.
    price_per_hour
        What one of equal nodes costs per hour, in any currency, the same for all
        clusters; default: unknown. Reports say what plans cost by it; it decides
        plans only where that is asked (--budget, --objective cost, --pareto).
    hosts
        Names or addresses of the nodes, one each, in the order launchers place
        ranks. Plans do not depend on them.
    """

    name: Name
    accelerator: Annotated[Accelerator, BeforeValidator(named_device)]
    nodes: Annotated[
        Count,
        WithJsonSchema(
            {
                "anyOf": [
                    _WHOLE,
                    {
                        "type": "array",
                        "items": _WHOLE,
                        "minItems": 1,
                        "maxItems": MAX_LISTED_NODES,
                    },
                ]
            }
        ),
    ]
    devices_per_node: Count = derived(factory=lambda _: 0)
    unequal: Annotated[tuple[Count, ...] | None, INTERNAL] = None
    memory_bytes: Annotated[Memory, Field(alias="memory")] = derived(
        factory=lambda cluster: cluster["accelerator"].memory_bytes
    )
    overhead_bytes: Annotated[
        int,
        Field(alias="overhead", ge=0),
        BeforeValidator(_overhead),
        with_unit("1.5 GiB", "2 GB"),
    ] = Field(default=None, validate_default=True, kw_only=True)
    max_tp: Count = derived(factory=lambda cluster: cluster["devices_per_node"])
    intra_node: Annotated[Link, _of_accelerator("intra_node")] = derived(
        factory=lambda cluster: cluster["accelerator"].intra_node
    )
    inter_node: Annotated[Link, BeforeValidator(_with_latency)] = derived(
        factory=lambda cluster: cluster["intra_node"]
    )
    host_device: Annotated[Link, _of_accelerator("host_device")] = derived(
        factory=lambda cluster: cluster["accelerator"].host_device
    )
    nics_per_node: Count = derived(factory=lambda cluster: cluster["devices_per_node"])
    uplink_bytes_per_s: Annotated[Bandwidth | None, Field(alias="uplink")] = None
    group: Annotated[DeviceGroup | None, BeforeValidator(grouped)] = None
    domain: Annotated[FastDomain | None, BeforeValidator(in_domain)] = None
    offload: Offload | None = None
    host_memory_bytes_per_s: Annotated[
        Bandwidth, Field(alias="host_memory_bandwidth")
    ] = HOST_MEMORY_BYTES_PER_S
    price_per_hour: Price | None = None
    hosts: tuple[Annotated[str, BeforeValidator(_host)], ...] | None = None

    @staticmethod
    def completed(given: dict[str, Any], _: object) -> dict[str, Any]:
        """Return what a file gives, with the number of nodes that it lists."""
        if not given.keys() >= {"name", "accelerator", "nodes"}:
            return given
        return {"inter_node": None, **_with_nodes(given)}

    def __post_init__(self) -> None:
        if self.max_tp > self.devices_per_node:
            msg = (
                f"is {self.max_tp}, expected at most the "
                f"{counted(self.devices_per_node, 'device')} of a node"
            )
            raise Fault(msg, "max_tp")
        if self.unequal is not None:
            self._check_unequal(self.unequal)
        if self.group is not None:
            ensure_faster(self.group, self.sizes, self.intra_node)
        if self.unequal is not None and self.domain and self.several_domains:
            msg = (
                f"is {self.domain.nodes} of {self.nodes} unequal nodes, expected equal "
                "nodes or one domain of all: give each domain a cluster of its own"
            )
            raise Fault(msg, "domain", "nodes")
        if self.hosts is not None and len(self.hosts) != self.nodes:
            msg = (
                f"names {len(self.hosts)}, expected one host for each of the "
                f"{counted(self.nodes, 'node')}"
            )
            raise Fault(msg, "hosts")
        for position, host in enumerate(self.hosts or ()):
            if self.hosts and host in self.hosts[:position]:
                msg = f"is {host!r} a second time, first in cluster {self.name!r}"
                raise Fault(msg, "hosts", position)

    def _check_unequal(self, sizes: tuple[int, ...]) -> None:
        if len(sizes) != self.nodes or max(sizes) != self.devices_per_node:
            msg = (
                f"lists {counted(len(sizes), 'node')} of at most "
                f"{max(sizes, default=0)} devices, expected {self.nodes} of at most "
                f"{self.devices_per_node}"
            )
            raise Fault(msg, "unequal")
        if min(sizes) == max(sizes):
            msg = f"is from {min(sizes)} to {max(sizes)}, expected several sizes"
            raise Fault(msg, "unequal")
        if self.price_per_hour is not None:
            msg = (
                "is the price of one of several equal nodes, but nodes lists unequal "
                "ones: give the nodes of each size a cluster of their own, or leave it "
                "out"
            )
            raise Fault(msg, "price_per_hour")

    def __repr__(self) -> str:
        sizes = " and ".join(f"{nodes} x {size}" for size, nodes in self.sizes)
        return f"<Cluster: {self.name}, {sizes} {self.accelerator.name}>"

    @property
    def devices(self) -> int:
        """Number of devices in the cluster."""
        return sum(size * count for size, count in self.sizes)

    @property
    def one_domain(self) -> bool:
        """Whether all nodes are of one fast domain."""
        domain = self.domain
        return domain is not None and self.nodes <= domain.nodes and not domain.several

    @property
    def several_domains(self) -> bool:
        """Whether nodes are, or may be, of several fast domains."""
        return self.domain is not None and not self.one_domain

    def with_nodes(self, nodes: int) -> Cluster:
        """Return the cluster with some of its equal nodes, which cost no less."""
        domain = self.domain
        if domain is not None and self.several_domains:
            domain = replace(domain, several=True)
        # Hosts are dropped: they name every node, and change no cost.
        return replace(self, nodes=nodes, domain=domain, hosts=None)

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


def _with_nodes(given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a cluster, whose nodes may be listed by their devices."""
    nodes, devices = given["nodes"], given.get("devices_per_node")
    if not isinstance(nodes, list):
        if devices is None and type(nodes) is int and 0 < nodes <= MAX_WHOLE:
            msg = "is missing, expected the number of devices of a node"
            raise Fault(msg, "devices_per_node")
        return given
    if not nodes:
        raise Fault("is an empty list, expected the devices of each node", "nodes")
    if len(nodes) > MAX_LISTED_NODES:
        msg = f"lists {len(nodes)} nodes, expected at most {MAX_LISTED_NODES}"
        raise Fault(msg, "nodes")
    with inside("nodes"):
        sizes = each(whole(1), nodes)
    if devices is not None:
        msg = (
            f"is {describe(devices)}, but nodes lists the devices of each node: leave "
            "one of the two out"
        )
        raise Fault(msg, "devices_per_node")
    found = {"nodes": len(sizes), "devices_per_node": max(sizes)}
    unequal = sizes if len(set(sizes)) > 1 else None
    return {**given, **found, "unequal": unequal}
