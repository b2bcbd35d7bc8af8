"""What joins devices faster than the usual link: in parts of a node, over several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge
from pydantic import Field, ValidationInfo

from hetopt.base.faults import FLAT, Fault
from hetopt.base.fields import Count
from hetopt.base.record import INTERNAL, as_given, record
from hetopt.base.words import counted
from hetopt.problem.cluster.accelerator import Link, completed_link

if TYPE_CHECKING:
    from collections.abc import Iterable

#: In place of a link that is wrong, so that what it completes has no fault of its own.
WRONG = Link(bandwidth_bytes_per_s=1.0, latency_s=0.0)


@record
class DeviceGroup:
    """Neighbouring devices of a node that share a faster link.

    Such as pairs, NUMA domains or switches.

    Attributes
    ----------
    size
        The devices per group; it divides the devices of every node.
    link
        A bandwidth such as '200 GB/s', and by default the latency of intra_node.
    """

    size: Count
    link: Annotated[Link, Field(alias=FLAT)]


@record
class FastDomain:
    """Consecutive nodes whose devices share a fast link, as in a rack of NVLink.

    All domains of a cluster have as many nodes, but for the last. To the network
    between domains each counts as one large node, with the interfaces of its nodes.

    Attributes
    ----------
    nodes
        The nodes per domain, at least 2; more than the cluster has mean one domain.
    link
        Per device and direction, to devices of the domain's other nodes; by default
        intra_node's bandwidth and latency.
    several
        Whether the nodes may be of several domains even where one could hold them all:
        they are some nodes of a larger cluster.
    """

    nodes: Annotated[Count, Ge(2)]
    link: Annotated[Link, Field(alias=FLAT)]
    several: Annotated[bool, INTERNAL] = False


def grouped(value: Any, info: ValidationInfo) -> Any:
    """Complete a group's latency, by default that of the links inside the node."""
    if info.context is None or not isinstance(value, dict):
        return value
    latency = value.get("latency")
    usual_s = as_given(info.data.get("intra_node", WRONG))["latency"]
    return {**value, "latency": usual_s if latency is None else latency}


def ensure_faster(
    group: DeviceGroup, sizes: Iterable[tuple[int, int]], inside: Link
) -> None:
    """Raise Fault if a group does not divide nodes, or is slower than their own link.

    Parts of nodes that it does not divide would be quicker without it.

    Parameters
    ----------
    sizes
        Devices of nodes, and how many have so many.
    """
    for size, _ in sizes:
        if size % group.size:
            msg = (
                f"is {group.size}, which does not divide the "
                f"{counted(size, 'device')} of a node"
            )
            raise Fault(msg, "group", "size")
    own, usual = group.link, inside
    if own.bandwidth_bytes_per_s < usual.bandwidth_bytes_per_s:
        msg = (
            f"is {own.bandwidth_bytes_per_s / 1e9:g} GB/s, slower than the "
            f"{usual.bandwidth_bytes_per_s / 1e9:g} GB/s of intra_node.bandwidth"
        )
        raise Fault(f"{msg}: expected a faster link", "group", "bandwidth")
    if own.latency_s > usual.latency_s:
        msg = (
            f"is {own.latency_s * 1e6:g} us, more than the {usual.latency_s * 1e6:g} "
            "us of intra_node.latency: expected a faster link"
        )
        raise Fault(msg, "group", "latency")


def in_domain(value: Any, info: ValidationInfo) -> Any:
    """Complete a domain's link, by default by that inside the node."""
    if value is None or info.context is None:
        return value
    return completed_link(value, info.data.get("intra_node", WRONG))
