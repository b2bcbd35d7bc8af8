"""Assigns a cluster's nodes to its stages in pipeline order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hetopt.export.node_parts import Part, nodes_of
from hetopt.problem.cluster.packing import packed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.plans.plan import Stage
    from hetopt.problem.cluster.cluster import Cluster

    #: Free nodes as (size, number of nodes), the largest size first.
    Free = tuple[tuple[int, int], ...]


class Share(NamedTuple):
    """The devices that a stage takes on one node.

    Attributes
    ----------
    alone
        Whether the stage has several nodes, which it shares with no other stage.
    joins
        Whether the stage before it in the pipeline is on the same cluster, so that
        both may share a node.
    """

    devices: int
    alone: bool
    joins: bool


class Choice(NamedTuple):
    """Nodes taken for the first ``done`` shares; ``left`` is free on the last node.

    Attributes
    ----------
    size
        Size of the node that the last share opened; 0 if it joined the node before.
    before
        The choice that this one extends.
    """

    done: int
    left: int
    free: Free
    size: int = 0
    before: Choice | None = None


def shares_of(cluster: Cluster, stages: Sequence[Stage]) -> list[Share]:
    """Return the shares of a cluster's stages, in pipeline order."""
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

    The shares of a node follow each other if they can. The node of the share before is
    tried first, then free nodes, the smallest first; of one size, the first. If not all
    shares fit, the list ends with the last share that could be placed.
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
            # The choice that is added last is tried first.
            open_ += _next(choice, shares[choice.done])
    if furthest.done < len(shares):
        apart = nodes_of(cluster, [Part(each.devices, each.alone) for each in shares])
        if apart is not None:
            return apart
    return _numbered(cluster, furthest)


def _next(choice: Choice, share: Share) -> list[Choice]:
    """Return the choices for one more share: a free node, or the last share's node."""
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
    """Return the node of every share up to a choice; nodes of a size in order."""
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
