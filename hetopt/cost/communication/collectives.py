"""Alpha-beta costs of collectives inside one cluster.

Ranks of a stage are numbered with tp fastest, then cp, then dp, on consecutive
devices of consecutive nodes, ``per_node`` of them in each: all of the stage's if it
is in one node. A group is ``size`` ranks ``stride`` apart: tensor
parallelism (tp, 1), context parallelism (cp, tp), gradients (dp * cp, tp). All
groups of a stage communicate at once.

- If the group's block of ``size * stride`` devices fits in a device group, or in the
  stage's devices of a node, the group uses that link.
- Otherwise its ring spans nodes, and the ``min(stride, devices_per_node)`` rings of a
  node share its network interfaces; the link inside the node is still a limit.
- If nodes form fast domains, groups whose block fits in a domain use its link, and to
  the others a domain counts as one large node, with the interfaces of its nodes.

In an all-to-all a member sends to members on other nodes over its share of the node's
interfaces, which all devices of the node use at once.

Links reach only a share of their nominal bandwidth, inside a node that of its devices
(``Accelerator.intra_node_share``). Every
collective has a start time, independent of its size, and the latency of every hop of
its ring.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hetopt.problem.cluster.accelerator import Link

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.cost.held_alike import HeldAlike
    from hetopt.cost.pieces.dispatched import Dispatched
    from hetopt.cost.shapes import Floats, Ints
    from hetopt.problem.cluster.cluster import Cluster

#: Share of a network interface's nominal bandwidth (calculon, InfiniBand).
NETWORK_SHARE = 0.9

#: Share of a ring's bandwidth that an all-to-all reaches inside a node: on 8 B200 it
#: has 0.60 of the nominal link (SimuMax's fit, ``data/collectives``), rings have 0.8.
ALL_TO_ALL_SHARE = 0.75

#: Seconds that a collective takes before it moves anything, inside a node and across
#: nodes. All-reduces of less than 200 kB take 25 to 50 us on 2, 4 and 8 devices of an
#: A100 or H100 node, and 70 to 100 us on 2 to 16 devices of two nodes (medians of
#: vidur's profiles); all-gathers on 8 B200 start in 23 us (SimuMax's fit).
START_S, START_ACROSS_S = 25e-6, 50e-6

#: Share of the nominal host link (PCIe) that pinned copies reach.
HOST_SHARE = 0.8


def intra_node_bandwidth(cluster: Cluster) -> float:
    """Return the bytes per second that a device reaches inside its node."""
    share = cluster.accelerator.intra_node_share
    return cluster.intra_node.bandwidth_bytes_per_s * share


def nodes_nearby(cluster: Cluster) -> int:
    """Return how many nodes are joined without the network: those of a domain."""
    return 1 if cluster.domain is None else cluster.domain.nodes


def near_link(cluster: Cluster) -> Link:
    """Return what joins the devices of a domain, else of a node, as it is reached."""
    link, nominal = cluster.intra_node, cluster.intra_node.bandwidth_bytes_per_s
    if cluster.domain is not None:
        link = cluster.domain.link
        nominal = min(nominal, link.bandwidth_bytes_per_s)
    reached = nominal * cluster.accelerator.intra_node_share
    return Link(bandwidth_bytes_per_s=reached, latency_s=link.latency_s)


def group_link(
    cluster: Cluster, size: Ints, stride: Ints, per_node: Ints
) -> tuple[Floats, Floats]:
    """Return bandwidth (bytes/s per rank) and mean latency (s per hop) of a ring.

    Parameters
    ----------
    per_node
        Devices that the stage has in each of its nodes.
    """
    if cluster.domain is not None:
        alone = group_link(replace(cluster, domain=None), size, stride, per_node)
        near = _over_domains(cluster, size, stride, per_node)
        # A slow domain is not used: it never costs more than none.
        return np.maximum(alone[0], near[0]), np.minimum(alone[1], near[1])
    return _over_domains(cluster, size, stride, per_node)


def _over_domains(
    cluster: Cluster, size: Ints, stride: Ints, per_node: Ints
) -> tuple[Floats, Floats]:
    """Return ``group_link`` of a cluster whose domains count as large nodes."""
    near = near_link(cluster)
    nodes = nodes_nearby(cluster)
    network = nodes * cluster.nics_per_node * cluster.inter_node.bandwidth_bytes_per_s
    rings = np.minimum(stride, nodes * cluster.devices_per_node)
    across = np.minimum(network * NETWORK_SHARE / rings, near.bandwidth_bytes_per_s)
    inside = _nearby(cluster, size, stride, per_node)
    bandwidth = np.where(inside, near.bandwidth_bytes_per_s, across)
    # In each node or domain, only the last member of a ring sends to another one.
    here = np.maximum(nodes * per_node // stride, 1)
    inner, outer = near.latency_s, cluster.inter_node.latency_s
    latency = np.where(inside, inner, ((here - 1) * inner + outer) / here)
    closer = []
    if cluster.domain is not None:
        closer.append((_inside(size, stride, per_node), cluster.intra_node))
    if cluster.group is not None:
        closer.append((cluster.group.size % (size * stride) == 0, cluster.group.link))
    for close, link in closer:
        nominal = link.bandwidth_bytes_per_s * cluster.accelerator.intra_node_share
        bandwidth = np.where(close, nominal, bandwidth)
        latency = np.where(close, link.latency_s, latency)
    return bandwidth, latency


def all_gather_s(
    cluster: Cluster, size: Ints, stride: Ints, per_node: Ints, total_bytes: Floats
) -> Floats:
    """Return a ring all-gather's time to ``total_bytes`` per rank; or a scatter's."""
    bandwidth, latency = group_link(cluster, size, stride, per_node)
    moved = (size - 1) * (total_bytes / size / bandwidth + latency)
    return moved + _start_s(cluster, size, stride, per_node)


def gather_held_s(
    cluster: Cluster, part: HeldAlike, per_node: Ints, bytes_each: int
) -> Floats:
    """Return the time to all-gather parameters over the ranks that share their shards.

    A parameter has ``bytes_each`` bytes.
    """
    total_bytes = part.parameters * bytes_each
    return all_gather_s(cluster, part.shards, part.stride, per_node, total_bytes)


def scatter_held_s(
    cluster: Cluster, part: HeldAlike, per_node: Ints, bytes_each: int
) -> Floats:
    """Return the time to add up gradients over the ranks that hold them, into shards.

    They are scattered over the ranks that share the shards, and each shard is reduced
    over its copies: as under ZeRO 0, scattered and gathered again.
    """
    scattered = gather_held_s(cluster, part, per_node, bytes_each)
    if (part.shards == part.replicas).all():
        return scattered
    copies, shard_bytes = part.copies, part.copies.parameters * bytes_each
    return scattered + 2 * all_gather_s(
        cluster, copies.replicas, copies.stride, per_node, shard_bytes
    )


def all_reduce_s(
    cluster: Cluster, size: Ints, stride: Ints, per_node: Ints, total_bytes: Floats
) -> Floats:
    """Return a ring all-reduce's time: reduce-scatter and all-gather, started once."""
    gather = all_gather_s(cluster, size, stride, per_node, total_bytes)
    return 2 * gather - _start_s(cluster, size, stride, per_node)


def all_to_all_s(
    cluster: Cluster, size: Ints, stride: Ints, per_node: Ints, dispatched: Dispatched
) -> Floats:
    """Return the time to dispatch tokens to experts; combination costs the same.

    A member sends ``1 / size`` of its tokens' copies to every other, one message each:
    ``(g - 1) alpha_in + (e - g) alpha_out + V / e ((g - 1) / B_in + (e - g) / B_out)``
    with g members of the group in a node. With ``groups``, a token is sent to each node
    once, and forwarded inside it.
    """
    if cluster.domain is not None:
        moved = _all_to_all_s(cluster, size, stride, per_node, dispatched)
        cluster = replace(cluster, domain=None)
        each = _all_to_all_s(cluster, size, stride, per_node, dispatched)
        return np.minimum(moved, each)
    return _all_to_all_s(cluster, size, stride, per_node, dispatched)


def _all_to_all_s(
    cluster: Cluster, size: Ints, stride: Ints, per_node: Ints, dispatched: Dispatched
) -> Floats:
    """Return ``all_to_all_s`` of a cluster whose domains count as large nodes."""
    # A group spread unevenly over nodes counts as spread evenly over more nodes.
    fits = _nearby(cluster, size, stride, per_node)
    near_devices = nodes_nearby(cluster) * per_node
    here = np.where(fits, size, np.gcd(size * stride, near_devices) // stride)
    ring, wait = group_link(cluster, size, stride, per_node)
    near = near_link(cluster)
    inner = np.where(fits, ring, near.bandwidth_bytes_per_s) * ALL_TO_ALL_SHARE
    network = cluster.nics_per_node * cluster.inter_node.bandwidth_bytes_per_s
    outer = np.minimum(network * NETWORK_SHARE / per_node, inner)
    total, nodes = dispatched.total_bytes, size // here
    inside, messages = total * (here - 1) / size, size - here
    outside = total * messages / size
    if dispatched.groups is not None:
        groups, chosen = dispatched.groups
        # Largest number of nodes with experts of one group; a group's are consecutive.
        spanned = (nodes + 2 * (groups - np.gcd(nodes, groups))) // groups
        # The fullest node receives ``load`` times the mean, but no token twice.
        over = max(dispatched.load, 1.0)
        copies = np.minimum(chosen * spanned, dispatched.copies / over)
        copies = np.minimum(np.minimum(copies, nodes) * over, nodes)
        outside = dispatched.token_bytes * copies * (1 - 1 / nodes)
        inside, messages = total * (here - 1) / here, nodes - 1
    waits = (here - 1) * np.where(fits, wait, near.latency_s)
    waits = waits + messages * cluster.inter_node.latency_s
    moved = inside / inner + outside / outer + waits
    return np.where(size > 1, moved, 0.0) + _start_s(cluster, size, stride, per_node)


def _start_s(cluster: Cluster, size: Ints, stride: Ints, per_node: Ints) -> Floats:
    near = _nearby(cluster, size, stride, per_node)
    return np.where(size > 1, np.where(near, START_S, START_ACROSS_S), 0.0)


def _nearby(
    cluster: Cluster, size: Ints, stride: Ints, per_node: Ints
) -> NDArray[np.bool_]:
    """Whether groups need no network: inside a node, or a domain.

    Blocks of nodes that do not divide a domain span two. Equal stages begin at
    multiples of their blocks.
    """
    if cluster.one_domain:
        return np.ones(np.broadcast(size, stride, per_node).shape, dtype=bool)
    return _inside(size, stride, per_node) | _inside(
        size, stride, nodes_nearby(cluster) * per_node
    )


def _inside(size: Ints, stride: Ints, per_node: Ints) -> NDArray[np.bool_]:
    """Whether groups are inside a node; blocks that do not divide it span two."""
    inside: NDArray[np.bool_] = per_node % (size * stride) == 0
    return inside
