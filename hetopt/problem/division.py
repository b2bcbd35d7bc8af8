"""Divide the nodes of a problem among pipelines that run side by side (Hetu v2).

Every pipeline has devices that no other has; a node can be divided too. ``part_of``
returns the problem of one pipeline. Shared resources are divided in advance, so that
beside the others no pipeline takes longer than its own problem says: a part of a node
has the same part of its interfaces, and the pipelines that use a link or an uplink have
equal parts of its capacity.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.errors import InputError
from hetopt.problem.cluster.links import ClusterLinks
from hetopt.problem.training.pins import Pins

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.cluster.links import ClusterLink
    from hetopt.problem.problem import Problem

    #: Cluster name -> devices that a pipeline has in each of its nodes.
    Nodes = Mapping[str, tuple[int, ...]]


def part_of(
    problem: Problem, division: Sequence[Nodes], number: int, batch: int
) -> Problem:
    """Return the problem of one pipeline.

    Parameters
    ----------
    division
        Nodes of each pipeline; see ``ensure_division``.
    number
        Number of the pipeline, from 0.
    batch
        Sequences of the pipeline in an iteration, at least 1.
    """
    own = division[number]
    clusters = tuple(
        _part(each, own, division) for each in problem.clusters if own.get(each.name)
    )
    return replace(
        problem,
        clusters=clusters,
        links=_links(problem, division, own),
        training=replace(problem.training, global_batch=batch),
    )


def everything(problem: Problem) -> dict[str, tuple[int, ...]]:
    """Return all nodes, as the share of a single pipeline."""
    return {
        each.name: tuple(x for x, count in each.sizes for _ in range(count))
        for each in problem.clusters
    }


def ensure_division(problem: Problem, division: Sequence[Nodes]) -> None:
    """Raise InputError if a pipeline has no or unknown nodes, or two have no link.

    Whether all parts together fit into the nodes is not checked.
    """
    known = {each.name: each for each in problem.clusters}
    for number, nodes in enumerate(division):
        field = f"pipelines.{number}.share.nodes"
        if not any(nodes.values()):
            raise InputError("is empty, expected some nodes", field=field)
        for name, parts in nodes.items():
            if name not in known:
                msg = f"no cluster is named {name!r}, expected {', '.join(known)}"
                raise InputError(msg, field=field)
            largest = known[name].devices_per_node
            if not all(1 <= size <= largest for size in parts):
                msg = (
                    f"is {list(parts)}, expected 1 to {counted(largest, 'device')} of "
                    "a node"
                )
                raise InputError(msg, field=f"{field}.{name}")
    for apart in unlinked(problem, division):
        names = " and ".join(apart)
        msg = f"gradients cannot be reduced between {names}: there is no link"
        raise InputError(msg, field="pipelines")


def unlinked(problem: Problem, division: Sequence[Nodes]) -> Iterator[tuple[str, str]]:
    """Yield clusters of two pipelines that no link connects."""
    used = [[name for name, sizes in each.items() if sizes] for each in division]
    for one, other in combinations(used, 2):
        for first, second in product(one, other):
            if first != second and problem.links.between(first, second) is None:
                yield first, second


def pins_fault(pins: Pins) -> str | None:
    """Return the name of a pin that is for a whole plan, not a pipeline, or None."""
    free = Pins()
    for name in ("stages", "microbatches", "order", "units"):
        if getattr(pins, name) != getattr(free, name):
            return name
    for cluster, own in pins.clusters.items():
        for name in ("stages", "units"):
            if getattr(own, name) != getattr(free.of(cluster), name):
                return f"clusters.{cluster}.{name}"
    return None


def node_share(cluster: Cluster, division: Sequence[Nodes], own: Nodes) -> Fraction:
    """Return the smallest fraction of a cluster's node that a pipeline's parts may be.

    Parts of one size are whole nodes unless all pipelines together have more of them
    than there are nodes of that size: then any of them may be part of a larger node.
    """
    whole = Counter(dict(cluster.sizes))
    cut = Counter(x for nodes in division for x in nodes.get(cluster.name, ())) - whole
    parts = [size for size in own[cluster.name] if size in cut]
    return Fraction(
        min(parts, default=cluster.devices_per_node), cluster.devices_per_node
    )


def halved(cluster: Cluster) -> Cluster | None:
    """Return a cluster with every node cut in two halves; None if none can be.

    Nodes with an odd number of devices stay whole.
    """
    parts = [
        part
        for size, count in cluster.sizes
        for part in ([size // 2] * 2 if size % 2 == 0 else [size]) * count
    ]
    if len(parts) == cluster.nodes:
        return None
    whole = tuple(sorted(parts, reverse=True))
    own = {cluster.name: whole}
    return _part(cluster, own, [own])


def forms(cluster: Cluster) -> Iterator[Cluster]:
    """Yield clusters of which one is as quick as a part is, for any of its stages.

    That is the cluster, with whole and with halved nodes. A stage of several unequal
    nodes has as many devices in each of them as suits most such stages, which in a part
    may be another number than in the cluster: so also all nodes that have a certain
    number of devices, with those alone. If nodes have so few, with all interfaces.
    """
    yield cluster
    both = halved(cluster)
    if both is not None:
        yield both
    whole = dict(cluster.sizes)
    if cluster.unequal is None:
        return
    halves = {size // 2 for size in whole if size % 2 == 0}
    for size in sorted({*whole, *halves}):
        held = (
            count * (2 if other % 2 == 0 and other // 2 >= size else 1)
            for other, count in whole.items()
            if other >= size
        )
        own = {cluster.name: (size,) * sum(held)}
        yield _part(cluster, own, [] if size in whole else [own])


def _part(cluster: Cluster, own: Nodes, division: Sequence[Nodes]) -> Cluster:
    """Return a pipeline's part of a cluster."""
    parts = own[cluster.name]
    largest = max(parts)
    share = node_share(cluster, division, own)
    interfaces, inter_node = cluster.nics_per_node * share, cluster.inter_node
    if interfaces.denominator > 1:
        slower = inter_node.bandwidth_bytes_per_s * float(share)
        inter_node = replace(inter_node, bandwidth_bytes_per_s=slower)
        interfaces = Fraction(cluster.nics_per_node)
    group = cluster.group
    if group is not None and any(size % group.size for size in parts):
        group = None
    domain = cluster.domain
    if domain is not None:
        # Where parts begin in several domains is not known.
        most = max(domain.nodes, len(parts))
        domain = replace(domain, nodes=most) if cluster.one_domain else None
    uplink = cluster.uplink_bytes_per_s
    if uplink is not None:
        uplink /= max(1, sum(_leaves(nodes, cluster.name) for nodes in division))
    return replace(
        cluster,
        nodes=len(parts),
        devices_per_node=largest,
        unequal=None if min(parts) == largest else parts,
        max_tp=min(cluster.max_tp, largest),
        nics_per_node=int(interfaces),
        inter_node=inter_node,
        group=group,
        domain=domain,
        uplink_bytes_per_s=uplink,
        price_per_hour=None,
        hosts=None,
    )


def _leaves(nodes: Nodes, name: str) -> bool:
    """Whether a pipeline has nodes of a cluster, and of another one."""
    return bool(nodes.get(name)) and any(
        sizes for other, sizes in nodes.items() if other != name
    )


def _links(problem: Problem, division: Sequence[Nodes], own: Nodes) -> ClusterLinks:
    """Return the links of one pipeline, with its part of their bandwidth."""
    clusters = {each.name: each for each in problem.clusters}
    pairs = dict(problem.links.pairs)
    for first, second in combinations([name for name in clusters if own.get(name)], 2):
        link = problem.links.between(first, second)
        if link is None:
            continue
        both = [nodes for nodes in division if nodes.get(first) and nodes.get(second)]
        share = min(
            node_share(clusters[name], division, own) for name in (first, second)
        )
        pairs[frozenset({first, second})] = _narrowed(link, len(both), float(share))
    return ClusterLinks(default=problem.links.default, pairs=pairs)


def _narrowed(link: ClusterLink, pipelines: int, share: float) -> ClusterLink:
    capacity, node = link.capacity_bytes_per_s, link.node_bytes_per_s
    return replace(
        link,
        capacity_bytes_per_s=None if capacity is None else capacity / pipelines,
        node_bytes_per_s=None if node is None else node * share,
    )
