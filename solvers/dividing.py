"""All ways to divide nodes among pipelines.

A cluster is left unused, or all its nodes are assigned: each as a whole, or in two
halves to two pipelines. A pipeline gets at most one half of a node of each size.
Without P4, where stages of several sizes are counted in whole nodes, no node is cut.
Divisions that differ only in the order of the pipelines are the same.
"""

from __future__ import annotations

from itertools import combinations, product
from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.errors import InputError
from hetopt.problem.division import unlinked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.problem import Problem

    #: Name of a cluster, and the devices of each node or half, descending.
    Parts = tuple[tuple[str, tuple[int, ...]], ...]
    Division = tuple[Parts, ...]

#: Most divisions of one problem, as they are all listed.
MOST_DIVISIONS = 5_000
#: Most ways to assign halves of equal nodes, before any are excluded: the checker tries
#: each one.
_MOST_CHOICES = 5 * 10**6


def divisions(problem: Problem, most: int, *, cuts: bool = True) -> list[Division]:
    """Return every way to divide the nodes among 2 to ``most`` pipelines.

    Parameters
    ----------
    cuts
        Whether nodes may be cut in halves.

    Raises
    ------
    InputError
        There are too many of them.
    """
    nodes = max(count for each in problem.clusters for _, count in each.sizes)
    if (2 * nodes + 1) ** most > _MOST_CHOICES:
        msg = (
            f"is {most}: {counted(nodes, 'node')} can be divided in too many ways, ask "
            "for fewer"
        )
        raise InputError(msg, field="pipelines")
    found: dict[Division, None] = {}
    for pipelines in range(2, most + 1):
        options = [[*_cluster(each, pipelines, cuts=cuts)] for each in problem.clusters]
        for choice in product(*options):
            division = tuple(
                tuple(
                    (cluster.name, parts[r])
                    for cluster, parts in zip(problem.clusters, choice, strict=True)
                    if parts[r]
                )
                for r in range(pipelines)
            )
            if not all(division):
                continue
            found[tuple(sorted(division, reverse=True))] = None
            if len(found) > MOST_DIVISIONS:
                msg = (
                    f"is {most}: there are more than {MOST_DIVISIONS:,} ways to divide "
                    "the nodes, ask for fewer pipelines"
                )
                raise InputError(msg, field="pipelines")
    return [
        division
        for division in found
        if not any(unlinked(problem, [dict(parts) for parts in division]))
    ]


def _cluster(
    cluster: Cluster, pipelines: int, *, cuts: bool
) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Yield what each pipeline may get of a cluster; at first nothing."""
    yield ((),) * pipelines
    by_size = [
        [*_nodes(size, count, pipelines, cuts=cuts)] for size, count in cluster.sizes
    ]
    for choice in product(*by_size):
        yield tuple(
            tuple(sorted((x for own in choice for x in own[r]), reverse=True))
            for r in range(pipelines)
        )


def _nodes(
    size: int, count: int, pipelines: int, *, cuts: bool
) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Yield what each pipeline may get of nodes of one size."""
    most_cut = min(count, pipelines // 2) if cuts and size % 2 == 0 else 0
    for cut in range(most_cut + 1):
        for halves in combinations(range(pipelines), 2 * cut):
            for whole in _shared_out(count - cut, pipelines):
                yield tuple(
                    (size,) * whole[r] + (size // 2,) * (r in halves)
                    for r in range(pipelines)
                )


def _shared_out(count: int, pipelines: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to assign ``count`` nodes to pipelines."""
    if pipelines == 1:
        yield (count,)
        return
    for first in range(count + 1):
        for rest in _shared_out(count - first, pipelines - 1):
            yield (first, *rest)
