"""Claims about every choice of nodes to rent.

A plan that rents some nodes takes at least their devices' time for the work, and at
least what is claimed of any listed fleet that contains them. If the nodes are divided
among several pipelines, a division takes all nodes of a fleet, so that plans on fewer
are no plans of it: then only what is claimed of the fleet itself counts.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.check.claims.asked import TOLERANCE
from hetopt.check.claims.claim import Claim
from hetopt.check.plan.cost import nodes_of
from hetopt.check.plan.reading import items, mapping, whole
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from hetopt.check.claims.claim import At, Derive
    from hetopt.plans.plan import Plan

#: Most fleets that are checked, as all of them are enumerated.
_MOST_FLEETS = 10**6


class Fleets(Claim):
    """What follows about the F fleets within the budget.

    Attributes
    ----------
    price
        Per hour; shape (F,).
    least_of_s
        Lower bound on the time of each fleet's plans; inf if it has none that is quick
        enough; shape (F,).
    """

    def __init__(self, at: At, entry: Mapping[str, Any], derive: Derive) -> None:
        super().__init__(0.0)
        self._asked, clusters = at.asked, at.asked.problem.clusters
        choices = math.prod(each.nodes + 1 for each in clusters) - 1
        if (said := whole(entry, "of", at.place)) != choices:
            at.asked.say(f"{at.place}.of: {said}, expected {choices}")
        self.price = self.least_of_s = np.zeros(0)
        self._nodes: NDArray[np.int64] = np.zeros((0, len(clusters)), dtype=np.int64)
        self._listed: list[tuple[NDArray[np.int64], Claim]] = []
        if any(each.price_per_hour is None for each in clusters):
            at.asked.say(f"{at.place}: some cluster has no price_per_hour")
            return
        if choices > _MOST_FLEETS:
            at.asked.say(f"{at.place}: {choices} choices of nodes are too many")
            return
        sizes = tuple(each.nodes + 1 for each in clusters)
        nodes: NDArray[np.int64] = np.array(list(np.ndindex(sizes))[1:])
        prices = np.array([float(each.price_per_hour or 0) for each in clusters])
        affordable = [at.asked.affords(each) for each in (nodes @ prices).tolist()]
        self._nodes = nodes[affordable]
        self.price = self._nodes @ prices
        self.least_of_s = at.asked.device_time.of_nodes(self._nodes)
        self._divided = "divisions" in at.below
        self._read(at, entry, derive)
        # A bound may lie above the time of the plan that it is of.
        longest_s = at.asked.longest_s + at.asked.slack_s(at.chunks)
        self.least_of_s[self.least_of_s > longest_s] = np.inf
        self.least_s = float(self.least_of_s.min(initial=np.inf))

    def _read(self, at: At, entry: Mapping[str, Any], derive: Derive) -> None:
        """Raise the bounds by what is claimed."""
        device_s = self.least_of_s.copy()
        seen = set()
        for place, item in items(entry, "children", at.place):
            claim = mapping(item, place)
            own = self._fleet(claim, f"{place}.at")
            at_own = np.flatnonzero((self._nodes == own).all(axis=1))
            if not len(at_own) or tuple(own) in seen:
                why = "is listed twice" if len(at_own) else "is no fleet in the budget"
                at.asked.say(f"{place}: {why}")
                continue
            seen.add(tuple(own))
            inner = replace(
                at,
                place=place,
                device_s=float(device_s[at_own[0]]),
                below=at.below[1:],
                nodes=tuple(own.tolist()),
            )
            found = derive(inner, claim)
            self._listed.append((own, found))
            inside = (self._nodes <= own).all(axis=1)
            holds = at_own if self._divided else inside
            self.least_of_s[holds] = np.maximum(self.least_of_s[holds], found.least_s)

    def _fleet(self, claim: Mapping[str, Any], field: str) -> NDArray[np.int64]:
        given = mapping(claim.get("at"), field)
        there_are = {each.name: each.nodes for each in self._asked.problem.clusters}
        for name in given:
            if name not in there_are:
                raise InputError(f"names no cluster: {name!r}", field=field)
            if whole(given, name, field) > there_are[name]:
                msg = f"is {given[name]}, the cluster has {there_are[name]}"
                raise InputError(msg, field=f"{field}.{name}")
        return np.array([given.get(name, 0) for name in there_are])

    def of(self, plan: Plan) -> float:
        """See ``Claim``; the plan is one of every fleet that has its nodes."""
        clusters = self._asked.problem.clusters
        rented = nodes_of(self._asked.problem, plan)
        own = np.array([rented.get(each.name, 0) for each in clusters])
        found = self.least_of_s[(self._nodes == own).all(axis=1)].tolist()
        for nodes, claim in self._listed:
            # A division takes all nodes of a cluster, or none.
            takes_all = len(plan.pipelines) > 1
            fits = (own == 0) | (own == nodes) if takes_all else own <= nodes
            if fits.all():
                found.append(claim.of(plan))
        return max(found, default=0.0)

    def least(self, *, cost: bool) -> float:
        """Return a lower bound on the time, or the cost, of all plans."""
        if not cost:
            return self.least_s
        possible = np.isfinite(self.least_of_s)
        costs = self.least_of_s[possible] * self.price[possible] / 3600
        return float(costs.min(initial=np.inf))

    def undecided(self, known: Sequence[tuple[float, float]], slack_s: float) -> int:
        """Return how many fleets may have a plan that no known plan dominates.

        Parameters
        ----------
        known
            Price and time of the known plans.
        slack_s
            By how much a bound may lie below the time of the plan that it is of.
        """
        open_ = np.isfinite(self.least_of_s)
        for price, time_s in known:
            dearer = self.price >= price * (1 - TOLERANCE)
            no_better_s = time_s * (1 - TOLERANCE) - slack_s
            open_ &= ~(dearer & (self.least_of_s >= no_better_s))
        return int(open_.sum())
