"""In which order a cluster's nodes host its stages, as these follow each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hetopt.problem.cluster.packing import packed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.plans.plan import Stage
    from hetopt.problem.cluster.cluster import Cluster

    #: Nodes that nobody has taken: a size and how many there are, the largest first.
    Free = tuple[tuple[int, int], ...]


class Share(NamedTuple):
    """What a stage has of one node.

    Attributes
    ----------
    alone
        Whether nothing else may be there: the stage has several nodes.
    joins
        Whether the stage before it in the pipeline is of the same cluster, so that
        both may share a node.
    """

    devices: int
    alone: bool
    joins: bool


class Choice(NamedTuple):
    """Nodes taken for the first ``done`` shares, and what is left of the last one.

    Attributes
    ----------
    size
        Of the node that the last share opened; 0 if it joined another.
    before
        The choice that this one goes on from.
    """

    done: int
    left: int
    free: Free
    size: int = 0
    before: Choice | None = None


def shares_of(cluster: Cluster, stages: Sequence[Stage]) -> list[Share]:
    """Return what a cluster's stages have of their nodes, in pipeline order."""
    shares = []
    before = None
    for stage in stages:
        if stage.cluster == cluster.name:
            devices = stage.strategy.devices
            fit = packed(cluster, devices, stage.strategy.inside)
            each = devices if fit is None else fit.per_node
            one = Share(each, each < devices, before == cluster.name)
            shares += [one] * (devices // each)
        before = stage.cluster
    return shares


def node_order(cluster: Cluster, shares: Sequence[Share]) -> list[int]:
    """Return the node of every share, counted from 0.

    A node's shares follow each other. Of nodes that would do, the smallest are tried
    first; of those of one size, the first. If there is no such order, nodes are those
    of as many shares as have some.
    """
    start = furthest = Choice(0, 0, cluster.sizes)
    open_, seen = [start], set()
    while open_ and furthest.done < len(shares):
        choice = open_.pop()
        if choice[:3] in seen:
            continue
        seen.add(choice[:3])
        furthest = max(furthest, choice, key=lambda each: each.done)
        if choice.done < len(shares):
            # The last one is tried first.
            open_ += _next(choice, shares[choice.done])
    return _numbered(cluster, furthest)


def _next(choice: Choice, share: Share) -> list[Choice]:
    """Return where one more share can go: a node of its own, or beside the last."""
    done = choice.done + 1
    found = []
    for place, (size, count) in enumerate(choice.free):
        if size >= share.devices and count:
            free = (*choice.free[:place], (size, count - 1), *choice.free[place + 1 :])
            left = 0 if share.alone else size - share.devices
            found.append(Choice(done, left, free, size, choice))
    if share.joins and not share.alone and choice.left >= share.devices:
        left = choice.left - share.devices
        found.append(Choice(done, left, choice.free, 0, choice))
    return found


def _numbered(cluster: Cluster, last: Choice) -> list[int]:
    """Return the node of every share up to a choice, first come first served."""
    opened = []
    choice: Choice | None = last
    while choice is not None and choice.before is not None:
        opened.append(choice.size)
        choice = choice.before
    unused = {size: iter(_of_size(cluster, size)) for size, _ in cluster.sizes}
    found: list[int] = []
    for size in reversed(opened):
        found.append(next(unused[size]) if size else found[-1])
    return found


def _of_size(cluster: Cluster, size: int) -> Sequence[int]:
    if cluster.unequal is None:
        return range(cluster.nodes)
    return [k for k, own in enumerate(cluster.unequal) if own == size]
