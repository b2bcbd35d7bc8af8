"""Search the fleets that may be rented, each as a separate problem.

Every plan rents some fleet n at a price, and takes at least the time f(n) of the best
plan that needs no more. So plans that rent n are of interest only if f(n) is below a
*cutoff*, which never rises with the price:

* within a budget, the least time found so far;
* if cost is minimised, the least cost found so far divided by the price of n;
* for the front, the least time found so far at no higher price.

Fleets whose bound is not below their cutoff are closed without a search. The others are
searched one after the other, with their cutoffs, by the requested solver; a bound on
one holds for all fleets that it contains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from hetopt.cost.table.ticks import TICK_S
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.results.money import rented_nodes
from hetopt.results.spending import FleetBound
from hetopt.solvers.fleets.fleets import Fleets
from hetopt.solvers.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from hetopt.results.priced_plan import PricedPlan
    from hetopt.results.result import Result
    from hetopt.results.spending import Spending
    from hetopt.solvers.request import Request, Solve

#: Least time; least cost; all plans that no other beats in both time and price.
Aim = Literal["time", "cost", "front"]
#: Sums of prices that should be equal differ by at most this share.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A plan, with the price and the time by which it is compared.

    Attributes
    ----------
    price
        Price of the nodes that it rents, per hour.
    time_s
        The time that the solver minimises.
    """

    price: float
    time_s: float
    nodes: Mapping[str, int]
    priced: PricedPlan


class FleetSearch:
    """Searches fleets until none is open, or the time is up.

    Parameters
    ----------
    simulated
        Whether ``solve`` minimises simulated times.

    Attributes
    ----------
    points
        The permitted plans that were found.
    searched
        The bounds that were found, in the order of the search.
    solver, choice
        Name of the solver, and its reason for choosing another one, if it did.
    interrupted
        Whether the user stopped it.

    Raises
    ------
    InputError
        See ``Fleets``.
    """

    def __init__(
        self,
        request: Request,
        solve: Solve,
        spending: Spending,
        aim: Aim,
        *,
        simulated: bool,
    ) -> None:
        self._request, self._solve = request, solve
        self._aim, self._simulated = aim, simulated
        self.fleets = Fleets(request.problem, request.table)
        self.points: list[Point] = []
        self.searched: list[FleetBound] = []
        self.solver = ""
        self.choice: str | None = None
        self.interrupted = False
        self._budget = math.inf if spending.budget is None else spending.budget
        self._longest_s = spending.longest_s(request.table.tokens)
        self._done = np.zeros(len(self.fleets.nodes), dtype=bool)
        most = max((part.passes for part in request.table.slices), default=1)
        # Periods are rounded up, so a bound may be this much below the time of a plan.
        self._slack_s = 2 * most * TICK_S / PERIOD_SCALE

    def run(self) -> None:
        """Search the open fleets, and report progress after each.

        The first is searched whatever the deadline: it has a first plan soon.
        """
        self._tell()
        late = self._request.deadline.is_over
        while not self.interrupted and not (self.searched and late()):
            index = self._next()
            if index is None:
                break
            self._search(index)
            self._tell()

    @property
    def affordable(self) -> NDArray[np.bool_]:
        """Which fleets are within the budget; shape (F,)."""
        most: NDArray[np.bool_] = self.fleets.price <= self._budget * (1 + _ROUNDING)
        return most

    @property
    def open(self) -> NDArray[np.bool_]:
        """Which fleets may hold a plan of interest not found so far; shape (F,)."""
        bound = self.fleets.bound_s
        below: NDArray[np.bool_] = bound < self._cutoffs() - self._slack_s
        return below & (bound <= self._longest_s) & self.affordable

    def lower_bound(self) -> float:
        """Return a lower bound on time, or on price times time; inf if no plan fits."""
        bound = self.fleets.bound_s
        permitted = self.affordable & (bound <= self._longest_s) & np.isfinite(bound)
        value = bound[permitted]
        if self._aim == "cost":
            value = value * self.fleets.price[permitted]
        return float(value.min(initial=np.inf))

    def best(self) -> Point | None:
        """Return the plan of least time, or of least cost, that was found first."""
        if self._aim == "cost":
            return min(self.points, key=lambda x: x.price * x.time_s, default=None)
        return min(self.points, key=lambda x: x.time_s, default=None)

    def front(self) -> list[Point]:
        """Return plans that no other beats or equals in price and time, by price."""
        kept: list[Point] = []
        for point in sorted(self.points, key=lambda x: (x.price, x.time_s)):
            if kept and kept[-1].price >= point.price * (1 - _ROUNDING):
                # The prices are equal up to rounding.
                if point.time_s < kept[-1].time_s:
                    kept[-1] = point
            elif not kept or point.time_s < kept[-1].time_s:
                kept.append(point)
        return kept

    def _cutoffs(self) -> NDArray[np.float64]:
        """Return the time that a plan on each fleet has to beat; shape (F,)."""
        price = self.fleets.price
        least = np.full(len(price), np.inf)
        best = self.best()
        if best is None:
            return least
        if self._aim == "time":
            return np.full(len(price), best.time_s)
        if self._aim == "cost":
            cost = best.price * best.time_s
            with np.errstate(divide="ignore", invalid="ignore"):
                # A free fleet has no cutoff, unless the best plan costs nothing too.
                return np.where(price > 0, cost / price, np.inf if cost else 0.0)
        front = self.front()
        known = np.array([point.price for point in front]) * (1 - _ROUNDING)
        below = np.searchsorted(known, price, side="right")
        return np.array([np.inf, *(point.time_s for point in front)])[below]

    def _next(self) -> int | None:
        """Return the fleet to search next, the most promising one; None if none is."""
        left = np.flatnonzero(self.open & ~self._done)
        if not len(left):
            return None
        bound, price = self.fleets.bound_s[left], self.fleets.price[left]
        if self._aim == "time":
            first = np.lexsort((-price, bound))[0]
        elif self._aim == "cost":
            first = np.lexsort((price, bound * price))[0]
        else:
            first = np.lexsort((bound, price))[0]
        return int(left[first])

    def _search(self, index: int) -> None:
        """Solve the problem of one fleet, and record its plan and its bound."""
        problem, table = self.fleets.rented(index)
        self._done[index] = True
        cutoff_s = min(float(self._cutoffs()[index]), self._longest_s)
        request = replace(
            self._request,
            problem=problem,
            table=table,
            params=replace(self._request.params, on_progress=None),
            cutoff_s=None if math.isinf(cutoff_s) else cutoff_s,
        )
        result = self._solve(request)
        self.interrupted = result.interrupted
        self.solver, self.choice = result.solver, result.choice
        if result.best is not None:
            self._take(result.best)
        bound_s = bound_of(result, cutoff_s)
        self.fleets.raise_to(index, bound_s)
        self.searched.append(
            FleetBound(
                nodes=self.fleets.named(index),
                bound_s=None if math.isinf(bound_s) else bound_s,
            )
        )

    def _take(self, priced: PricedPlan) -> None:
        """Keep a plan if it is permitted."""
        nodes = rented_nodes(self._request.problem, priced.plan)
        price = self.fleets.price_of(nodes)
        time_s = priced.iteration_time_s if self._simulated else priced.closed_form_s
        if price <= self._budget * (1 + _ROUNDING) and time_s <= self._longest_s:
            self.points.append(
                Point(price=price, time_s=time_s, nodes=nodes, priced=priced)
            )

    def _tell(self) -> None:
        told = self._request.params.on_progress
        if told is None:
            return
        best, bound_s, gap = self.best(), None, None
        if self._aim == "time" and best is not None:
            bound_s = min(self.lower_bound(), best.time_s)
            gap = (best.time_s - bound_s) / best.time_s
        told(
            Progress(
                elapsed_s=self._request.deadline.elapsed_s(),
                incumbent_s=None if best is None else best.time_s,
                bound_s=bound_s,
                gap=gap,
                settled=int((~self.open | self._done).sum()),
                programs=len(self._done),
            )
        )


def bound_of(result: Result, cutoff_s: float) -> float:
    """Return the lower bound that a result proves; inf if there is no plan."""
    if result.status == "infeasible":
        return math.inf
    if result.best is None and "unsettled" not in result.settled:
        # A plan within the cutoff would have been found.
        return math.nextafter(cutoff_s, math.inf)
    return 0.0 if result.lower_bound_s is None else result.lower_bound_s
