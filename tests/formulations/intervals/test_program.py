"""The interval program, family by family, beside the CP-SAT program's optimum."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetopt.formulations.intervals.program import IntervalProgram
from hetopt.formulations.intervals.sets import Arc, Host, IntervalSets
from hetopt.problem.training.choices import ScheduleName
from hetopt.problem.training.pins import ClusterPins, Domain, Pins
from tests.formulations import programs
from tests.formulations.intervals_on import best, optimum
from tests.formulations.programs import (
    ENOUGH,
    ONE,
    TWO,
    data_of,
    exactly,
    hosting,
    table,
    with_cluster,
    with_slices,
)
from tests.oracle.instances import ONE_CHUNK

APART = frozenset({("a", "b")})


def same_optimum(costs: object, p: int, q: int, pins: Pins | None = None) -> bool:
    """Whether CP-SAT finds the same value; returns whether there is a plan."""
    expected = programs.best(costs, p, q, pins)  # type: ignore[arg-type]
    found = best(costs, p, q, pins)  # type: ignore[arg-type]
    assert (found is None) == (expected is None)
    if found is None or expected is None:
        return False
    assert found.value == expected.value
    return True


@pytest.mark.quick_cases(12)
@pytest.mark.parametrize("schedule", ONE_CHUNK)
@pytest.mark.parametrize(("p", "q"), [(1, 1), (1, 4), (3, 1), (3, 4), (5, 8)])
def test_every_schedule(schedule: ScheduleName, p: int, q: int) -> None:
    costs = table(ONE, TWO, schedule=schedule, transfer_ns=2000, activation_bytes=5)
    same_optimum(costs, p, q)
    ends = (1100, 1000, 900)
    assert same_optimum(with_cluster(costs, 1, forward_ns=ends), 2, 4)


def test_arcs_are_all_ways_to_host() -> None:
    """b has four devices: at most two stages of two, anywhere in the pipeline."""
    sets = IntervalSets(data_of(table(TWO, activation_bytes=0), 3, 4))
    assert [arc for arc in sets.arcs if arc.host.cluster == 1] == [
        Arc(Host(1, 0, 0), first, stages)
        for first, stages in ((0, 1), (0, 2), (1, 1), (1, 2), (2, 1))
    ]


def test_hosts_know_the_clusters_after_them_only_where_memory_does() -> None:
    roomy = table(schedule="virtual-1f1b", activation_bytes=0)
    tight = table(schedule="virtual-1f1b", activation_bytes=60)
    assert not IntervalSets(data_of(roomy, 3, 8)).told_apart
    assert IntervalSets(data_of(tight, 3, 8)).told_apart
    assert not IntervalSets(data_of(tight, 3, 1)).told_apart
    assert not IntervalSets(data_of(replace(tight, schedule="1f1b"), 3, 8)).told_apart


@pytest.mark.parametrize("in_flight", [3, 4])
def test_crossings_add_warmups_before_them(in_flight: int) -> None:
    """Two stages on a, then one on b: W of the first is 4."""
    costs = table(schedule="virtual-1f1b", activation_bytes=1)
    costs = replace(costs, usable_bytes=(20 + 3 * 100 + 5 + 3 * in_flight, 1000))
    pins = hosting(2, 1, order=("a", "b"), units=(3, 2, 3))
    assert same_optimum(costs, 3, 8, pins) == (in_flight == 4)


def test_capacity_of_a_stage_is_that_of_its_position() -> None:
    costs = replace(table(activation_bytes=60), usable_bytes=(870, 870))
    ((_, rooms),) = IntervalSets(data_of(costs, 2, 4, Pins(order=("a",)))).rooms.items()
    # beside the embedding and with W = 2, and beside the head with W = 1
    assert [room.most for room in rooms] == [2, 4]
    assert same_optimum(costs, 2, 4, Pins(order=("a",)))


def test_lambda_bounds_units_too() -> None:
    data = data_of(table(activation_bytes=0), 2, 4, cutoff=3 * 6000 * 1000 + 2)
    assert IntervalSets(data).rooms
    assert all(
        room.most == 1 for rooms in IntervalSets(data).rooms.values() for room in rooms
    ), "two layers and an end take more than 6000 ticks"


@pytest.mark.parametrize("transfer_ns", [0, 500, 4000, 9000])
@pytest.mark.parametrize("schedule", ONE_CHUNK)
def test_windows_and_occupancy(schedule: ScheduleName, transfer_ns: int) -> None:
    costs = table(schedule=schedule, transfer_ns=transfer_ns, activation_bytes=0)
    assert same_optimum(costs, 4, 8, hosting(2, 2))
    slow = with_slices(costs, transfer_ns=11000, occupancy_ns=11000)
    assert same_optimum(slow, 3, 8, hosting(2, 1))


def test_kappa_is_that_of_the_cut_and_of_both_layouts() -> None:
    costs = table()
    costs = replace(costs, cut_classes=("hidden", "wide"), cuts=(0, 0, 1, 0, 1, 0, 0))
    costs = with_slices(
        costs,
        transfer_ns=[[[10, 20], [30, 40]], [[50, 60], [70, 80]]],
        occupancy_ns=[[[10, 20], [30, 40]], [[50, 60], [70, 80]]],
        resharding=0,
    )
    for units in ((3, 5), (4, 4)):
        for order in (("a", "b"), ("b", "a")):
            assert same_optimum(costs, 2, 1, hosting(1, 1, order=order, units=units))
        assert same_optimum(costs, 2, 4, replace(hosting(2, 0), units=units))
    assert same_optimum(costs, 3, 4)


def test_synchronisation_and_tied_embeddings() -> None:
    costs = with_slices(table(transfer_ns=0), tied_ns=[[11, 22], [33, 44]])
    costs = with_cluster(costs, 0, sync_ns=70, sync_unit_ns=(1000, 10, 1))
    costs = with_cluster(costs, 1, sync_ns=60, sync_unit_ns=(1, 10, 500))
    for pins in (hosting(1, 1), hosting(2, 0), hosting(1, 1, order=("b", "a"))):
        assert same_optimum(costs, 2, 1, pins)
    assert same_optimum(costs, 1, 4)


@pytest.mark.parametrize(
    "pins",
    [
        Pins(order=("b",)),
        Pins(order=("b", "a")),
        hosting(2, 1, order=("a", "b")),
        hosting(3, 0),
        hosting(1, 2, units=(2, 3, 3)),
        hosting(1, 2, units=(1, 4, 3)),
        hosting(2, 1, forbidden_next=APART),
        Pins(clusters={"b": ClusterPins(units=exactly(5))}),
        Pins(clusters={"b": ClusterPins(units=exactly(0))}),
        Pins(clusters={"b": ClusterPins(units=Domain(forbidden=frozenset({0, 3})))}),
        Pins(clusters={"b": ClusterPins(stages=Domain(forbidden=frozenset({0})))}),
        Pins(units=(4, 4)),
    ],
)
def test_pins(pins: Pins) -> None:
    same_optimum(table(activation_bytes=0), 3, 4, pins)


def test_excluding_a_shape_leaves_the_next_best() -> None:
    costs = table(ONE, TWO, activation_bytes=0)
    first = best(costs, 2, 4)
    assert first is not None
    program = IntervalProgram(data_of(costs, 2, 4))
    second = optimum(program, costs, first.decision)
    assert second is not None
    assert second.decision.shape != first.decision.shape
    assert second.value >= first.value


def test_no_room_and_more_stages_than_layers() -> None:
    assert best(replace(table(), usable_bytes=(0, 0)), 2, 2) is None
    assert best(table(), 7, 2) is None


def test_cutoff_admits_its_equal() -> None:
    costs = table(activation_bytes=0)
    found = best(costs, 3, 4)
    assert found is not None
    at = IntervalProgram(data_of(costs, 3, 4, cutoff=found.value))
    below = IntervalProgram(data_of(costs, 3, 4, cutoff=int(found.value * 0.9999)))
    assert optimum(at, costs) == found
    assert optimum(below, costs) is None


def test_names_are_unlike_and_readable() -> None:
    costs = replace(table(ONE, TWO), cluster_names=("a b", "a-b"))
    lp = IntervalProgram(data_of(costs, 2, 4)).program
    assert len(set(lp.names)) == len(lp.names)
    assert len(set(lp.row_names)) == len(lp.row_names)
    assert "hosts(a_b_0,d1c1t2_none,0..1)" in lp.names
    assert "device_time(a_b_1)" in lp.row_names
    assert not any(set(name) & set(" +-*/^<>=[]") for name in lp.names + lp.row_names)
    assert ENOUGH
