"""Apply a problem's calibration while its table is built."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.problem.cluster.accelerator import Link
from hetopt.problem.cluster.cluster import Cluster
from hetopt.problem.cluster.links import ClusterLink, ClusterLinks

if TYPE_CHECKING:
    from hetopt.cost.sources.source import LatencySource, ShardQuery, ShardTimes
    from hetopt.cost.table.table import SourceKind
    from hetopt.problem.calibration import Calibration
    from hetopt.problem.problem import Problem


class CorrectedSource:
    """Latency source that divides another's times by each cluster's efficiency."""

    def __init__(self, source: LatencySource, calibration: Calibration) -> None:
        self._source = source
        self._calibration = calibration

    def source_kind(self, cluster: Cluster) -> SourceKind:
        """Return the source's own answer."""
        return self._source.source_kind(cluster)

    def shard_times(self, query: ShardQuery) -> ShardTimes:
        """Return the source's times, divided by the cluster's factor."""
        times = self._source.shard_times(query)
        factor = self._calibration.efficiency_of(query.cluster.name)
        if factor == 1:
            return times
        return replace(
            times,
            forward_s=times.forward_s / factor,
            backward_s=times.backward_s / factor,
            attention_core_s=times.attention_core_s / factor,
            attention_core_backward_s=times.attention_core_backward_s / factor,
            weight_s=times.weight_s / factor,
        )


def with_corrected_links(problem: Problem) -> Problem:
    """Return the problem with bandwidths scaled by its calibration."""
    inside, factor = problem.calibration.intra_node, problem.calibration.bandwidth
    if inside == factor == 1:
        return problem
    links = problem.links
    return replace(
        problem,
        clusters=tuple(
            _with_scaled_links(cluster, inside, factor) for cluster in problem.clusters
        ),
        links=ClusterLinks(
            default=_scaled_link(links.default, factor),
            pairs={
                pair: _scaled_link(link, factor) for pair, link in links.pairs.items()
            },
        ),
    )


def _with_scaled_links(cluster: Cluster, inside: float, network: float) -> Cluster:
    group = cluster.group
    if group is not None:
        group = replace(group, link=_scaled(group.link, inside))
    domain = cluster.domain
    if domain is not None:
        domain = replace(domain, link=_scaled(domain.link, inside))
    uplink = cluster.uplink_bytes_per_s
    return replace(
        cluster,
        uplink_bytes_per_s=None if uplink is None else uplink * network,
        intra_node=_scaled(cluster.intra_node, inside),
        inter_node=_scaled(cluster.inter_node, network),
        group=group,
        domain=domain,
    )


def _scaled(link: Link, factor: float) -> Link:
    return replace(link, bandwidth_bytes_per_s=link.bandwidth_bytes_per_s * factor)


def _scaled_link(link: ClusterLink | None, factor: float) -> ClusterLink | None:
    if link is None:
        return None

    def scaled(rate: float | None) -> float | None:
        return None if rate is None else rate * factor

    return replace(
        link,
        capacity_bytes_per_s=scaled(link.capacity_bytes_per_s),
        node_bytes_per_s=scaled(link.node_bytes_per_s),
        connection_bytes_per_s=scaled(link.connection_bytes_per_s),
    )
