"""Gradients added up over parallel pipelines, once per iteration (Hetu v2, 4.2).

The ranks that hold the same parameters have reduced and scattered their gradients
inside each pipeline. A unit's gradients are then added up over the pipelines, in slices
of the least common multiple of their degrees, each weighted by its samples: the R
pipelines' holders of a slice form a ring, over which 2 (R - 1) / R of the slice passes.
So a device moves 2 (R - 1) / R of its shard, for any degrees of the other pipelines;
slices for one device go in one message.

Which clusters of other pipelines hold a unit is known only when all plans are. So every
stage is charged the slowest path from its cluster to any cluster of another pipeline,
and its time depends on its own plan only. All devices of a cluster send at once: each
has its share of its node's interfaces, and of a link's or uplink's capacity. As inside
a pipeline, all but the last bucket is hidden behind the last micro-batch's backward
pass, unless nothing overlaps (``hetopt.cost.communication.synchronisation``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hetopt.cost.communication.collectives import (
    HOST_SHARE,
    NETWORK_SHARE,
    START_ACROSS_S,
    intra_node_bandwidth,
    near_link,
)
from hetopt.cost.memory import parameter_bytes
from hetopt.cost.pieces.operations import sum_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hetopt.cost.held_alike import HeldAlike
    from hetopt.cost.shapes import Floats
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.cluster.links import ClusterLink
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.training import Training


class Way(NamedTuple):
    """Rate and latency between one device and a device of another pipeline."""

    bytes_per_s: float
    latency_s: float


def slowest_way(
    problem: Problem,
    division: Sequence[Mapping[str, tuple[int, ...]]],
    number: int,
    name: str,
) -> Way:
    """Return the least rate and the largest latency to clusters of other pipelines.

    Parameters
    ----------
    division
        See ``hetopt.problem.division``; every two clusters in it have a link.
    number, name
        The pipeline, and one of its clusters.
    """
    clusters = {each.name: each for each in problem.clusters}
    others = {
        other
        for index, nodes in enumerate(division)
        for other in nodes
        if index != number
    }
    ways = [
        _inside(clusters[name])
        if other == name
        else _across(clusters[name], clusters[other], division, problem)
        for other in sorted(others)
    ]
    return Way(
        bytes_per_s=min(way.bytes_per_s for way in ways),
        latency_s=max(way.latency_s for way in ways),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """How gradients of a cluster's stages are added up over pipelines.

    Attributes
    ----------
    way
        See ``slowest_way``.
    pipelines
        Number of pipelines, at least 2.
    """

    way: Way
    pipelines: int

    @property
    def start_s(self) -> float:
        """Seconds per stage, independent of its units."""
        return START_ACROSS_S + 2 * (self.pipelines - 1) * self.way.latency_s

    def unit_s(self, training: Training, parts: Iterable[HeldAlike]) -> Floats:
        """Return the seconds of one unit, whose parameters are ``parts``; (R,)."""
        passes = 2 * (self.pipelines - 1) / self.pipelines
        shard = sum_of(part.parameters / part.shards for part in parts)
        size: Floats = shard * parameter_bytes(training).gradient
        return passes * size / self.way.bytes_per_s


def _interfaces(cluster: Cluster) -> float:
    """Return a device's share of its node's interfaces, in bytes per second."""
    network = cluster.nics_per_node * cluster.inter_node.bandwidth_bytes_per_s
    return network / cluster.devices_per_node


def _inside(cluster: Cluster) -> Way:
    bandwidth = min(_interfaces(cluster) * NETWORK_SHARE, intra_node_bandwidth(cluster))
    latency_s = cluster.inter_node.latency_s
    if cluster.one_domain:
        near = near_link(cluster)
        bandwidth = max(bandwidth, near.bandwidth_bytes_per_s)
        latency_s = min(latency_s, near.latency_s)
    return Way(bandwidth, latency_s)


def _across(
    here: Cluster,
    there: Cluster,
    division: Sequence[Mapping[str, tuple[int, ...]]],
    problem: Problem,
) -> Way:
    link = problem.links.between(here.name, there.name)
    if link is None:
        msg = f"there is no link between {here.name!r} and {there.name!r}"
        raise ValueError(msg)
    limits = [_interfaces(here), _interfaces(there), *_limits(link, here, there)]
    for end in (here, there):
        devices = sum(sum(nodes.get(end.name, ())) for nodes in division)
        shared = (link.capacity_bytes_per_s, end.uplink_bytes_per_s)
        limits += [each / devices for each in shared if each is not None]
    return Way(min(limits), link.latency_s + link.message_s)


def _limits(link: ClusterLink, here: Cluster, there: Cluster) -> list[float]:
    """Return limits of one device's rate, per node, connection and host copy."""
    limits = []
    if link.node_bytes_per_s is not None:
        largest = max(here.devices_per_node, there.devices_per_node)
        limits.append(link.node_bytes_per_s / largest)
    if link.connection_bytes_per_s is not None:
        limits.append(link.connection_bytes_per_s)
    if link.staged == "host":
        hosts = (here.host_device, there.host_device)
        limits += [each.bandwidth_bytes_per_s * HOST_SHARE for each in hosts]
    return limits
