"""Alpha-beta costs of collectives inside one cluster.

Ranks of a stage are numbered with tp fastest, then cp, then dp, on consecutive
devices of consecutive nodes. A group is ``size`` ranks ``stride`` apart: tensor
parallelism (tp, 1), context parallelism (cp, tp), gradients (dp * cp, tp). All
groups of a stage communicate at once.

- A group whose block of ``size * stride`` devices fits the device group or the node
  uses that link.
- Otherwise its ring leaves the node, and the ``min(stride, devices_per_node)`` rings
  of a node share its network interfaces; the link inside the node still caps it.

Nominal bandwidths are reached in part: ``link_share``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hetopt.cost.shapes import Floats, Ints
    from hetopt.problem.cluster import Cluster

#: Share of a network interface's nominal bandwidth (calculon, InfiniBand).
NETWORK_SHARE = 0.9

#: Share of the nominal link inside a node: 174 of 300 GB/s bus bandwidth measured on
#: A100 (all-reduce of 64 MiB over 8 ranks, vidur's profiles).
INTRA_NODE_SHARE = 0.58

#: Families that reach more: 365 of 450 GB/s on H100 in the same profiles.
INTRA_NODE_SHARES = dict.fromkeys(("H100", "H200", "H800", "H20", "B200"), 0.8)

#: Share of the nominal host link (PCIe) that pinned copies reach.
HOST_SHARE = 0.8


def intra_node_share(cluster: Cluster) -> float:
    """Return the share of the nominal link inside a node that is reached."""
    name = cluster.accelerator.name
    for family, share in INTRA_NODE_SHARES.items():
        if name.startswith(family):
            return share
    return INTRA_NODE_SHARE


def intra_node_bandwidth(cluster: Cluster) -> float:
    """Bytes per second that a device reaches inside its node."""
    return cluster.intra_node.bandwidth_bytes_per_s * intra_node_share(cluster)


def group_link(cluster: Cluster, size: Ints, stride: Ints) -> tuple[Floats, Floats]:
    """Return bandwidth (bytes/s per rank) and latency (s per step) of groups."""
    span = size * stride
    per_node = cluster.devices_per_node
    intra = intra_node_bandwidth(cluster)
    network = cluster.nics_per_node * cluster.inter_node.bandwidth_bytes_per_s
    rings = np.minimum(stride, per_node)
    across = np.minimum(network * NETWORK_SHARE / rings, intra)
    # Blocks are laid side by side, so one that does not divide a node straddles two.
    inside = per_node % span == 0
    bandwidth = np.where(inside, intra, across)
    latency = np.where(
        inside, cluster.intra_node.latency_s, cluster.inter_node.latency_s
    )
    if cluster.group is not None:
        close = cluster.group.size % span == 0
        link = cluster.group.link
        nominal = link.bandwidth_bytes_per_s * intra_node_share(cluster)
        bandwidth = np.where(close, nominal, bandwidth)
        latency = np.where(close, link.latency_s, latency)
    return bandwidth, latency


def all_gather_s(
    cluster: Cluster, size: Ints, stride: Ints, total_bytes: Floats
) -> Floats:
    """Ring all-gather to ``total_bytes`` per rank; reduce-scatter costs the same."""
    bandwidth, latency = group_link(cluster, size, stride)
    return (size - 1) * (total_bytes / size / bandwidth + latency)


def all_reduce_s(
    cluster: Cluster, size: Ints, stride: Ints, total_bytes: Floats
) -> Floats:
    """Ring all-reduce: a reduce-scatter and an all-gather."""
    return 2 * all_gather_s(cluster, size, stride, total_bytes)
