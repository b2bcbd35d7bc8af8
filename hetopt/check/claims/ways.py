"""All ways to divide nodes among pipelines, enumerated for the checker."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import TYPE_CHECKING

from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.problem.problem import Problem

    #: Devices of each node of one cluster, by pipeline.
    Given = tuple[tuple[int, ...], ...]
    #: By pipeline and cluster, the devices of each node, largest first.
    Division = tuple[dict[str, tuple[int, ...]], ...]

#: Most ways to hand out halves of nodes that are enumerated.
_MOST_WAYS = 5 * 10**6


def count_limit(problem: Problem, most: int) -> None:
    """Raise InputError if nodes can be divided in too many ways to enumerate them."""
    nodes = max(count for each in problem.clusters for _, count in each.sizes)
    if (2 * nodes + 1) ** most > _MOST_WAYS:
        msg = f"is {most}: the ways to divide {nodes} nodes are too many"
        raise InputError(msg, field="over.divisions.most")


def name_of(way: Division) -> frozenset[tuple[object, int]]:
    """Return a key of a division that ignores the order of its pipelines."""
    return frozenset(Counter(frozenset(own.items()) for own in way).items())


def ways_of(problem: Problem, most: int, *, cuts: bool) -> list[Division]:
    """Return every division among 1 to ``most`` pipelines once, in any order of them.

    Parameters
    ----------
    cuts
        Whether nodes may be cut into halves.
    """
    found: dict[object, Division] = {}
    for pipelines in range(1, most + 1):
        for way in _among(problem, pipelines, cuts=cuts):
            found.setdefault(name_of(way), way)
    return [way for way in found.values() if _is_linked(problem, way)]


def _among(problem: Problem, pipelines: int, *, cuts: bool) -> Iterator[Division]:
    """Yield the divisions among a number of pipelines in which each has nodes."""
    options: list[list[Given]] = []
    for cluster in problem.clusters:
        kinds = [
            _handed_out(size, count, pipelines, cuts=cuts)
            for size, count in cluster.sizes
        ]
        given: list[Given] = [((),) * pipelines] if pipelines > 1 else []
        given += [
            tuple(
                tuple(sorted((x for own in choice for x in own[r]), reverse=True))
                for r in range(pipelines)
            )
            for choice in product(*kinds)
        ]
        options.append(given)
    names = [cluster.name for cluster in problem.clusters]
    for shares in product(*options):
        way = tuple(
            {name: own[r] for name, own in zip(names, shares, strict=True) if own[r]}
            for r in range(pipelines)
        )
        if all(way):
            yield way


def _is_linked(problem: Problem, way: Division) -> bool:
    """Whether clusters of different pipelines are linked, for their gradients."""
    return all(
        a == b or problem.links.between(a, b) is not None
        for r, own in enumerate(way)
        for other in way[r + 1 :]
        for a in own
        for b in other
    )


def _handed_out(
    size: int, count: int, pipelines: int, *, cuts: bool
) -> list[tuple[tuple[int, ...], ...]]:
    """Return all ways to hand out equal nodes, whole or in halves.

    A pipeline has at most one half; two halves are a node.

    Parameters
    ----------
    cuts
        Whether nodes may be cut into halves.
    """
    step = 1 if cuts and size % 2 == 0 else 2
    return [
        tuple((size,) * (each // 2) + (size // 2,) * (each % 2) for each in halves)
        for halves in _sums(2 * count, pipelines, step)
    ]


def _sums(total: int, parts: int, step: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to write a total, a multiple of ``step``, as a sum of such."""
    if parts == 1:
        yield (total,)
        return
    for first in range(0, total + 1, step):
        for rest in _sums(total - first, parts - 1, step):
            yield (first, *rest)
