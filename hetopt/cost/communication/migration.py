"""What limits bytes on their way from one device to another, when states move.

Nothing else runs meanwhile, and messages are long: latencies are left out. Every limit
is of one direction:

- between devices of a node, what either device sends or receives there
  (``intra_node``, at the share of it that is reached);
- between nodes, the interfaces of both nodes, and of them what one device has: one
  interface, or as many as there are for each of the node's devices;
- between clusters, also the link's capacity, what one node or one pair of interfaces
  carries over it, the uplinks, and the host links where it is staged in the hosts;
- out of a checkpoint, what all devices together read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.cost.communication.collectives import (
    HOST_SHARE,
    NETWORK_SHARE,
    intra_node_bandwidth,
)
from hetopt.cost.correction import with_corrected_links

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.problem.cluster.cluster import Cluster, ClusterLink
    from hetopt.problem.cluster.nodes import Device, Node
    from hetopt.problem.problem import Problem

    #: Name of a limit, and its bytes per second.
    Limit = tuple[tuple[str, ...], float]
    #: Limits that bytes on one way are under; None: there is no way.
    Way = tuple[Limit, ...] | None


class Network:
    """The network between the devices that are left.

    Parameters
    ----------
    nodes
        All of them, with the devices that each one has.
    checkpoint_bytes_per_s
        What all devices together read of a checkpoint; None: there is none.
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
        """Return the limits on the way between two devices."""
        if sender.host == receiver.host:
            rate = intra_node_bandwidth(self._clusters[sender.cluster])
            return (
                (("sent in its node", sender.name), rate),
                (("received in its node", receiver.name), rate),
            )
        limits = [*self._ends(sender, "sent"), *self._ends(receiver, "received")]
        if sender.cluster != receiver.cluster:
            link = self._links.between(sender.cluster, receiver.cluster)
            if link is None:
                return None
            limits += self._across(sender, receiver, link)
        return tuple(limits)

    def from_checkpoint(self, receiver: Device) -> Way:
        """Return the limits on the way out of the checkpoint."""
        if self._checkpoint is None:
            return None
        read = (("read of the checkpoint",), self._checkpoint)
        return (read, *self._ends(receiver, "received"))

    def _ends(self, device: Device, how: str) -> Iterator[Limit]:
        """Yield what limits one end of a way between nodes."""
        cluster = self._clusters[device.cluster]
        rate = cluster.inter_node.bandwidth_bytes_per_s * NETWORK_SHARE
        number = cluster.nics_per_node
        yield (f"{how} by its interfaces", device.name), rate * self._own(device)
        yield (f"{how} by node", device.host), rate * number

    def _own(self, device: Device) -> int:
        """Return how many interfaces a device uses."""
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
