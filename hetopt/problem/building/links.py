"""The networks between clusters, from the problem file's fields."""

from __future__ import annotations

import math
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

from hetopt.base.record import Fault
from hetopt.problem.building.names import check_cluster
from hetopt.problem.cluster.cluster import ClusterLink, ClusterLinks

if TYPE_CHECKING:
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.document.document import FieldPath
    from hetopt.problem.schema.links import ClusterLinkSpec, LinksSpec


def build_links(spec: LinksSpec | None, clusters: tuple[Cluster, ...]) -> ClusterLinks:
    """Return the links; Fault where one is missing or given twice."""
    names = tuple(cluster.name for cluster in clusters)
    every = [frozenset(pair) for pair in combinations(names, 2)]
    if spec is None or (spec.default is None and not spec.pairs):
        if every:
            msg = (
                f"is missing, expected the network between the {len(names)} clusters, "
                "such as {default: {bandwidth: 10 Gbps, latency: 1 ms}}"
            )
            raise Fault(msg, *("links",) if spec is None else ("links", "default"))
        # A single cluster has no network to another: no link is ever read.
        return ClusterLinks(default=None)
    default = None
    if spec.default is not None:
        default = _cluster_link(spec.default, None, ("links", "default"))
    pairs: dict[frozenset[str], ClusterLink | None] = {}
    for index, pair in enumerate(spec.pairs):
        path: FieldPath = ("links", "pairs", index)
        for position, name in enumerate(pair.between):
            check_cluster(name, names, (*path, "between", position))
        key = frozenset(pair.between)
        if len(key) == 1:
            msg = f"names {pair.between[0]!r} twice, expected two clusters"
            raise Fault(msg, *path, "between")
        if key in pairs:
            listed = " and ".join(pair.between)
            raise Fault(f"gives {listed} a second time", *path, "between")
        pairs[key] = _cluster_link(pair, spec.default, path)
    if spec.default is None:
        for key in every:
            if key not in pairs:
                msg = (
                    "is missing, and pairs has no link between "
                    f"{' and '.join(sorted(key))}"
                )
                raise Fault(msg, "links", "default")
    return ClusterLinks(default=default, pairs=pairs)


def check_order(order: tuple[str, ...] | None, links: ClusterLinks) -> None:
    """Refuse a pinned order with neighbours that no link joins."""
    for first, second in pairwise(order or ()):
        if links.between(first, second) is None:
            msg = f"puts {second!r} after {first!r}, and there is no link between them"
            raise Fault(msg, "pin", "order")


def _cluster_link(
    spec: ClusterLinkSpec, default: ClusterLinkSpec | None, path: FieldPath
) -> ClusterLink | None:
    """Return a link, completed by the default; None if its bandwidth is ``none``."""

    def given(name: str) -> Any:
        value = getattr(spec, name)
        return getattr(default, name) if value is None and default else value

    bandwidth, latency = given("bandwidth"), given("latency")
    if bandwidth is None:
        msg = "is missing, expected one such as '10 Gbps', unlimited or none"
        raise Fault(msg, *path, "bandwidth")
    if bandwidth == 0:
        return None
    if latency is None:
        raise Fault("is missing, expected one such as '1 ms'", *path, "latency")
    return ClusterLink(
        latency_s=latency,
        capacity_bytes_per_s=None if math.isinf(bandwidth) else bandwidth,
        node_bytes_per_s=given("per_node"),
        connection_bytes_per_s=given("per_connection"),
        message_s=given("per_message") or 0.0,
        staged=given("staged") or "host",
    )
