"""Warm-ups of h-1f1b in the interval program, beside the CP-SAT program's optimum."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetopt.cost.table.table import CostTable
from hetopt.formulations.intervals.program import IntervalProgram
from hetopt.formulations.intervals.sets import IntervalSets
from hetopt.problem.training.pins import Pins
from tests.formulations import programs
from tests.formulations.intervals_on import best, optimum
from tests.formulations.programs import (
    ONE,
    TWO,
    data_of,
    hosting,
    table,
    with_cluster,
    with_slices,
)


def same_optimum(costs: CostTable, p: int, q: int, pins: Pins | None = None) -> bool:
    """Whether CP-SAT finds the same value; returns whether there is a plan."""
    expected, found = programs.best(costs, p, q, pins), best(costs, p, q, pins)
    assert (found is None) == (expected is None)
    if found is None or expected is None:
        return False
    assert found.value == expected.value
    return True


def adaptive(transfer_ns: int = 200, **changes: int) -> CostTable:
    costs = table(ONE, TWO, schedule="h-1f1b", transfer_ns=transfer_ns, **changes)
    return with_slices(costs, occupancy_ns=0)


@pytest.mark.parametrize(("transfer_ns", "deltas"), [(355, 1), (356, 2), (3551, 3)])
def test_thresholds_to_the_tick(transfer_ns: int, deltas: int) -> None:
    """The longest is tau = 7100 of both ends: 1/20 and 1/2 of it are 355 and 3550."""
    costs = table(schedule="h-1f1b", transfer_ns=transfer_ns)
    costs = with_slices(costs, occupancy_ns=0)
    for j in (0, 1):
        ends = {"forward_ns": (1100, 1000, 1100), "backward_ns": (0, 2000, 0)}
        costs = with_cluster(costs, j, activation_bytes=1, **ends)
    pins = hosting(2, 1, order=("a", "b"), units=(3, 2, 3))
    first = 20 + 3 * 100 + 5
    for held, fits in ((1 + 2 * deltas, True), (2 * deltas, False)):
        tight = replace(costs, usable_bytes=(first + 3 * held, 1000))
        assert same_optimum(tight, 3, 8, pins) == fits


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize("transfer_ns", [0, 155, 300, 465, 466, 1500, 4651, 20000])
@pytest.mark.parametrize("activation_bytes", [0, 20])
def test_every_boundary(transfer_ns: int, activation_bytes: int) -> None:
    costs = adaptive(transfer_ns, activation_bytes=activation_bytes)
    assert same_optimum(costs, 2, 4)
    assert same_optimum(costs, 3, 8, hosting(2, 1))
    faster = with_cluster(costs, 1, forward_ns=(1100, 1000, 900))
    assert same_optimum(faster, 3, 8, hosting(1, 2))


def test_unlike_boundaries_and_clusters() -> None:
    costs = with_slices(
        table(schedule="h-1f1b", activation_bytes=20),
        transfer_ns=[[[200, 2000], [350, 1500]]],
        occupancy_ns=0,
        resharding=0,
    )
    assert same_optimum(costs, 3, 4)
    assert same_optimum(costs, 4, 8, hosting(2, 2))


def test_unused_boundary_is_not_the_longest() -> None:
    """A longer lambda_0 would lower the warm-ups: nothing here is that long."""
    costs = with_slices(
        table(schedule="h-1f1b", activation_bytes=1),
        transfer_ns=[[[500, 20000], [20000, 500]]],
        occupancy_ns=0,
        resharding=0,
    )
    pins = Pins(order=("a",), units=(4, 4))
    state = 20 + 4 * 100 + 5
    costs = with_cluster(costs, 0, temporary_bytes=(0, 5, 5))
    for in_flight in (2, 3):
        tight = replace(costs, usable_bytes=(state + 4 * in_flight, 1000))
        assert same_optimum(tight, 2, 4, pins) == (in_flight == 3)


def test_memory_asks_for_warmups_only_where_they_matter() -> None:
    tight = adaptive(500, activation_bytes=60)
    assert IntervalProgram(data_of(tight, 3, 8)).variables.at_least
    roomy = adaptive(500, activation_bytes=0)
    assert IntervalProgram(data_of(roomy, 3, 8)).variables.reaches
    assert not IntervalProgram(data_of(roomy, 3, 8)).variables.at_least
    # too slow to be within 1/100 of the longest, whatever that is
    sure = replace(adaptive(200, activation_bytes=60), warmup_epsilon=0.01)
    assert not IntervalSets(data_of(sure, 3, 8)).tighter
    # a single micro-batch is in flight whatever W is
    assert not IntervalSets(data_of(tight, 3, 1)).tighter


def test_excluding_a_decision_leaves_other_splits_of_it() -> None:
    for costs in (table(ONE), unlike(table(ONE))):
        costs = replace(costs, usable_bytes=(10**6, 10**6))
        first = best(costs, 2, 4)
        assert first is not None
        program = IntervalProgram(data_of(costs, 2, 4, hosting(1, 1, order=("a", "b"))))
        seen = set()
        for _ in range(3):
            found = optimum(program, costs)
            assert found is not None
            program.exclude(found.decision, units=True)
            seen.add(found.decision.units)
        assert len(seen) == 3


def unlike(costs: CostTable) -> CostTable:
    """Two classes of cuts, so that cuts are one-hot."""
    costs = replace(costs, cut_classes=("hidden", "wide"), cuts=(0, 0, 1, 0, 1, 0, 0))
    return with_slices(costs, transfer_ns=100, occupancy_ns=0, resharding=0)
