"""The nodes of a problem divided among pipelines that run side by side (Hetu v2).

Every pipeline has some devices of some nodes, which no other has; a node may be divided
too. What a pipeline can do with them is a problem of its own: that of ``part_of``. What
several pipelines share is divided among them once and for all, so that each takes no
longer beside the others than its problem says: a part of a node has its part of the
interfaces, and all that reach a link or an uplink have equal parts of its capacity.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from typing import TYPE_CHECKING

from hetopt.errors import InputError
from hetopt.problem.cluster.cluster import ClusterLinks
from hetopt.problem.training.pins import Pins

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hetopt.problem.cluster.cluster import Cluster, ClusterLink
    from hetopt.problem.problem import Problem

    #: By cluster, the devices that a pipeline has in each of its nodes.
    Nodes = Mapping[str, tuple[int, ...]]


def part_of(
    problem: Problem, division: Sequence[Nodes], number: int, batch: int
) -> Problem:
    """Return the problem of one pipeline.

    Parameters
    ----------
    division
        What each pipeline has; see ``ensure_division``.
    number
        Of the pipeline, from 0.
    batch
        Sequences that it takes in an iteration, at least 1.
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
    """Return all nodes there are, as the only pipeline of a plan has them."""
    return {
        each.name: tuple(x for x, count in each.sizes for _ in range(count))
        for each in problem.clusters
    }


def ensure_division(problem: Problem, division: Sequence[Nodes]) -> None:
    """Raise InputError unless every pipeline has parts of nodes there are, and links.

    Whether the parts can all be cut from the nodes is not looked at.
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
                msg = f"is {list(parts)}, expected 1 to {largest} devices of a node"
                raise InputError(msg, field=f"{field}.{name}")
    for apart in unlinked(problem, division):
        msg = f"gradients cannot pass between {' and '.join(apart)}: there is no link"
        raise InputError(msg, field="pipelines")


def unlinked(problem: Problem, division: Sequence[Nodes]) -> Iterator[tuple[str, str]]:
    """Yield clusters of two pipelines that no link connects."""
    for one, other in combinations(division, 2):
        for first, second in product(one, other):
            if first != second and problem.links.between(first, second) is None:
                yield first, second


def pins_fault(pins: Pins) -> str | None:
    """Say which pins are of a whole plan, and not of each pipeline; None if none is."""
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
    """Return the least share that one pipeline's parts are of nodes of a cluster.

    Parts of a size are whole nodes unless pipelines have more of them together than
    there are nodes of that size: then any of them may have been cut.
    """
    whole = Counter(dict(cluster.sizes))
    cut = Counter(x for nodes in division for x in nodes.get(cluster.name, ())) - whole
    parts = [size for size in own[cluster.name] if size in cut]
    return Fraction(
        min(parts, default=cluster.devices_per_node), cluster.devices_per_node
    )


def halved(cluster: Cluster) -> Cluster | None:
    """Return a cluster whose nodes are all cut in two halves; None if that cannot be.

    Nodes of an odd number of devices stay whole.
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


def _part(cluster: Cluster, own: Nodes, division: Sequence[Nodes]) -> Cluster:
    """Return what a pipeline has of a cluster."""
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
    """Return the links of one pipeline, with its part of what they carry."""
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
