"""Limits of the rates between two devices when states are migrated.

Training is stopped meanwhile, and messages are long, so latencies are left out. Every
limit is for one direction:

- between devices of a node, each device's sending and receiving rate (``intra_node``,
  at the share of it that is reached);
- between nodes of a fast domain that is the whole cluster, the same of its links;
- between other nodes, the interfaces of both nodes, and those that one device may use:
  the node's number of interfaces over its devices, at least one;
- between clusters, also the link's capacity, its rate per node and per connection, the
  uplinks, and the host links if it is host-staged;
- out of a checkpoint, the rate at which all devices together read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.cost.communication.collectives import (
    HOST_SHARE,
    NETWORK_SHARE,
    intra_node_bandwidth,
    near_link,
)
from hetopt.cost.correction import with_corrected_links

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.cluster.links import ClusterLink
    from hetopt.problem.cluster.nodes import Device, Node
    from hetopt.problem.problem import Problem

    #: Name of a limit, and its bytes per second.
    Limit = tuple[tuple[str, ...], float]
    #: Limits of the path between two devices; None if there is no path.
    Way = tuple[Limit, ...] | None


class Network:
    """The network between the remaining devices.

    Parameters
    ----------
    nodes
        All nodes, with their devices.
    checkpoint_bytes_per_s
        Rate at which all devices together read the checkpoint; None if there is none.
    """

    def __init__(
        self,
        problem: Problem,
        nodes: Sequence[Node],
        checkpoint_bytes_per_s: float | None,
    ) -> None:
        whole = with_corrected_links(problem)
        self._clusters = {cluster.name: cluster for cluster in whole.clusters}
        self._links = whole.links
        self._devices = {node.host: len(node.devices) for node in nodes}
        self._checkpoint = checkpoint_bytes_per_s

    def way(self, sender: Device, receiver: Device) -> Way:
        """Return the limits of the path between two devices; None without a link."""
        cluster = self._clusters[sender.cluster]
        rate, inside = intra_node_bandwidth(cluster), "its node"
        near = sender.host == receiver.host
        if not near and sender.cluster == receiver.cluster and cluster.one_domain:
            rate, inside = near_link(cluster).bandwidth_bytes_per_s, "its domain"
            near = True
        if near:
            return (
                ((f"sent inside {inside}", sender.name), rate),
                ((f"received inside {inside}", receiver.name), rate),
            )
        limits = [*self._ends(sender, "sent"), *self._ends(receiver, "received")]
        if sender.cluster != receiver.cluster:
            link = self._links.between(sender.cluster, receiver.cluster)
            if link is None:
                return None
            limits += self._across(sender, receiver, link)
        return tuple(limits)

    def from_checkpoint(self, receiver: Device) -> Way:
        """Return the limits of reading the checkpoint; None if there is none."""
        if self._checkpoint is None:
            return None
        read = (("read of the checkpoint",), self._checkpoint)
        return (read, *self._ends(receiver, "received"))

    def _ends(self, device: Device, how: str) -> Iterator[Limit]:
        """Yield the limits at one end of a path between nodes."""
        cluster = self._clusters[device.cluster]
        rate = cluster.inter_node.bandwidth_bytes_per_s * NETWORK_SHARE
        number = cluster.nics_per_node
        yield (f"{how} by its interfaces", device.name), rate * self._own(device)
        yield (f"{how} by node", device.host), rate * number

    def _own(self, device: Device) -> int:
        """Return the number of interfaces that a device may use."""
        cluster = self._clusters[device.cluster]
        return max(1, cluster.nics_per_node // self._devices[device.host])

    def _across(
        self, sender: Device, receiver: Device, link: ClusterLink
    ) -> Iterator[Limit]:
        ends = (sender, "sent"), (receiver, "received")
        pair = f"{sender.cluster} to {receiver.cluster}"
        if link.capacity_bytes_per_s is not None:
            yield ("link", pair), link.capacity_bytes_per_s
        if link.connection_bytes_per_s is not None:
            several = min(self._own(sender), self._own(receiver))
            way = ("connection", sender.name, receiver.name)
            yield way, link.connection_bytes_per_s * several
        for device, how in ends:
            cluster: Cluster = self._clusters[device.cluster]
            if link.node_bytes_per_s is not None:
                yield (f"{how} by node", device.host, pair), link.node_bytes_per_s
            if cluster.uplink_bytes_per_s is not None:
                uplink = (f"{how} by uplink", device.cluster)
                yield uplink, cluster.uplink_bytes_per_s
            if link.staged == "host":
                rate = cluster.host_device.bandwidth_bytes_per_s * HOST_SHARE
                yield (f"{how} through the host", device.name), rate
