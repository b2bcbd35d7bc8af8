"""Claims about every division of the nodes among pipelines that run side by side.

A claim names some pipelines, each by its number and its sequences, with a bound on its
time; the bound holds for the same pipeline in other divisions too. All others take at
least their device time. A division takes at least its slowest pipeline, for the best
way to divide the batch; if pipelines need to have something in common, for each of what
they may have, and the least of these. If sequences have several lengths, claims are
about whole divisions; so is the claim about one pipeline that has all nodes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hetopt.check.claims.claim import Claim
from hetopt.check.claims.ways import Divided, name_of
from hetopt.check.plan.reading import choice, items, mapping, whole
from hetopt.cost.divided import depends_on

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from hetopt.check.claims.claim import At, Derive
    from hetopt.check.claims.ways import Division, Name
    from hetopt.plans.plan import Plan


class Divisions(Claim):
    """What follows about each division of a problem's nodes."""

    def __init__(self, at: At, entry: Mapping[str, Any], derive: Derive) -> None:
        self._derive, self._divided = derive, _divided(at)
        #: By what pipelines have in common; None: nothing is asked.
        self._bounds: dict[str | None, defaultdict[Hashable, dict[int, float]]] = {
            value: defaultdict(dict) for value in at.asked.alike or (None,)
        }
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
        claimed = {key for each in self._bounds.values() for key in each}
        for name in ways if claimed else ():
            if not claimed.isdisjoint(self._divided.parts[name]):
                self._least[name] = self._least_s(name)
        super().__init__(min(self._least.values()))

    def _least_s(self, name: Name) -> float:
        """Return a lower bound on the time of plans of a division."""
        every = self._bounds.values()
        return min(self._divided.least_s(name, bounds) for bounds in every)

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
            value = None
            if asked.alike and "alike" in part:
                value = choice(part, "alike", asked.alike, place)
            inner = replace(
                at,
                place=place,
                below=(),
                device_s=0.0,
                part=(way, number, batch),
                alike=value,
            )
            bound_s = self._derive(inner, part).least_s
            key = depends_on(self._divided.problem, way, number)
            # Without a value the claim is about pipelines with any.
            for own in self._bounds if value is None else (value,):
                own_s = self._bounds[own][key]
                own_s[batch] = max(bound_s, own_s.get(batch, 0.0))
        at.ensure_best(claim, self._least_s(name_of(way)))

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


def _divided(at: At) -> Divided:
    """Return the divisions of the nodes at a place, which the next ones often share."""
    asked = at.asked
    if at.nodes not in asked.divided:
        asked.divided.clear()
        # If stages of a cluster may differ in size, nodes are not cut into halves.
        cuts = asked.principles.sharing == "one"
        asked.divided[at.nodes] = Divided(
            asked.problem, at.nodes, asked.device_time, most=asked.most, cuts=cuts
        )
    return asked.divided[at.nodes]


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
