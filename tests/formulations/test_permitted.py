"""Pins, compiled: what they say of clusters and of whole decisions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetopt.formulations.decision import Decision
from hetopt.formulations.permitted import Permitted
from hetopt.plans.strategy import Strategy
from hetopt.problem.training.pins import ClusterPins, Domain, Pins

NAMES = ("a", "b", "c")
ONE = Strategy(dp=1, cp=1, tp=1, recompute="none")
PLAN = Decision(
    microbatches=4,
    order=(1, 0),
    strategies=(ONE, ONE),
    hosted=(2, 1),
    units=(3, 2, 4),
)


def only(*values: int) -> Domain:
    return Domain(allowed=frozenset(values))


@pytest.mark.parametrize(
    ("pins", "kept"),
    [
        (Pins(), True),
        (Pins(stages=only(3), microbatches=only(4)), True),
        (Pins(stages=only(2)), False),
        (Pins(microbatches=only(8)), False),
        (Pins(order=("b", "a")), True),
        (Pins(order=("a", "b")), False),
        (Pins(order=("b", "a", "c")), False),
        (Pins(forbidden_next=frozenset({("a", "b")})), True),
        (Pins(forbidden_next=frozenset({("b", "a")})), False),
        (Pins(units=(3, 2, 4)), True),
        (Pins(units=(2, 3, 4)), False),
        (Pins(clusters={"b": ClusterPins(stages=only(2), units=only(5))}), True),
        (Pins(clusters={"b": ClusterPins(units=only(4))}), False),
        (Pins(clusters={"c": ClusterPins(stages=only(1))}), False),
    ],
)
def test_decisions_that_keep_pins(pins: Pins, kept: bool) -> None:
    assert Permitted.of(pins, NAMES).permits(PLAN) == kept


def test_a_cluster_that_comes_again_is_counted_as_a_whole() -> None:
    again = replace(
        PLAN, order=(1, 0, 1), strategies=(ONE,) * 3, hosted=(1, 1, 1), units=(3, 2, 4)
    )
    pins = Pins(clusters={"b": ClusterPins(stages=only(2), units=only(7))})
    assert Permitted.of(pins, NAMES).permits(again)
    other = Pins(clusters={"b": ClusterPins(units=only(3))})
    assert not Permitted.of(other, NAMES).permits(again)


def test_roles_under_an_order() -> None:
    permitted = Permitted.of(Pins(order=("c", "a")), NAMES)
    assert [permitted.may_open(j) for j in range(3)] == [False, False, True]
    assert [permitted.may_close(j) for j in range(3)] == [True, False, False]
    assert [permitted.may_rest(j) for j in range(3)] == [False, True, False]
    assert permitted.may_follow(2, 0)
    assert not permitted.may_follow(0, 2)
