"""Claims about every division of the nodes among pipelines that run side by side.

A claim names some pipelines, each by its number and its sequences, with a bound on its
time; the bound holds for the same pipeline in other divisions too. All others take at
least their device time. A division takes at least its slowest pipeline, for the best
way to divide the batch. If sequences have several lengths, claims are about whole
divisions; so is the claim about one pipeline that has all nodes.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.check.claims.claim import Claim
from hetopt.check.claims.ways import count_limit, name_of, ways_of
from hetopt.check.plan.reading import items, mapping, whole
from hetopt.cost.divided import depends_on

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from hetopt.check.claims.claim import At, Derive
    from hetopt.check.claims.ways import Division
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem


class Divisions(Claim):
    """What follows about each division of a problem's nodes."""

    def __init__(self, at: At, entry: Mapping[str, Any], derive: Derive) -> None:
        self._at, self._derive = at, derive
        self._problem = restricted(at.asked.problem, at.nodes)
        self._bounds: dict[tuple[Hashable, int], float] = {}
        self._whole: dict[object, Claim] = {}
        ways = self._ways(whole(entry, "of", at.place))
        names = {name_of(way) for way in ways}
        self._alone = next(way for way in ways if len(way) == 1)
        seen = set()
        for place, item in items(entry, "children", at.place):
            claim = mapping(item, place)
            way = _division(claim, place)
            name = name_of(way)
            if name not in names or name in seen:
                known = name in seen
                why = "listed twice" if known else "no division of the nodes"
                at.asked.say(f"{place}: is {why} among pipelines")
                continue
            seen.add(name)
            if len(way) == 1 or at.asked.device_time.mixed_s is not None:
                own = replace(
                    at,
                    place=place,
                    below=at.below[1:],
                    device_s=max(at.device_s, self._device_s(way)),
                )
                self._whole[name] = derive(own, claim)
            else:
                self._read_parts(replace(at, place=place), way, claim)
        self._least = {name_of(way): self._least_s(way) for way in ways}
        super().__init__(min(self._least.values()))

    def _ways(self, said: int) -> list[Division]:
        """Return the divisions that count, and compare their number."""
        at, problem = self._at, self._problem
        count_limit(problem, at.asked.most)
        # If stages of a cluster may differ in size, nodes are not cut into halves.
        cuts = at.asked.principles.sharing == "one"
        ways = ways_of(problem, at.asked.most, cuts=cuts)
        if said != len(ways):
            at.asked.say(f"{at.place}.of: {said}, expected {len(ways)}")
        return ways

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
            key = depends_on(self._problem, way, number), batch
            self._bounds[key] = max(bound_s, self._bounds.get(key, 0.0))
        least_s = self._least_s(way)
        at.ensure_best(claim, least_s)

    def _device_s(self, way: Division) -> float:
        """Return the device time of one pipeline that has all nodes."""
        known = self._at.asked.device_time
        if known.mixed_s is not None:
            return known.mixed_s
        return known.of_part(way[0], np.array(self._at.nodes))[-1]

    def _least_s(self, way: Division) -> float:
        """Return a lower bound on the time of plans of a division."""
        known = self._at.asked.device_time
        own = self._whole.get(name_of(way))
        if own is not None:
            return own.least_s
        if len(way) == 1 or known.mixed_s is not None:
            return max(self._at.device_s, self._device_s(way))
        times = []
        for number, nodes in enumerate(way):
            key = depends_on(self._problem, way, number)
            own_s = np.array([inf, *known.of_part(nodes, np.array(self._at.nodes))])
            for (claimed, n), bound_s in self._bounds.items():
                if claimed == key:
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
        return self._least[name_of(self._alone)]


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
