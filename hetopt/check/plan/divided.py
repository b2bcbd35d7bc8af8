"""Check what a result claims about dividing the nodes among several pipelines.

A claim names some pipelines, each by its division and its number of sequences, with a
bound on its time; the bound holds for the same pipeline in other divisions too. All
others take at least their device time. The claimed bound on all plans has to follow
from these: division by division, for every way to divide the batch.
"""

from __future__ import annotations

from itertools import product
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.check.plan.reading import items, mapping, number, whole
from hetopt.cost.device_work import least_device_seconds, least_seconds_of_lengths
from hetopt.cost.divided import depends_on, sources_by_length
from hetopt.errors import InputError
from hetopt.plans.plan import MOST_PIPELINES
from hetopt.results.certificate import PS_S
from hetopt.results.settlement import OPTIMALITY_GAP

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.principles import Principles

    #: Devices of each node of one cluster, by pipeline.
    Given = tuple[tuple[int, ...], ...]
    #: By pipeline and cluster, the devices of each node, largest first.
    Division = tuple[dict[str, tuple[int, ...]], ...]

#: Relative difference up to which two numbers count as equal.
_TOLERANCE = 1e-9
#: Most ways to hand out halves of nodes that are enumerated.
_MOST_WAYS = 5 * 10**6


class Divided:
    """The claims of a result about pipelines side by side.

    Attributes
    ----------
    least_s
        Lower bound on the time of all plans, by claims and device time; inf: no plan.

    Raises
    ------
    InputError
        The data is not what ``Several.to_json`` makes.
    """

    def __init__(
        self,
        problem: Problem,
        table: CostTable,
        data: Mapping[str, Any],
        principles: Principles,
    ) -> None:
        # If stages of a cluster may differ in size, nodes are not cut into halves.
        self._cuts = principles.sharing == "one"
        self._problem = problem
        self._batch = problem.training.global_batch
        self._body = sum(table.body[kind] for kind in table.units)
        # Periods are rounded up to whole picoseconds, in the plan and in the bound.
        self._slack_s = 2 * self._batch * table.chunks * PS_S
        self.most = whole(data, "most", "several")
        if self.most > MOST_PIPELINES:
            msg = f"is {self.most}, expected at most {MOST_PIPELINES}"
            raise InputError(msg, field="several.most")
        nodes = max(count for each in problem.clusters for _, count in each.sizes)
        if (2 * nodes + 1) ** self.most > _MOST_WAYS:
            msg = f"is {self.most}: the ways to divide {nodes} nodes are too many"
            raise InputError(msg, field="several.most")
        self._claimed = whole(data, "divisions", "several")
        alike = problem.training.lengths is None
        self._work = least_device_seconds(problem).tolist() if alike else []
        self._mixed_s = 0.0
        if not alike:
            self._mixed_s = least_seconds_of_lengths(
                problem, sources_by_length(problem)
            )
        self._bounds: dict[tuple[Hashable, int], float] = {}
        self._whole: dict[object, float] = {}
        self._unknown: list[str] = []
        ways = self._ways()
        names = {_name(way) for way in ways}
        for place, item in items(data, "bounds", "several"):
            entry = mapping(item, place)
            way = self._division(entry, place)
            if problem.training.lengths is not None:
                known = _name(way) in names
                bound = number(entry, "bound_s", place)
                if known:
                    self._whole[_name(way)] = inf if bound is None else bound
                else:
                    self._unknown.append(place)
                continue
            pipeline = whole(entry, "pipeline", place, least=0)
            if _name(way) not in names or pipeline >= len(way):
                self._unknown.append(place)
                continue
            bound = number(entry, "bound_s", place)
            key = depends_on(problem, way, pipeline), whole(entry, "batch", place)
            self._bounds[key] = inf if bound is None else bound
        self._count = len(ways)
        self.least_s = min(map(self._least, ways))

    @classmethod
    def of(
        cls,
        problem: Problem,
        table: CostTable,
        result: Mapping[str, Any],
        principles: Principles,
    ) -> Divided | None:
        """Return the claims of a result; None if it is about single pipelines."""
        if "several" not in result:
            return None
        data = mapping(result["several"], "several")
        return cls(problem, table, data, principles)

    def findings(self) -> Iterator[str]:
        """Yield findings that do not depend on a plan."""
        if self._claimed != self._count:
            yield f"several.divisions: {self._claimed}, expected {self._count}"
        for place in self._unknown:
            yield f"{place}: is not a division of the nodes among pipelines"

    def no_plan_findings(self, status: str) -> Iterator[str]:
        """Yield findings on a result without a plan."""
        if status == "infeasible" and self.least_s < inf:
            yield f"status: infeasible, but the divisions permit {self.least_s!r}"

    def plan_findings(
        self,
        plan: Plan,
        value: float,
        status: str,
        numbers: Mapping[str, float | None],
    ) -> Iterator[str]:
        """Yield findings on the bound and the gap of a result with a plan.

        Parameters
        ----------
        value
            The plan's closed form.
        numbers
            Numbers of the result, by key.
        """
        if len(plan.pipelines) > self.most:
            yield f"several.most: {self.most}, the plan has {len(plan.pipelines)}"
        bound, gap = numbers["lower_bound_s"], numbers["gap"]
        if bound is None:
            yield "lower_bound_s: missing"
            return
        if bound > value * (1 + _TOLERANCE):
            yield f"lower_bound_s: {bound}, more than the plan's {value!r}"
        if bound > self.least_s * (1 + _TOLERANCE):
            yield f"lower_bound_s: {bound}, the divisions prove only {self.least_s!r}"
        own = self._least(self._own(plan))
        if own > value * (1 + _TOLERANCE) + self._slack_s:
            yield (
                f"several.bounds: the plan takes {value!r} s, its own division is said "
                f"to take at least {own!r} s"
            )
        expected = max(0.0, (value - bound) / value)
        if gap is None or abs(gap - expected) > _TOLERANCE:
            yield f"gap: {gap}, expected {expected!r}"
        if status == "optimal" and expected > OPTIMALITY_GAP + _TOLERANCE:
            yield f"status: optimal, but the gap is {expected!r}"

    def _own(self, plan: Plan) -> Division:
        """Return the division of the nodes that a plan has."""
        shares = [pipeline.share for pipeline in plan.pipelines]
        if None in shares:
            return (
                {
                    each.name: tuple(s for s, count in each.sizes for _ in range(count))
                    for each in self._problem.clusters
                },
            )
        return tuple(
            {
                name: tuple(sorted(sizes, reverse=True))
                for name, sizes in share.nodes.items()
            }
            for share in shares
            if share is not None
        )

    def _division(self, entry: Mapping[str, Any], place: str) -> Division:
        division = []
        for at, item in items(entry, "division", place):
            nodes = mapping(item, at)
            division.append(
                {
                    name: tuple(
                        whole({"size": size}, "size", where)
                        for where, size in items(nodes, name, at)
                    )
                    for name in nodes
                }
            )
        return tuple(division)

    def _ways(self) -> list[Division]:
        """Return every division once, whatever the order of its pipelines."""
        found: dict[object, Division] = {}
        for pipelines in range(1, self.most + 1):
            for way in self._divided(pipelines):
                found.setdefault(frozenset(_counted(way).items()), way)
        return [way for way in found.values() if self._linked(way)]

    def _divided(self, pipelines: int) -> Iterator[Division]:
        """Yield the divisions among a number of pipelines in which each has nodes."""
        options: list[list[Given]] = []
        for cluster in self._problem.clusters:
            kinds = [
                _handed_out(size, count, pipelines, cuts=self._cuts)
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
        names = [cluster.name for cluster in self._problem.clusters]
        for shares in product(*options):
            way = tuple(
                {
                    name: own[r]
                    for name, own in zip(names, shares, strict=True)
                    if own[r]
                }
                for r in range(pipelines)
            )
            if all(way):
                yield way

    def _linked(self, way: Division) -> bool:
        """Whether clusters of different pipelines are linked, for their gradients."""
        return all(
            a == b or self._problem.links.between(a, b) is not None
            for r, own in enumerate(way)
            for other in way[r + 1 :]
            for a in own
            for b in other
        )

    def _least(self, way: Division) -> float:
        """Return a lower bound on the time of plans of a division."""
        if self._problem.training.lengths is not None:
            # If sequences have several lengths, claims are about whole divisions.
            return max(self._mixed_s, self._whole.get(_name(way), 0.0))
        times = []
        for pipeline, own in enumerate(way):
            key = depends_on(self._problem, way, pipeline)
            batches = range(1, self._batch + 1)
            times.append([inf, *(self._bound(own, key, n) for n in batches)])
        least = np.array(times[0])
        for last in times[1:]:
            after = np.array(last)
            longest = np.full(self._batch + 1, inf)
            for n in range(2, self._batch + 1):
                # 1 to n - 1 sequences for the earlier pipelines, the rest for this one.
                longest[n] = np.maximum(least[1:n], after[n - 1 : 0 : -1]).min()
            least = longest
        return float(least[self._batch])

    def _bound(
        self, own: Mapping[str, tuple[int, ...]], key: Hashable, n: int
    ) -> float:
        rate = sum(
            sum(own.get(cluster.name, ())) / work[n - 1]
            for cluster, work in zip(self._problem.clusters, self._work, strict=True)
        )
        device_time = n * self._body / rate * (1 - _TOLERANCE) if rate else inf
        return max(device_time, self._bounds.get((key, n), 0.0))


def _name(way: Division) -> object:
    """Return a hashable key of a division that ignores the order of its pipelines."""
    return frozenset(_counted(way).items())


def _counted(way: Division) -> dict[object, int]:
    counts: dict[object, int] = {}
    for own in way:
        key = frozenset(own.items())
        counts[key] = counts.get(key, 0) + 1
    return counts


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
    ways = []
    for halves in product(range(2 * count + 1), repeat=pipelines):
        odd = sum(each % 2 for each in halves)
        if sum(halves) == 2 * count and ((cuts and size % 2 == 0) or not odd):
            ways.append(
                tuple(
                    (size,) * (each // 2) + (size // 2,) * (each % 2) for each in halves
                )
            )
    return ways
