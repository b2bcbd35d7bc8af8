"""Every pin a program states, one by one."""

from __future__ import annotations

import pytest

from hetopt.problem.training.pins import ClusterPins, Domain, Pins
from tests.formulations.programs import (
    best,
    exactly,
    hosting,
    plan,
    table,
    with_cluster,
)


@pytest.mark.parametrize(
    ("order", "expected"),
    [(("a", "b"), (0, 1)), (("b", "a"), (1, 0)), (("b",), (1,)), (("a",), (0,))],
)
def test_order(order: tuple[str, ...], expected: tuple[int, ...]) -> None:
    assert plan(table(), 3, 4, Pins(order=order)).decision.order == expected


def test_order_with_a_cluster_that_cannot_host() -> None:
    costs = with_cluster(table(), 1, fixed_bytes=1001)
    assert best(costs, 2, 2, Pins(order=("a",))) is not None
    assert best(costs, 2, 2, Pins(order=("a", "b"))) is None


def test_order_needs_a_stage_for_each() -> None:
    assert best(table(), 1, 2, Pins(order=("a", "b"))) is None


def test_forbidden_neighbours() -> None:
    pins = Pins(
        forbidden_next=frozenset({("a", "b")}),
        clusters={name: ClusterPins(stages=exactly(1)) for name in "ab"},
    )
    assert plan(table(), 2, 2, pins).decision.order == (1, 0)


@pytest.mark.parametrize("stages", [0, 1, 2, 3])
def test_stages_of_a_cluster(stages: int) -> None:
    pins = Pins(clusters={"b": ClusterPins(stages=exactly(stages))})
    decision = plan(table(), 3, 4, pins).decision
    hosted = dict(zip(decision.order, decision.hosted, strict=True))
    assert hosted.get(1, 0) == stages


def test_forbidden_stages() -> None:
    pins = Pins(
        clusters={
            "a": ClusterPins(stages=Domain(forbidden=frozenset({0, 1, 3}))),
            "b": ClusterPins(stages=Domain(forbidden=frozenset({0}))),
        }
    )
    decision = plan(table(), 4, 4, pins).decision
    assert dict(zip(decision.order, decision.hosted, strict=True)) == {0: 2, 1: 2}
    assert best(table(), 2, 4, pins) is None


@pytest.mark.parametrize("units", [2, 3, 5])
def test_units_of_a_cluster_count_the_ends(units: int) -> None:
    pins = Pins(clusters={"b": ClusterPins(units=exactly(units))})
    decision = plan(table(), 3, 4, pins).decision
    where = dict(zip(decision.order, decision.hosted, strict=True))
    own = decision.units[: where[1]]
    if decision.order[-1] == 1:
        own = decision.units[-where[1] :]
    assert sum(own) == units


def test_units_of_an_unused_cluster_are_none() -> None:
    costs = with_cluster(table(), 1, fixed_bytes=1001)
    none = Pins(clusters={"b": ClusterPins(units=exactly(0))})
    some = Pins(clusters={"b": ClusterPins(units=exactly(3))})
    assert best(costs, 2, 4, none) is not None
    assert best(costs, 2, 4, some) is None
    assert plan(table(), 2, 4, none).decision.order == (0,)


def test_stage_pins_of_a_cluster_that_cannot_host() -> None:
    costs = with_cluster(table(), 1, fixed_bytes=1001)
    assert best(costs, 2, 4, hosting(2, 0)) is not None
    assert best(costs, 2, 4, hosting(1, 1)) is None


@pytest.mark.parametrize("units", [(2, 3, 3), (5, 1, 2), (2, 1, 5)])
def test_units_per_stage(units: tuple[int, ...]) -> None:
    pins = hosting(2, 1, units=units)
    assert plan(table(activation_bytes=0), 3, 4, pins).decision.units == units


@pytest.mark.parametrize("units", [(4, 4), (1, 4, 3), (4, 0, 4), (3, 4, 1), (2, 3, 2)])
def test_units_per_stage_that_no_plan_has(units: tuple[int, ...]) -> None:
    """Too few stages, a stage without a layer, too few units."""
    assert best(table(), 3, 4, Pins(units=units)) is None
