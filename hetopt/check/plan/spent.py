"""Check what a result or a Pareto front claims about the nodes to rent.

A claim names some fleets, each with a bound on the time of every plan that needs no
more nodes. So a plan that rents fleet n takes at least the largest bound of a fleet
that contains n, and at least its devices' time for the work. The claimed bound on all
plans has to follow from these, fleet by fleet.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.base.words import counted
from hetopt.check.plan.cost import cost_findings, nodes_of
from hetopt.check.plan.plan import check_plan
from hetopt.check.plan.reading import (
    choice,
    choices,
    items,
    mapping,
    number,
    read_plan,
    read_principles,
    text,
    whole,
)
from hetopt.errors import CheckError, InputError
from hetopt.problem.training.principles import PRUNED
from hetopt.results.certificate import PS_S
from hetopt.results.front import FRONT_SCHEMA
from hetopt.results.result import Status
from hetopt.results.settlement import OPTIMALITY_GAP

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from hetopt.check.plan.plan import CheckedPlan
    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem

#: Relative difference up to which two numbers count as equal.
_TOLERANCE = 1e-9
#: Most fleets that are checked, as all of them are enumerated.
_MOST_FLEETS = 10**6
#: Objectives of a front.
_TIMES = ("closed", "simulated")


class Spending:
    """The limits that the user gave, and the claims about fleets.

    Attributes
    ----------
    price
        Price per hour of every fleet within the budget; shape (F,).
    least_s
        Lower bound on the time of each fleet's plans, by claims and device time; inf if
        it has no plan that is quick enough; shape (F,).
    slack_s
        By how much a bound may lie below the time of the plan that it is of.

    Raises
    ------
    InputError
        The data is not what ``Spent.to_json`` makes.
    """

    def __init__(
        self, problem: Problem, table: CostTable, data: Mapping[str, Any]
    ) -> None:
        self._problem = problem
        self.budget = number(data, "budget", "spent")
        self.min_tokens_per_s = number(data, "min_tokens_per_s", "spent")
        self.lower_bound = number(data, "lower_bound", "spent")
        self.longest_s = math.inf
        if self.min_tokens_per_s:
            self.longest_s = table.tokens / self.min_tokens_per_s
        # Periods are rounded up to whole picoseconds, in the plan and in the bound.
        passes = [part.microbatches * part.chunks for part in table.slices]
        self.slack_s = 2 * max(passes, default=1) * PS_S
        prices = [each.price_per_hour for each in problem.clusters]
        self._unpriced = any(price is None for price in prices)
        counts = [each.nodes for each in problem.clusters]
        self._choices = math.prod(count + 1 for count in counts) - 1
        self._claimed = whole(data, "choices", "spent")
        self.price = self.least_s = np.zeros(0)
        self._nodes = np.zeros((0, len(counts)), dtype=np.int64)
        if self._unpriced or self._choices > _MOST_FLEETS:
            return
        sizes = tuple(count + 1 for count in counts)
        nodes: NDArray[np.int64] = np.array(list(np.ndindex(sizes))[1:])
        price = nodes @ np.array([float(each or 0) for each in prices])
        nodes = nodes[[self.affords(each) for each in price.tolist()]]
        self._nodes = nodes
        self.price = nodes @ np.array([float(each or 0) for each in prices])
        self.least_s = _device_time_s(problem, table, nodes)
        for place, item in items(data, "fleets", "spent"):
            entry = mapping(item, place)
            largest = self._rented(entry, f"{place}.nodes")
            bound = number(entry, "bound_s", place)
            inside = (nodes <= largest).all(axis=1)
            least = math.inf if bound is None else bound
            self.least_s[inside] = np.maximum(self.least_s[inside], least)
        self.least_s[self.least_s > self.longest_s] = np.inf

    def _rented(self, entry: Mapping[str, Any], field: str) -> NDArray[np.int64]:
        given = mapping(entry.get("nodes"), field)
        there_are = {each.name: each.nodes for each in self._problem.clusters}
        for name in given:
            if name not in there_are:
                raise InputError(f"names no cluster: {name!r}", field=field)
            if whole(given, name, field) > there_are[name]:
                msg = f"is {given[name]}, the cluster has {there_are[name]}"
                raise InputError(msg, field=f"{field}.{name}")
        return np.array([given.get(name, 0) for name in there_are])

    def affords(self, price: float) -> bool:
        """Whether a price per hour is within the budget."""
        return self.budget is None or price <= self.budget * (1 + _TOLERANCE)

    def price_of(self, plan: Plan) -> float:
        """Return the price per hour of a plan's nodes."""
        prices = {each.name: each.price_per_hour for each in self._problem.clusters}
        nodes = nodes_of(self._problem, plan)
        return sum((prices[name] or 0.0) * count for name, count in nodes.items())

    def findings(self) -> Iterator[str]:
        """Yield findings that do not depend on a plan."""
        if self._unpriced:
            yield "spent: some cluster has no price_per_hour"
        elif self._choices > _MOST_FLEETS:
            yield f"spent: {self._choices} choices of nodes are too many to check"
        if self._claimed != self._choices:
            yield f"spent.choices: {self._claimed}, expected {self._choices}"

    def plan_findings(self, plan: Plan, time_s: float) -> Iterator[str]:
        """Yield the limits that a plan exceeds."""
        price = self.price_of(plan)
        if not self.affords(price):
            yield (
                f"spent.budget: the plan costs {price!r} an hour, the budget is "
                f"{self.budget}"
            )
        if time_s > self.longest_s * (1 + _TOLERANCE):
            yield (
                f"spent.min_tokens_per_s: the plan takes {time_s!r} s, at "
                f"most {self.longest_s!r} s are allowed"
            )
        rented = nodes_of(self._problem, plan)
        own = [rented.get(each.name, 0) for each in self._problem.clusters]
        proven = self.least_s[(self._nodes == own).all(axis=1)]
        longest_s = time_s * (1 + _TOLERANCE) + self.slack_s
        if (proven > longest_s).any() and time_s <= self.longest_s:
            yield (
                f"spent.fleets: the plan takes {time_s!r} s, its nodes are said to "
                f"take at least {float(proven.max())!r} s"
            )

    def least(self, *, cost: bool) -> float:
        """Return a lower bound on time, or cost, of all plans; inf if there is none."""
        possible = np.isfinite(self.least_s)
        value = self.least_s[possible]
        if cost:
            value = value * self.price[possible] / 3600
        return float(value.min(initial=np.inf))


def bound_findings(
    spending: Spending,
    *,
    status: str,
    objective: str,
    plan: Plan | None,
    value: float | None,
    lower_bound_s: float | None,
    gap: float | None,
) -> Iterator[str]:
    """Yield findings on the bound of a result with a budget or prices.

    Parameters
    ----------
    value
        The minimised time, or the closed form; None without a plan.
    """
    cost = objective == "cost"
    least = spending.least(cost=cost)
    if plan is None or value is None:
        if status == "infeasible" and not math.isinf(least):
            yield f"status: infeasible, but the fleets permit {least!r}"
        return
    yield from spending.plan_findings(plan, value)
    name, bound = "lower_bound_s", lower_bound_s
    if not cost and spending.lower_bound is not None:
        yield f"spent.lower_bound: {spending.lower_bound}, but time is minimised"
    if cost:
        if lower_bound_s is not None:
            yield f"lower_bound_s: {lower_bound_s}, but cost is minimised"
        name, bound = "spent.lower_bound", spending.lower_bound
        value *= spending.price_of(plan) / 3600
    if bound is None:
        yield f"{name}: missing"
        return
    if bound > value * (1 + _TOLERANCE):
        yield f"{name}: {bound}, more than the plan's {value!r}"
    if bound > least * (1 + _TOLERANCE):
        yield f"{name}: {bound}, the fleets prove only {least!r}"
    expected = max(0.0, (value - bound) / value) if value else 0.0
    if gap is None or abs(gap - expected) > _TOLERANCE:
        yield f"gap: {gap}, expected {expected!r}"
    if status == "optimal" and expected > OPTIMALITY_GAP + _TOLERANCE:
        yield f"status: optimal, but the gap is {expected!r}"


def check_front(
    problem: Problem, table: CostTable, data: Mapping[str, Any]
) -> list[str]:
    """Return one line for every claim of a front that does not hold.

    Parameters
    ----------
    data
        As ``Front.to_json`` makes it.

    Raises
    ------
    InputError
        The data is not a front; the field names the key.
    DigestError
        A plan in it was made from another problem or table.
    """
    return list(_front_findings(problem, table, mapping(data, "")))


def _front_findings(
    problem: Problem, table: CostTable, data: Mapping[str, Any]
) -> Iterator[str]:
    choice(data, "schema", (FRONT_SCHEMA,), "")
    status = choice(data, "status", choices(Status), "")
    simulated = choice(data, "objective", _TIMES, "") == "simulated"
    text(data, "solver", "")
    principles = read_principles(data) if "relaxed" in data else PRUNED
    spending = Spending(problem, table, mapping(data.get("spent"), "spent"))
    yield from spending.findings()
    if spending.lower_bound is not None:
        yield f"spent.lower_bound: {spending.lower_bound}, but this is a front"
    known: list[tuple[float, float]] = []
    for place, item in items(data, "points", ""):
        entry = mapping(item, place)
        plan = read_plan(entry.get("plan"), f"{place}.plan")
        try:
            checked = check_plan(problem, table, plan, principles)
        except CheckError as error:
            yield from (f"{place}: {finding}" for finding in error.findings)
            continue
        yield from _point_findings(problem, table, plan, checked, entry, place)
        time_s = checked.iteration_time_s if simulated else checked.closed_form_s
        yield from (f"{place}: {each}" for each in spending.plan_findings(plan, time_s))
        price = spending.price_of(plan)
        if known and not (price > known[-1][0] and time_s < known[-1][1]):
            yield (
                f"{place}: expected a higher price and a shorter time than the point "
                "before it"
            )
        known.append((price, time_s))
    open_ = whole(data, "open", "", least=0)
    left = _undecided(spending, known)
    if left > open_:
        yield (
            f"open: {open_}, but {counted(left, 'choice')} of nodes may hold a better "
            "plan"
        )
    if status in ("optimal", "infeasible") and open_:
        yield f"status: {status}, but open: {open_}"
    if (status == "infeasible") != (not known and not open_):
        yield f"status: {status}, with {counted(len(known), 'point')}"


def _point_findings(
    problem: Problem,
    table: CostTable,
    plan: Plan,
    checked: CheckedPlan,
    entry: Mapping[str, Any],
    place: str,
) -> Iterator[str]:
    for key, expected in (
        ("closed_form_s", checked.closed_form_s),
        ("iteration_time_s", checked.iteration_time_s),
        ("tokens_per_s", table.tokens / checked.iteration_time_s),
    ):
        claimed = number(entry, key, place)
        if claimed is None or abs(claimed - expected) > _TOLERANCE * expected:
            yield f"{place}.{key}: {claimed}, expected {expected!r}"
    cost = mapping(entry.get("cost"), f"{place}.cost")
    for finding in cost_findings(problem, plan, checked.iteration_time_s, cost):
        yield f"{place}.{finding}"


def _undecided(spending: Spending, known: list[tuple[float, float]]) -> int:
    """Return how many fleets may have a plan that no known plan dominates."""
    open_ = np.isfinite(spending.least_s)
    for price, time_s in known:
        dearer = spending.price >= price * (1 - _TOLERANCE)
        no_better_s = time_s * (1 - _TOLERANCE) - spending.slack_s
        open_ &= ~(dearer & (spending.least_s >= no_better_s))
    return int(open_.sum())


def _device_time_s(
    problem: Problem, table: CostTable, nodes: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the least time in which the devices of each fleet can do the work.

    A stage runs every one of its units once per pass, and with v chunks of the model
    q micro-batches are q v passes: a unit of the table is then one in each chunk.
    """
    body = sum(table.body[kind] for kind in table.units)
    kinds = sorted({kind for kind in table.units if table.body[kind]})
    least = np.full(len(nodes), np.inf)
    for part in table.slices:
        units_per_s = np.zeros(len(nodes))
        for j, own in enumerate(part.clusters):
            if not own.strategies:
                continue
            seconds = min(
                int(own.forward_ns[k, kind] + own.backward_ns[k, kind])
                * 1e-9
                * strategy.devices
                for k, strategy in enumerate(own.strategies)
                for kind in kinds
            )
            devices = nodes[:, j] * problem.clusters[j].devices_per_node
            units_per_s += devices / max(seconds, 1e-9)
        with np.errstate(divide="ignore"):
            least = np.minimum(
                least, part.microbatches * part.chunks * body / units_per_s
            )
    return least * (1 - _TOLERANCE)
