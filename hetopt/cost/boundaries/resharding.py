"""Boundary time kappa and occupancy omega between two layouts (MODEL.md section 3).

On a stage the boundary tensor of one micro-batch is divided into ``dp`` batch slices
times ``shards = cp * tp`` sequence slices. The division over the outer degree
``gcd(dp, dp')`` is the same on both stages; within its parts there are these strategies
(HetAuto section 5.2, H2 section 5):

``p2p`` (HetAuto 1)
    every device sends each receiver its part: the most and smallest messages.
``leader`` (HetAuto 2)
    gather on one rank, one message, scatter.
``inner-dp`` (HetAuto 3)
    gather on inner dp rank 0, messages between those ranks, scatter.
``send-recv-all-gather`` (H2)
    every device sends its whole share to as few receivers as possible; receivers
    all-gather. In the backward pass the senders do, so the slower side counts.

With equal layouts every device sends to its peer, whichever strategy is named.

Between clusters a boundary uses as many connections as there are sending pairs, at
most the network interfaces of the nodes that host either stage. A connection is limited
by an interface and by the link's rate per connection, a node by the link's rate per
node; all connections share the link's capacity and the uplinks of both clusters.
Messages of one connection are sent one after the other: the latency is paid once, and
``message_s`` for each of them. Without a link kappa is infinite. Host-staged links add
copies to and from the host. kappa is the sum of the steps of the fastest strategy;
omega is the least, over strategies, of the slowest step. Mostly the same strategy has
both, or they differ by a few percent. Separate minima guarantee that neither rises when
a link gets faster; with one strategy for both, a faster copy may make a strategy the
fastest whose slowest step is longer. Bandwidths between clusters are used as given,
because users measure them.

Inside a cluster the tensor crosses the interfaces of the nodes, or the links of a fast
domain that has all of them. Two stages smaller than a node may share it or not: the
slower case is assumed, even if there is only one node, so that adding nodes never makes
a boundary slower.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.communication.collectives import (
    HOST_SHARE,
    NETWORK_SHARE,
    all_gather_s,
    intra_node_bandwidth,
    near_link,
)
from hetopt.errors import InputError
from hetopt.problem.training.choices import RESHARDING, Resharding
from hetopt.problem.training.pins import Domain

if TYPE_CHECKING:
    from hetopt.cost.shapes import Floats, Ints
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.cluster.links import ClusterLink, ClusterLinks


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a boundary; arrays broadcast against the other side's."""

    cluster: Cluster
    dp: Ints
    shards: Ints

    @property
    def devices(self) -> Ints:
        """Number of devices of the stage."""
        return self.dp * self.shards

    @property
    def nodes(self) -> Ints:
        """Number of nodes that host the stage; the fewest possible if unequal."""
        return -(-self.devices // self.cluster.devices_per_node)

    @property
    def per_node(self) -> Ints:
        """Devices of the stage in each of its nodes.

        Unequal nodes may host it in several ways, depending on its tp: then the common
        divisor of all, so that a group which may span nodes never counts as inside one.
        """
        return stage_per_node(self.cluster, self.devices)

    @property
    def interfaces(self) -> Ints:
        """Number of network interfaces of the nodes that host the stage."""
        return self.nodes * self.cluster.nics_per_node


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """Messages of one strategy: sending pairs, and bytes per sender and receiver.

    ``before_s`` and ``after_s`` are the steps inside the stages.
    """

    pairs: Ints
    sender_bytes: Floats
    receiver_bytes: Floats
    before_s: Floats
    after_s: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkUse:
    """How one boundary uses the link between two clusters, by pairs of layouts.

    Attributes
    ----------
    connections
        Number of connections used at the same time.
    messages
        Mean number of messages per connection, sent one after the other.
    bytes_per_s
        Rate of all connections together.
    """

    connections: Ints
    messages: Floats
    bytes_per_s: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """Seconds of a boundary; ``strategy``: index in ``RESHARDING`` of the fastest."""

    transfer_s: Floats
    occupancy_s: Floats
    strategy: Ints


def stage_per_node(cluster: Cluster, devices: Ints) -> Ints:
    """Return ``Side.per_node`` of stages with ``devices`` devices."""
    common = np.zeros_like(devices)
    for size, _ in cluster.sizes:
        common = np.gcd(common, np.where(devices % size == 0, size, 0))
    inside = devices <= cluster.devices_per_node
    return np.where(inside, devices, np.maximum(common, 1))


def overlaps(first: Ints, second: Ints) -> Ints:
    """Return the overlapping pairs of slices if an axis is cut evenly in two ways."""
    return first + second - np.gcd(first, second)


def outer_degree(sender: Side, receiver: Side) -> Ints:
    """Return the number of data-parallel groups that exchange no samples.

    Deviation: HetAuto uses the gcd over all stages; over the boundary's two stages it
    is at least as large, which never costs more.
    """
    return np.gcd(sender.dp, receiver.dp)


def plan_transfer(
    name: Resharding,
    sender: Side,
    receiver: Side,
    total_bytes: float | Floats,
    outer: Ints,
) -> Transfer:
    """Return the messages of one strategy for a tensor of ``total_bytes``."""
    inner_first, inner_second = sender.dp // outer, receiver.dp // outer
    part = total_bytes / outer
    nothing = np.zeros(np.broadcast(sender.dp, receiver.dp, total_bytes).shape)
    if name == "p2p":
        return Transfer(
            pairs=outer
            * overlaps(inner_first, inner_second)
            * overlaps(sender.shards, receiver.shards),
            sender_bytes=total_bytes / sender.devices + nothing,
            receiver_bytes=total_bytes / receiver.devices + nothing,
            before_s=nothing,
            after_s=nothing,
        )
    group_first = inner_first * sender.shards
    group_second = inner_second * receiver.shards
    one = np.ones_like(outer)
    if name == "leader":
        return Transfer(
            pairs=outer,
            sender_bytes=part + nothing,
            receiver_bytes=part + nothing,
            before_s=_gather_s(sender, group_first, one, part),
            after_s=_gather_s(receiver, group_second, one, part),
        )
    if name == "inner-dp":
        first, second = part / sender.shards, part / receiver.shards
        return Transfer(
            pairs=outer * overlaps(sender.shards, receiver.shards),
            sender_bytes=first + nothing,
            receiver_bytes=second + nothing,
            before_s=_gather_s(sender, inner_first, sender.shards, first),
            after_s=_gather_s(receiver, inner_second, receiver.shards, second),
        )
    return Transfer(
        pairs=outer * overlaps(group_first, group_second),
        sender_bytes=total_bytes / sender.devices + nothing,
        receiver_bytes=total_bytes / receiver.devices + nothing,
        before_s=nothing,
        after_s=np.maximum(
            _gather_s(sender, group_first, one, part),
            _gather_s(receiver, group_second, one, part),
        ),
    )


def _gather_s(side: Side, size: Ints, stride: Ints, total_bytes: Floats) -> Floats:
    return all_gather_s(side.cluster, size, stride, side.per_node, total_bytes)


def steps_s(
    sender: Side,
    receiver: Side,
    links: ClusterLinks,
    transfer: Transfer,
    total_bytes: float | Floats,
) -> list[Floats]:
    """Return the steps of a boundary in order; kappa is their sum."""
    if sender.cluster.name == receiver.cluster.name:
        crossing = [_inside_s(sender, receiver, transfer, total_bytes)]
    else:
        crossing = _between_s(sender, receiver, links, transfer, total_bytes)
    return [transfer.before_s, *crossing, transfer.after_s]


def boundary(
    sender: Side,
    receiver: Side,
    links: ClusterLinks,
    total_bytes: float | Floats,
    permitted: tuple[Resharding, ...],
) -> Boundary:
    """Return the times and the fastest strategy of every pair of layouts.

    Parameters
    ----------
    total_bytes
        Size of a micro-batch's boundary tensor, over all replicas; an array broadcasts
        against the layouts.
    permitted
        Strategies that may be used, not empty; of equally fast ones the first is taken.
    """
    outer = outer_degree(sender, receiver)
    same = (sender.dp == receiver.dp) & (sender.shards == receiver.shards)
    peers = plan_transfer("p2p", sender, receiver, total_bytes, outer)
    peer_steps = steps_s(sender, receiver, links, peers, total_bytes)
    transfers, occupancies = [], []
    for name in permitted:
        steps = peer_steps
        if name != "p2p":
            transfer = plan_transfer(name, sender, receiver, total_bytes, outer)
            steps = steps_s(sender, receiver, links, transfer, total_bytes)
        transfers.append(
            np.where(same, np.add.reduce(peer_steps), np.add.reduce(steps))
        )
        occupancies.append(
            np.where(same, np.maximum.reduce(peer_steps), np.maximum.reduce(steps))
        )
    kappa = np.stack(transfers)
    index = np.array([RESHARDING.index(name) for name in permitted])
    return Boundary(
        transfer_s=kappa.min(axis=0),
        occupancy_s=np.minimum.reduce(occupancies),
        strategy=index[kappa.argmin(axis=0)],
    )


def tied_exchange_s(
    sender: Side, receiver: Side, links: ClusterLinks, total_bytes: float
) -> Floats:
    """Return the time to add up gradients of an embedding table that two stages hold.

    After the reduction in each stage every device holds an equal piece; pieces are sent
    in both directions at the same time, on full-duplex links.
    """
    transfer = Transfer(
        pairs=overlaps(sender.devices, receiver.devices),
        sender_bytes=total_bytes / sender.devices,
        receiver_bytes=total_bytes / receiver.devices,
        before_s=np.zeros(1),
        after_s=np.zeros(1),
    )
    steps = steps_s(sender, receiver, links, transfer, total_bytes)
    seconds: Floats = np.add.reduce(np.broadcast_arrays(*steps))
    return seconds


def permitted_strategies(domain: Domain) -> tuple[Resharding, ...]:
    """Return the strategies that the user permits; InputError if there are none."""
    permitted = tuple(name for name in RESHARDING if domain.permits(name))
    if not permitted:
        msg = f"no resharding strategy is left, expected one of {', '.join(RESHARDING)}"
        raise InputError(msg, field="pin.resharding")
    return permitted


def _between_s(
    sender: Side,
    receiver: Side,
    links: ClusterLinks,
    transfer: Transfer,
    total_bytes: float | Floats,
) -> list[Floats]:
    """Return the steps between clusters: one if device-direct, three if host-staged."""
    link = links.between(sender.cluster.name, receiver.cluster.name)
    if link is None:
        return [np.full(np.broadcast(transfer.pairs, total_bytes).shape, np.inf)]
    use = link_use(sender, receiver, link, transfer.pairs)
    network = (
        link.latency_s + use.messages * link.message_s + total_bytes / use.bytes_per_s
    )
    if link.staged == "device":
        return [network]
    return [
        _host_copy_s(sender.cluster, transfer.sender_bytes),
        network,
        _host_copy_s(receiver.cluster, transfer.receiver_bytes),
    ]


def link_use(sender: Side, receiver: Side, link: ClusterLink, pairs: Ints) -> LinkUse:
    """Return how a boundary of ``pairs`` messages uses a link (MODEL.md, links)."""
    hosts = np.minimum(np.minimum(sender.nodes, receiver.nodes), pairs)
    connections = _connections(sender, receiver, pairs)
    rate = connections * min(
        sender.cluster.inter_node.bandwidth_bytes_per_s,
        receiver.cluster.inter_node.bandwidth_bytes_per_s,
        link.connection_bytes_per_s or np.inf,
    )
    rate = np.minimum(rate, hosts * (link.node_bytes_per_s or np.inf))
    shared = min(
        link.capacity_bytes_per_s or np.inf,
        sender.cluster.uplink_bytes_per_s or np.inf,
        receiver.cluster.uplink_bytes_per_s or np.inf,
    )
    return LinkUse(
        connections=connections,
        messages=pairs / connections,
        bytes_per_s=np.minimum(rate, shared),
    )


def _inside_s(
    sender: Side, receiver: Side, transfer: Transfer, total_bytes: float | Floats
) -> Floats:
    """Return the single step between two stages of a cluster."""
    cluster = sender.cluster
    fewer = np.minimum(sender.devices, receiver.devices)
    busiest = np.maximum(transfer.sender_bytes, transfer.receiver_bytes)
    within = cluster.intra_node.latency_s + busiest / intra_node_bandwidth(cluster)
    connections = _connections(sender, receiver, transfer.pairs)
    each = cluster.inter_node.bandwidth_bytes_per_s * NETWORK_SHARE
    across = (
        transfer.pairs / connections * cluster.inter_node.latency_s
        + total_bytes / (connections * each)
    )
    if cluster.one_domain:
        near = near_link(cluster)
        nearby = near.latency_s + busiest / near.bandwidth_bytes_per_s
        across = np.minimum(across, nearby)
    return np.where(
        fewer < cluster.devices_per_node, np.maximum(across, within), across
    )


def _connections(sender: Side, receiver: Side, pairs: Ints) -> Ints:
    """Return the number of connections that a boundary uses at the same time."""
    return np.minimum(pairs, np.minimum(sender.interfaces, receiver.interfaces))


def _host_copy_s(cluster: Cluster, size_bytes: Floats) -> Floats:
    link = cluster.host_device
    return link.latency_s + size_bytes / (link.bandwidth_bytes_per_s * HOST_SHARE)
