"""Trees of toy problems against brute force: values, bounds, plans and claims."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hetopt.errors import InputError
from hetopt.solvers.dividing import divisions
from hetopt.solvers.search.branchings.fleets import Fleets
from hetopt.solvers.search.branchings.runnable import Runnable
from hetopt.solvers.search.branchings.together import Alike, Together
from hetopt.solvers.search.loop import Loop
from hetopt.solvers.search.node import Leaf
from hetopt.solvers.search.one_of import OneOf
from tests.search.toys import IN_COMMON, TOKENS, Space, Toy, permitted, use_toys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.solvers.search.node import Node
    from tests.search.toys import OnePlan

#: Trees in one test, and tests.
TREES, TESTS = 100, 10
#: Searches of leaves in one tree; none has so many.
MOST_SEARCHES = 5_000
#: Values and bounds may differ by so much of themselves.
ROUNDING = 1e-9


@pytest.fixture(autouse=True)
def _toys(monkeypatch: pytest.MonkeyPatch) -> None:
    use_toys(monkeypatch)


class Truth:
    """What brute force finds out about a toy."""

    def __init__(self, toy: Toy) -> None:
        self.toy = toy
        self._least: dict[object, float] = {}
        self.prices = [each.price_per_hour for each in toy.problem.clusters]

    def fleets(self) -> list[Space]:
        """Return the problem on every fleet that is permitted."""
        space, budget = self.toy.space(), self.toy.spending.budget
        if self.toy.measure is None:
            return [space]
        counts = (range(each.nodes + 1) for each in space.problem.clusters)
        every = [space.rented(nodes) for nodes in product(*counts) if any(nodes)]
        return [each for each in every if self.price(each) <= (budget or math.inf)]

    def price(self, space: Space) -> float:
        nodes = space.nodes or tuple(each.nodes for each in space.problem.clusters)
        return sum(n * price for n, price in zip(nodes, self.prices, strict=True))

    def plans(self, space: Space) -> list[OnePlan]:
        """Return every plan of one pipeline that is permitted, best first."""
        plans = self.toy.plans(space)
        if not self.toy.launcher:
            return plans
        kinds = [table.kinds for table in permitted(space)]
        return [
            each
            for each in plans
            if each.is_runnable and any(each.used[0][2] in own for own in kinds)
        ]

    @property
    def shared(self) -> tuple[str | None, ...]:
        """What all pipelines may have in common; None: nothing is asked."""
        return IN_COMMON.values if self.toy.alike else (None,)

    def least(self, space: Space, value: str | None = None) -> float:
        """Return the least time of one pipeline, of all kinds or of one."""
        own = (
            each.time_s
            for each in self.plans(space)
            if value is None or each.used[0][2] == int(value)
        )
        return min(own, default=math.inf)

    def longest(self, space: Space, way: Any) -> float:
        """Return the least time of the slowest pipeline of a division."""
        return min(self._longest(space, way, value) for value in self.shared)

    def _longest(self, space: Space, way: Any, value: str | None) -> float:
        nodes = [dict(parts) for parts in way]
        batch, least = space.table.batch, math.inf
        own = [
            [self.least(space.part(nodes, r, n, None), value) for n in range(1, batch)]
            for r in range(len(way))
        ]
        for batches in product(range(1, batch), repeat=len(way)):
            if sum(batches) == batch:
                times = (own[r][n - 1] for r, n in enumerate(batches))
                least = min(least, max(times))
        return least

    def ways(self, space: Space) -> list[Any]:
        """Return every division into several pipelines."""
        if self.toy.most == 1:
            return []
        return divisions(space.own, self.toy.most)  # type: ignore[arg-type]

    def every(self) -> list[tuple[float, float]]:
        """Return the price and the time of all plans, one of each division."""
        toy = self.toy
        found: dict[Any, tuple[float, float]] = {}
        longest_s = toy.spending.longest_s(TOKENS)
        for fleet in self.fleets():
            for space in self.scheduled(fleet):
                for plan in self.plans(space):
                    used = {name: count for name, count, _ in plan.used}
                    nodes = tuple(used.get(x.name, 0) for x in toy.problem.clusters)
                    price = self.price(space.rented(nodes))
                    found[plan.number] = price, plan.time_s
                for way in self.ways(space):
                    key: Any = (space.table.schedule, way)
                    price = min(self.price(space), found.get(key, (math.inf,))[0])
                    found[key] = price, self.longest(space, way)
        return [each for each in found.values() if each[1] <= longest_s]

    def scheduled(self, fleet: Space) -> list[Space]:
        toy = self.toy
        return [toy.under(fleet, each) for each in toy.schedules] or [fleet]

    def values(self) -> list[float]:
        """Return the values of all plans, best first."""
        cost = self.toy.measure == "cost"
        every = [price * time_s if cost else time_s for price, time_s in self.every()]
        return sorted(each for each in every if each < math.inf)

    def front(self) -> list[tuple[float, float]]:
        """Return price and time of the plans that no other beats in both."""
        kept: list[tuple[float, float]] = []
        for price, time_s in sorted(self.every()):
            if time_s < (kept[-1][1] if kept else math.inf):
                kept.append((price, time_s))
        return kept


class Checker:
    """The bound that follows from the claims of a tree; they are derived again."""

    def __init__(self, toy: Toy, truth: Truth) -> None:
        self.toy, self.truth = toy, truth

    def fleets(self, claim: Any) -> list[tuple[Space, float]]:
        """Return every fleet with the bound on its time."""
        if self.toy.measure is None:
            return [(self.toy.space(), self.scheduled(claim, self.toy.space()))]
        known = listed(claim, "fleets")
        fleets = self.truth.fleets()
        low = [
            self.scheduled(known.pop(key_of(own.there), None), own) for own in fleets
        ]
        assert not known
        if self.toy.most == 1:
            low = [
                max(
                    bound
                    for other, bound in zip(fleets, low, strict=True)
                    if (own.counts <= other.counts).all()
                )
                for own in fleets
            ]
        return list(zip(fleets, low, strict=True))

    def bound(self, claim: Any) -> float:
        """Return the bound on the value of all plans."""
        longest_s = self.toy.spending.longest_s(TOKENS)
        values = [math.inf]
        for space, bound in self.fleets(claim):
            if bound <= longest_s and bound < math.inf:
                price = self.truth.price(space) if self.toy.measure == "cost" else 1
                values.append(price * bound)
        return min(values)

    def scheduled(self, claim: Any, space: Space) -> float:
        least = cheap(space)
        if not self.toy.schedules:
            return max(least, self.divided(claim, space))
        known = listed(claim, "schedules")
        passed = known.pop(key_of({"schedule": "eager-1f1b"}), None)
        assert claim is None or passed["passed_over"]
        low = []
        for each in self.toy.schedules:
            own = known.pop(key_of({"schedule": each.schedule}), None)
            low.append(self.divided(own, self.toy.under(space, each)))
        assert not known
        return max(least, min(low))

    def divided(self, claim: Any, space: Space) -> float:
        if self.toy.most == 1:
            return self.one(claim, space)
        known = listed(claim, "divisions")
        whole = {name: (1,) * count for name, count in space.there.items()}
        one = self.one(known.pop(key_of([whole]), None), space)
        ways = {
            key_of([dict(own) for own in way]): way for way in self.truth.ways(space)
        }
        parts: dict[object, float] = {}
        for key, child in known.items():
            nodes = [dict(own) for own in ways[key]]
            for each in child["parts"]:
                number, batch = each["pipeline"], each["batch"]
                part = space.part(nodes, number, batch, None)
                value = each.get("alike")
                bound = self.one(each, part, value)
                # Without a value a claim is about all of them.
                for own in self.truth.shared if value is None else (value,):
                    where = own, key_of(nodes[number]), part.shared, batch
                    parts[where] = max(parts.get(where, 0.0), bound)
        low = [
            self.together(way, space, parts, value)
            for way in ways.values()
            for value in self.truth.shared
        ]
        return min([one, *low])

    def together(self, way: Any, space: Space, known: Any, value: str | None) -> float:
        """Return the bound of a division, given those of its pipelines."""
        nodes, batch = [dict(own) for own in way], space.table.batch
        low = math.inf
        for batches in product(range(1, batch), repeat=len(way)):
            if sum(batches) == batch:
                times = []
                for r, n in enumerate(batches):
                    part = space.part(nodes, r, n, None)
                    where = value, key_of(nodes[r]), part.shared, n
                    times.append(max(cheap(part), known.get(where, 0.0)))
                low = min(low, max(times))
        return low

    def one(self, claim: Any, space: Space, value: str | None = None) -> float:
        if claim is None:
            return cheap(space)
        bound = math.inf if claim["bound_s"] is None else claim["bound_s"]
        assert bound <= self.truth.least(space, value) * (1 + ROUNDING)
        return max(cheap(space), bound)


def cheap(space: Space) -> float:
    return space.table.batch / sum(space.there.values())


def listed(claim: Any, by: str) -> dict[object, Any]:
    """Return the children of a claim by what makes them."""
    if claim is None:
        return {}
    assert claim["by"] == by
    return {key_of(child["at"]): child for child in claim["children"]}


def key_of(at: Any) -> object:
    if isinstance(at, dict):
        if "schedule" in at:
            return at["schedule"]
        return tuple((name, key_of(own)) for name, own in sorted(at.items()))
    return tuple(map(key_of, at)) if isinstance(at, (list, tuple)) else at


def nodes_below(node: Node) -> Iterator[Node]:
    """Yield all nodes of a tree that were made."""
    yield node
    below: list[Node] = []
    if isinstance(node, OneOf):
        below = list(node.known.nodes.values())
        below += [node._whole] if isinstance(node, Alike) else []
    elif isinstance(node, Together):
        below = [own for seat in node._seats for own in seat.nodes.values()]
    elif isinstance(node, Runnable):
        below = [*node.parts, *([node.leaf] if node.leaf else [])]
    for each in below:
        yield from nodes_below(each)


def is_open(root: Node, cutoff: float) -> bool:
    """Whether anything is left to search, if nothing is remembered of what is not."""
    for node in nodes_below(root):
        if isinstance(node, OneOf):
            node.known.tried[:] = -np.inf
    return root.next(cutoff) is not None


def searched(toy: Toy, least: float) -> Node:
    """Return the tree, searched to the end; bounds and values are true meanwhile."""
    root = toy.root()
    history = [(0.0, math.inf)]

    def told() -> None:
        assert toy.searches < MOST_SEARCHES
        if toy.measure == "front":
            return
        bound, value = root.bound, root.value
        assert bound >= history[-1][0]
        assert value <= history[-1][1]
        assert bound <= least * (1 + ROUNDING)
        assert value >= least * (1 - ROUNDING)
        history.append((bound, value))

    loop = Loop(root, toy.deadline, told, cutoff=toy.cutoff)
    try:
        loop.run()
    except InputError:
        assert toy.mood == "refused"
    leaves = list(root.searched())
    assert len(leaves) == len(set(leaves))
    for node in nodes_below(root):
        if isinstance(node, Leaf):
            # What holds for other leaves is not claimed for this one.
            assert node.bound <= max(node.least, toy.proven.get(node, 0.0))
    if not loop.interrupted:
        assert not is_open(root, toy.cutoff)
    return root


def ensure_front(toy: Toy, truth: Truth, root: Fleets, checker: Checker) -> None:
    found = [(root.price_of(each), each.time_s) for each in root.best]
    expected = truth.front()
    if toy.is_exact or not root.undecided():
        assert found == [pytest.approx(each, rel=ROUNDING) for each in expected]
    if root.undecided():
        assert not toy.is_exact
        return
    for space, bound in checker.fleets(root.claim()):
        known = [t for price, t in found if price <= truth.price(space)]
        assert bound >= min(known, default=math.inf) * (1 - ROUNDING)


def ensure_tree(toy: Toy) -> None:
    truth = Truth(toy)
    values = truth.values()
    least = values[0] if values else math.inf
    root = searched(toy, least)
    checker = Checker(toy, truth)
    if toy.measure == "front":
        assert isinstance(root, Fleets)
        ensure_front(toy, truth, root, checker)
        return
    assert checker.bound(root.claim()) >= root.bound * (1 - ROUNDING)
    if not toy.is_exact:
        return
    assert root.bound >= min(least, toy.cutoff) * (1 - ROUNDING)
    # Of each division one plan is listed, which need not be the cheapest.
    most = 1 if toy.measure == "cost" and toy.most > 1 else toy.top
    expected = [each for each in values if each < toy.cutoff][:most]
    found = [each.value for each in root.best if each.value < toy.cutoff][:most]
    assert found == pytest.approx(expected, rel=ROUNDING)


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("first", range(0, TREES * TESTS, TREES))
def test_trees_of_toys_have_the_best_plans_and_true_bounds(first: int) -> None:
    for number in range(first, first + TREES):
        try:
            ensure_tree(Toy(number))
        except Exception as error:
            error.add_note(f"toy {number}")
            raise
