"""Which nodes to rent: a child for every number of nodes of each cluster.

Every plan rents some fleet n at a price, and takes at least the least time f(n) of the
plans that need no more. So plans that rent n are of interest only if f(n) is below a
cutoff, which never rises with the price:

* within a budget, the least time found so far;
* if cost is minimised, the least cost found so far divided by the price of n;
* for the front, the least time found so far at no higher price.

A bound on a fleet holds for all fleets inside it, as their plans are plans of it. This
is not so if its nodes are divided among several pipelines: a division takes all of
them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.cost.table.ticks import TICK_S
from hetopt.errors import InputError
from hetopt.results.money import rented_nodes
from hetopt.results.settlement import OPTIMALITY_GAP
from hetopt.solvers.search.one_of import OneOf

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.results.claims import Measure
    from hetopt.results.spending import Spending
    from hetopt.solvers.search.node import Bools, Floats, Found, Node
    from hetopt.solvers.search.space import Space

#: Most fleets of one problem, as they are all listed.
MOST_FLEETS = 1_000_000
#: Sums of prices that should be equal differ by at most this share.
_ROUNDING = 1e-9


class Fleets(OneOf):
    """Every fleet of a problem within the budget but the empty one.

    With F fleets and J clusters.

    Attributes
    ----------
    nodes
        Nodes of each cluster; ascending, the last cluster fastest; shape (F, J).
    price
        Per hour; shape (F,).
    choices
        Number of all fleets, whatever the budget.

    Parameters
    ----------
    below
        Returns the node of a problem on some of the nodes.
    divided
        Whether nodes may be divided among several pipelines.

    Raises
    ------
    InputError
        A cluster has no price, or there are more than ``MOST_FLEETS``.
    """

    by = "fleets"

    def __init__(
        self,
        space: Space,
        below: Callable[[Space], Node],
        spending: Spending,
        measure: Measure,
        *,
        top: int = 1,
        divided: bool = False,
    ) -> None:
        clusters = space.problem.clusters
        self._space, self._below = space, below
        self._measure, self._divided = measure, divided
        self._budget = math.inf if spending.budget is None else spending.budget
        self.longest_s = spending.longest_s(space.problem.training.tokens)
        self.choices = math.prod(each.nodes + 1 for each in clusters) - 1
        if self.choices > MOST_FLEETS:
            msg = (
                f"{self.choices:.3g} choices of nodes, expected at most "
                f"{MOST_FLEETS:,}: leave clusters out, or give them fewer nodes"
            )
            raise InputError(msg, field="clusters")
        self._prices = np.array([_price(each) for each in clusters])
        axes = [np.arange(each.nodes + 1) for each in clusters]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
        nodes: NDArray[np.int64] = grid.reshape(-1, len(clusters))[1:]
        nodes = nodes[nodes @ self._prices <= self._most]
        self.nodes, self.price = nodes, nodes @ self._prices
        least_s = space.least_s(nodes, divided=divided)
        super().__init__(self._permitted(least_s), self._child, top=top)
        self.bound = self.rest = self.least(self.known.bound)

    @property
    def count(self) -> int:
        """Number of all fleets, whatever the budget."""
        return self.choices

    @property
    def _most(self) -> float:
        return self._budget * (1 + _ROUNDING)

    def _permitted(self, bound_s: Floats) -> Floats:
        """Return bounds with infinity where no plan is quick enough."""
        return np.where(bound_s > self.longest_s, np.inf, bound_s)

    def _child(self, index: int) -> Node:
        return self._below(self._space.rented(self.nodes[index].tolist()))

    def edit(self, index: int) -> Any:
        """Return the nodes by cluster, without clusters that have none."""
        names = (each.name for each in self._space.problem.clusters)
        nodes = zip(names, self.nodes[index].tolist(), strict=True)
        return {name: count for name, count in nodes if count}

    def inside(self, index: int) -> Bools | None:
        """See ``OneOf``."""
        if self._divided:
            return None
        inside: Bools = (self.nodes <= self.nodes[index]).all(axis=1)
        return inside

    def cutoffs(self, cutoff: float) -> Floats:
        """Return the time that a plan on each fleet has to beat; shape (F,)."""
        price = self.price
        if self._measure == "cost":
            with np.errstate(divide="ignore", invalid="ignore"):
                # A free fleet has no cutoff, unless the best plan costs nothing too.
                free = np.inf if cutoff else 0.0
                times = np.where(price > 0, cutoff / price, free)
        elif self._measure == "front":
            known = np.array([self.price_of(each) for each in self.best])
            below = np.searchsorted(known * (1 - _ROUNDING), price, side="right")
            times = np.array([np.inf, *(each.time_s for each in self.best)])[below]
        else:
            times = np.full(len(price), cutoff)
        # A plan of exactly the longest time is permitted; a bound above it stays so in
        # certificates, which may be off by some picoseconds a micro-batch.
        off_s = TICK_S * (1 + self._space.problem.training.global_batch)
        return np.minimum(times, self.longest_s + off_s)

    def first(self, open_: NDArray[np.int64]) -> int:
        """Return the most promising fleet; of equal ones, the one with most nodes."""
        bound, price = self.known.rest[open_], self.price[open_]
        if self._measure == "time":
            order = np.lexsort((-price, bound))
        elif self._measure == "cost":
            order = np.lexsort((price, bound * price))
        else:
            order = np.lexsort((bound, price))
        return int(open_[order[0]])

    def price_of(self, found: Found) -> float:
        """Return the price per hour of the nodes that a plan rents."""
        problem = self._space.whole.problem
        rented = rented_nodes(problem, found.priced.plan)
        nodes = [rented.get(each.name, 0) for each in problem.clusters]
        return float(np.array(nodes) @ self._prices)

    def taken(self, index: int, found: Found) -> Found | None:
        """Return a plan with its value, if it is permitted."""
        price = self.price_of(found)
        if price > self._most or found.time_s > self.longest_s:
            return None
        cost = self._measure == "cost"
        return replace(found, value=price * found.time_s if cost else found.time_s)

    def least(self, known: Floats) -> float:
        """See ``OneOf``; a fleet whose plans are too slow has none."""
        possible = known <= self.longest_s
        value = known[possible & np.isfinite(known)]
        if self._measure == "cost":
            value = value * self.price[possible & np.isfinite(known)]
        return float(value.min(initial=np.inf))

    @property
    def last(self) -> float:
        """See ``OneOf``; every point of a front has a cutoff of its own."""
        return math.inf if self._measure == "front" else super().last

    def ranked(self, plans: Sequence[Found]) -> tuple[Found, ...]:
        """Return the best plans, or those that no other beats or equals, by price."""
        if self._measure != "front":
            return super().ranked(plans)
        kept: list[tuple[float, Found]] = []
        priced = [(self.price_of(each), each) for each in plans]
        for price, found in sorted(priced, key=lambda x: (x[0], x[1].time_s)):
            if kept and kept[-1][0] >= price * (1 - _ROUNDING):
                # The prices are equal up to rounding.
                if found.time_s < kept[-1][1].time_s:
                    kept[-1] = (price, found)
            elif not kept or found.time_s < kept[-1][1].time_s:
                kept.append((price, found))
        return tuple(found for _, found in kept)

    def undecided(self) -> int:
        """Return how many fleets may have a plan of interest that is not found."""
        limits = self.cutoffs(self.last) * (1 - OPTIMALITY_GAP)
        bound = self.known.rest
        return int(((bound < limits) & (bound <= self.longest_s)).sum())


def _price(cluster: Cluster) -> float:
    if cluster.price_per_hour is None:
        msg = "is missing: choosing nodes to rent needs the price of every cluster"
        raise InputError(msg, field=f"clusters.{cluster.name}.price_per_hour")
    return cluster.price_per_hour
