"""P1 to P4, devices and the order of clusters, each alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hetopt.formulations.cp_sat.program import PipelineProgram
from hetopt.problem.training.pins import ClusterPins, Domain, Pins
from tests.formulations.programs import (
    ONE,
    TWO,
    best,
    data_of,
    hosting,
    optimum,
    plan,
    program_of,
    table,
    with_cluster,
)

if TYPE_CHECKING:
    from hetopt.plans.strategy import Strategy


def test_every_unit_lies_on_one_stage() -> None:
    decision = plan(table(), 4, 2).decision
    assert sum(decision.units) == 8
    assert len(decision.units) == 4


def test_as_many_stages_as_layers() -> None:
    """The ends lie beside the first and the last layer."""
    assert plan(table(), 6, 2).decision.units == (2, 1, 1, 1, 1, 2)


def test_every_stage_needs_a_layer() -> None:
    assert best(table(), 7, 2) is None


def test_cluster_has_room_for_as_many_stages_as_devices() -> None:
    costs = table(TWO)
    assert plan(costs, 2, 2, hosting(0, 2)).decision.hosted == (2,)
    assert best(costs, 3, 2, hosting(0, 3)) is None


def test_stages_of_a_cluster_are_consecutive() -> None:
    """Neither a, b, a nor b, a, b: each cluster is left once."""
    apart = frozenset({("a", "b")})
    decision = plan(table(), 5, 2, hosting(3, 2, forbidden_next=apart)).decision
    assert decision.order == (1, 0)
    assert decision.hosted == (2, 3)
    both = frozenset({("a", "b"), ("b", "a")})
    assert best(table(), 5, 2, hosting(3, 2, forbidden_next=both)) is None


def test_a_stage_lies_in_one_cluster() -> None:
    """b's four devices are no stage of eight with four of a's."""
    eight = replace(ONE, dp=8)
    costs = table(eight)
    only_b = Pins(clusters={"a": ClusterPins(stages=Domain(forbidden=frozenset({1})))})
    assert best(costs, 1, 1) is not None
    assert best(costs, 1, 1, only_b) is None


def test_one_strategy_per_cluster() -> None:
    """Two devices for the first stage and one for each other would fit."""
    costs = with_cluster(table(ONE, TWO), 1, state_bytes=[[981, 1, 1], [1, 1, 1]])
    assert plan(costs, 2, 2, hosting(0, 2)).decision.strategies == (TWO,)
    assert best(costs, 3, 2, hosting(0, 3)) is None
    lighter = with_cluster(costs, 1, state_bytes=[[900, 1, 1], [1, 1, 1]])
    assert plan(lighter, 3, 2, hosting(0, 3)).decision.strategies == (ONE,)


def test_slow_cluster_stays_unused() -> None:
    costs = with_cluster(table(), 1, forward_ns=9000)
    assert plan(costs, 3, 4).decision.order == (0,)
    used = Pins(clusters={"b": ClusterPins(stages=Domain(forbidden=frozenset({0})))})
    assert set(plan(costs, 3, 4, used).decision.order) == {0, 1}


def test_faster_cluster_gets_more_units() -> None:
    costs = with_cluster(table(), 1, forward_ns=500, backward_ns=1000)
    decision = plan(costs, 2, 8, hosting(1, 1)).decision
    units = dict(zip(decision.order, decision.units, strict=True))
    assert units[1] > units[0]


def test_nothing_on_offer() -> None:
    costs = with_cluster(
        with_cluster(table(), 0, fixed_bytes=1001), 1, fixed_bytes=1001
    )
    assert best(costs, 1, 1) is None


def test_cutoff_is_reached_and_not_passed() -> None:
    costs = table()
    value = plan(costs, 3, 4).value
    assert optimum(PipelineProgram(data_of(costs, 3, 4, cutoff=value))) is not None
    assert optimum(PipelineProgram(data_of(costs, 3, 4, cutoff=value - 1))) is None


def test_excluded_shape_is_not_found_again() -> None:
    costs, pins = table(), hosting(2, 1)
    first = plan(costs, 3, 4, pins)
    program = program_of(costs, 3, 4, pins)
    program.exclude(first.decision)
    second = optimum(program)
    assert second is not None
    assert second.value >= first.value
    assert second.decision.order == first.decision.order[::-1]
    program = program_of(costs, 3, 4, pins)
    program.exclude(first.decision)
    program.exclude(second.decision)
    assert optimum(program) is None


@pytest.mark.parametrize("strategy", [TWO, replace(ONE, recompute="full")])
def test_excluding_what_is_not_on_offer(strategy: Strategy) -> None:
    """The cutoff may have fallen since the decision was found."""
    costs = table(ONE)
    found = plan(costs, 2, 2)
    program = program_of(costs, 2, 2)
    program.exclude(
        replace(found.decision, strategies=(strategy,) * len(found.decision.order))
    )
    assert optimum(program) == found
