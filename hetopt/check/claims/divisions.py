"""Claims about every division of the nodes among pipelines that run side by side.

A claim names some pipelines, each by its number and its sequences, with a bound on its
time; the bound holds for the same pipeline in other divisions too. All others take at
least their device time. A division takes at least its slowest pipeline, for the best
way to divide the batch. If sequences have several lengths, claims are about whole
divisions; so is the claim about one pipeline that has all nodes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.check.claims.claim import Claim
from hetopt.check.claims.ways import count_limit, name_of, ways_of
from hetopt.check.plan.reading import items, mapping, whole
from hetopt.cost.divided import depends_on

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from hetopt.check.claims.asked import Asked
    from hetopt.check.claims.claim import At, Derive
    from hetopt.check.claims.ways import Division
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem


#: A division, in any order of its pipelines (``name_of``).
Name = frozenset[tuple[object, int]]


class Divided:
    """Every division of some nodes: the same under every schedule.

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
    """

    def __init__(self, asked: Asked, nodes: tuple[int, ...]) -> None:
        self.problem = restricted(asked.problem, nodes)
        self._time, self._nodes = asked.device_time, np.array(nodes)
        count_limit(self.problem, asked.most)
        # If stages of a cluster may differ in size, nodes are not cut into halves.
        cuts = asked.principles.sharing == "one"
        ways = ways_of(self.problem, asked.most, cuts=cuts)
        self.ways = {name_of(way): way for way in ways}
        self.device_s = {name: self.least_s(name, {}) for name in self.ways}

    @classmethod
    def of(cls, at: At) -> Divided:
        """Return those of the nodes at a place, which the next places often share."""
        known = at.asked.divided
        if at.nodes not in known:
            known.clear()
            known[at.nodes] = cls(at.asked, at.nodes)
        return known[at.nodes]

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
        if known.mixed_s is not None:
            return known.mixed_s
        times = []
        for number, nodes in enumerate(way):
            own_s = np.array([inf, *known.of_part(nodes, self._nodes)])
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


class Divisions(Claim):
    """What follows about each division of a problem's nodes."""

    def __init__(self, at: At, entry: Mapping[str, Any], derive: Derive) -> None:
        self._derive, self._divided = derive, Divided.of(at)
        self._bounds: defaultdict[Hashable, dict[int, float]] = defaultdict(dict)
        ways, device_s = self._divided.ways, self._divided.device_s
        if (said := whole(entry, "of", at.place)) != len(ways):
            at.asked.say(f"{at.place}.of: {said}, expected {len(ways)}")
        self._alone = next(name for name in ways if len(ways[name]) == 1)
        mixed = at.asked.device_time.mixed_s is not None
        whole_s = {
            name: max(at.device_s, device_s[name])
            for name in (ways if mixed else (self._alone,))
        }
        seen = set()
        for place, item in items(entry, "children", at.place):
            claim = mapping(item, place)
            way = _division(claim, place)
            name = name_of(way)
            if name not in ways or name in seen:
                known = name in seen
                why = "listed twice" if known else "no division of the nodes"
                at.asked.say(f"{place}: is {why} among pipelines")
                continue
            seen.add(name)
            if name in whole_s:
                own = replace(
                    at, place=place, below=at.below[1:], device_s=whole_s[name]
                )
                whole_s[name] = derive(own, claim).least_s
            else:
                self._read_parts(replace(at, place=place), way, claim)
        self._least = device_s | whole_s
        for name in ways if self._bounds else ():
            if not self._bounds.keys().isdisjoint(self._divided.parts[name]):
                self._least[name] = self._divided.least_s(name, self._bounds)
        super().__init__(min(self._least.values()))

    def _read_parts(self, at: At, way: Division, claim: Mapping[str, Any]) -> None:
        asked = at.asked
        at.ensure_keys(claim, "parts")
        for place, item in items(claim, "parts", at.place):
            part = mapping(item, place)
            number = whole(part, "pipeline", place, least=0)
            batch = whole(part, "batch", place)
            if number >= len(way) or batch >= asked.device_time.batch:
                asked.say(f"{place}: is no pipeline of a division of the nodes")
                continue
            own = (way, number, batch)
            inner = replace(at, place=place, below=(), device_s=0.0, part=own)
            bound_s = self._derive(inner, part).least_s
            own_s = self._bounds[depends_on(self._divided.problem, way, number)]
            own_s[batch] = max(bound_s, own_s.get(batch, 0.0))
        at.ensure_best(claim, self._divided.least_s(name_of(way), self._bounds))

    def of(self, plan: Plan) -> float:
        """See ``Claim``; 0 for a plan of another division."""
        if len(plan.pipelines) > 1:
            shares = [each.share for each in plan.pipelines if each.share is not None]
            name = name_of(
                tuple(
                    {
                        cluster: tuple(sorted(sizes, reverse=True))
                        for cluster, sizes in share.nodes.items()
                    }
                    for share in shares
                )
            )
            return self._least.get(name, 0.0)
        return self._least[self._alone]


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


def _division(claim: Mapping[str, Any], place: str) -> Division:
    """Return the division that a claim is about."""
    found = []
    for at, item in items(claim, "at", place):
        nodes = mapping(item, at)
        found.append(
            {
                name: tuple(
                    whole({"size": size}, "size", where)
                    for where, size in items(nodes, name, at)
                )
                for name in nodes
            }
        )
    return tuple(found)
