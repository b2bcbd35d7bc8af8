"""All ways to divide nodes among pipelines, and what their device time bounds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cached_property
from itertools import product
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.device_work import least_seconds_of_lengths
from hetopt.cost.divided import depends_on, sources_by_length
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from hetopt.check.claims.device_time import DeviceTime
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


#: A division, in any order of its pipelines (``name_of``).
Name = frozenset[tuple[object, int]]


class Divided:
    """Every division of some of a problem's nodes: the same under every schedule.

    Attributes
    ----------
    problem
        That of these nodes.
    ways
        The divisions by name.
    device_s
        The least time that devices need, by name.

    Parameters
    ----------
    nodes
        Nodes of each cluster; length J.
    time
        Device time of the problem's nodes.
    most, cuts
        See ``ways_of``.
    """

    def __init__(
        self,
        problem: Problem,
        nodes: tuple[int, ...],
        time: DeviceTime,
        *,
        most: int,
        cuts: bool,
    ) -> None:
        self.problem = own = restricted(problem, nodes)
        #: If sequences have several lengths, the device time of these nodes.
        self._mixed_s: float | None = None
        if time.mixed_s is not None:
            self._mixed_s = least_seconds_of_lengths(own, sources_by_length(own))
        self._time = time
        count_limit(self.problem, most)
        ways = ways_of(self.problem, most, cuts=cuts)
        self.ways = {name_of(way): way for way in ways}
        self.device_s = {name: self.least_s(name, {}) for name in self.ways}

    @cached_property
    def parts(self) -> dict[Name, tuple[Hashable, ...]]:
        """What the time of each pipeline of a division depends on, by name."""
        return {
            name: tuple(depends_on(self.problem, way, r) for r in range(len(way)))
            for name, way in self.ways.items()
        }

    def least_s(
        self, name: Name, claimed: Mapping[Hashable, Mapping[int, float]]
    ) -> float:
        """Return a lower bound on the time of plans of a division.

        Parameters
        ----------
        claimed
            Bounds on pipelines by what they depend on, and by their sequences.
        """
        known, way = self._time, self.ways[name]
        if self._mixed_s is not None:
            return self._mixed_s
        times = []
        for number, nodes in enumerate(way):
            own_s = np.array([inf, *known.of_part(nodes)])
            own = claimed.get(self.parts[name][number], {}) if claimed else {}
            for n, bound_s in own.items():
                own_s[n] = max(own_s[n], bound_s)
            times.append(own_s)
        least, batch = times[0], known.batch
        for left, after in zip(range(len(way) - 2, -1, -1), times[1:], strict=True):
            longest = np.full(batch + 1, inf)
            # Every later pipeline takes a sequence, and the last one all that are left.
            for n in range(2 if left else max(2, batch), batch + 1 - left):
                # 1 to n - 1 sequences for the earlier pipelines, the rest for this one.
                longest[n] = np.maximum(least[1:n], after[n - 1 : 0 : -1]).min()
            least = longest
        return float(least[-1])


def restricted(problem: Problem, nodes: tuple[int, ...]) -> Problem:
    """Return the problem on some nodes, without clusters that have none."""
    given = zip(problem.clusters, nodes, strict=True)
    if all(each.nodes == count for each, count in given):
        return problem
    clusters = tuple(
        each.with_nodes(count)
        for each, count in zip(problem.clusters, nodes, strict=True)
        if count
    )
    return replace(problem, clusters=clusters)
