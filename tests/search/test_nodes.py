"""What alternatives remember of their children."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.errors import InputError
from hetopt.solvers.search.node import Found, Node, Step, spread
from hetopt.solvers.search.one_of import OneOf
from tests.search.toys import OnePlan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.solvers.search.node import Leaf


class Child(Node):
    """A child that is open or not, and tells its parents whenever it is asked to."""

    is_open = False

    def next(self, cutoff: float) -> Step | None:
        return Step(self, cutoff) if self.is_open else None  # type: ignore[arg-type]

    def update(self, key: Any) -> bool:
        return True

    def open_leaves(self, cutoff: float) -> int:
        return int(self.is_open)

    def searched(self) -> Iterator[Leaf]:
        return iter(())


def test_what_had_nothing_to_search_is_looked_at_again_when_it_changes() -> None:
    """Two levels of alternatives know that the first child had nothing left."""
    first, second = Child(), Child()
    inner = OneOf(np.zeros(2), [first, second].__getitem__)
    outer = OneOf(np.zeros(2), [inner, Child()].__getitem__)
    second.is_open = True
    step = outer.next(math.inf)
    assert step is not None
    assert step.leaf is second  # type: ignore[comparison-overlap]
    second.is_open = False
    assert outer.next(math.inf) is None
    assert outer.next(math.inf) is None
    # Another parent had a part of it searched: its bound and its plans are the same.
    first.is_open = True
    spread(first)
    step = outer.next(math.inf)
    assert step is not None
    assert step.leaf is first  # type: ignore[comparison-overlap]


def test_what_is_known_of_a_new_child_is_known_above_at_once() -> None:
    """Nothing was searched, but none of them can have a plan."""
    none = Child(math.inf)
    inner = OneOf(np.ones(1), lambda _: none)
    outer = OneOf(np.ones(1), lambda _: inner)
    assert outer.bound == 1
    assert outer.next(math.inf) is None
    assert (outer.bound, outer.rest) == (math.inf, math.inf)


def found(time_s: float, number: int) -> Found:
    """Return a plan that differs from those of other numbers."""
    plan = OnePlan(time_s, (("red", 1, number),), number, "1f1b")
    space: Any = None
    return Found(value=time_s, time_s=time_s, priced=plan.priced(), space=space)


def test_every_plan_below_rest_is_listed() -> None:
    """A plan that is left out may be the cheapest, so a level above has to know."""
    first, second, third = children = [Child() for _ in range(3)]
    first.best, second.best = (found(8.0, 1),), (found(9.0, 2), found(10.0, 3))
    third.best = (found(9.2, 4),)
    for child, rest in zip(children, (100.0, 10.0, 100.0), strict=True):
        child.bound, child.rest = child.best[0].value, rest
    node = OneOf(np.zeros(3), children.__getitem__, top=2)
    assert node.next(math.inf) is None
    assert [each.value for each in node.best] == [8.0, 9.0]
    assert node.rest == 9.0


def test_a_low_bound_is_searched_even_if_all_best_plans_are_known() -> None:
    """Where nothing is left to be found, the first plan may still lack its proof."""
    first, second = Child(), Child()
    first.best = found(6.0, 1), found(7.0, 2)
    first.bound, first.rest = 6.0, 7.0
    second.bound, second.rest = 5.0, 100.0
    node = OneOf(np.zeros(2), [first, second].__getitem__, top=2)
    assert node.next(math.inf) is None
    assert node.bound == 5.0
    second.is_open = True
    spread(second)
    step = node.next(math.inf)
    assert step is not None
    assert step.leaf is second  # type: ignore[comparison-overlap]
    assert step.cutoff == 6.0


def test_a_child_that_cannot_be_made_is_left_to_its_bound() -> None:
    """Its nodes may be divided in too many ways; others are searched."""
    other, error = Child(2.0), InputError("too many ways", field="pipelines")
    other.is_open = True

    def make(index: int) -> Node:
        if index == 0:
            raise error
        return other

    inner = OneOf(np.array([1.0, 2.0]), make)
    outer = OneOf(np.zeros(1), [inner].__getitem__)
    step = outer.next(math.inf)
    assert step is not None
    assert step.leaf is other  # type: ignore[comparison-overlap]
    other.is_open = False
    assert outer.next(math.inf) is None
    assert outer.failure is error
    assert (inner.bound, outer.bound) == (1.0, 1.0)
