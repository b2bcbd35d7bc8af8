"""The period and the closed form, against the formula of MODEL.md section 4."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import pytest

from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.problem.training.choices import ScheduleName
from hetopt.problem.training.pins import Pins
from tests.formulations.programs import (
    END,
    LAYER,
    SYNC,
    best,
    hosting,
    plan,
    table,
    with_cluster,
    with_slices,
)

FILL = 6 * LAYER + 2 * END
HALVES = hosting(1, 1, order=("a", "b"), units=(4, 4))
#: tau of a stage of HALVES.
TAU = 3 * LAYER + END


def value(fill: int, q: int, period: float) -> int:
    return PERIOD_SCALE * (fill + SYNC) + (q - 1) * ceil(period * PERIOD_SCALE)


def test_single_micro_batch_has_no_period() -> None:
    costs = table(transfer_ns=100)
    assert plan(costs, 2, 1, HALVES).value == value(FILL + 200, 1, 0)


def test_hidden_transfer_leaves_the_longest_stage() -> None:
    costs = with_slices(table(transfer_ns=0), occupancy_ns=0)
    assert plan(costs, 2, 4, HALVES).value == value(FILL, 4, TAU)


@pytest.mark.parametrize(
    ("schedule", "delta"), [("1f1b", 1), ("virtual-1f1b", 2), ("eager-1f1b", 2)]
)
@pytest.mark.parametrize("transfer_ns", [100, 4650, 4651, 9300, 20000])
def test_slow_boundary_between_balanced_stages(
    schedule: ScheduleName, delta: int, transfer_ns: int
) -> None:
    costs = with_slices(
        table(schedule=schedule, transfer_ns=transfer_ns), occupancy_ns=0
    )
    period = max(TAU, 2 * (TAU + transfer_ns) / (delta + 1))
    expected = value(FILL + 2 * transfer_ns, 8, period)
    assert plan(costs, 2, 8, HALVES).value == expected


@pytest.mark.parametrize(("transfer_ns", "delta"), [(465, 1), (466, 2), (4651, 3)])
def test_slow_boundary_under_h_1f1b(transfer_ns: int, delta: int) -> None:
    costs = with_slices(
        table(schedule="h-1f1b", transfer_ns=transfer_ns), occupancy_ns=0
    )
    period = max(TAU, 2 * (TAU + transfer_ns) / (delta + 1))
    expected = value(FILL + 2 * transfer_ns, 8, period)
    assert plan(costs, 2, 8, HALVES).value == expected


@pytest.mark.parametrize("schedule", ["1f1b", "virtual-1f1b"])
def test_window_over_three_stages(schedule: ScheduleName) -> None:
    """Two boundaries, of which one crosses clusters."""
    costs = with_slices(table(schedule=schedule, transfer_ns=3000), occupancy_ns=0)
    pins = hosting(2, 1, order=("a", "b"), units=(3, 2, 3))
    tau = [2 * LAYER + END, 2 * LAYER, 2 * LAYER + END]
    deltas = [1, 2 if schedule == "virtual-1f1b" else 1]
    windows = [
        (tau[0] + tau[1] + 6000) / (deltas[0] + 1),
        (tau[1] + tau[2] + 6000) / (deltas[1] + 1),
        (sum(tau) + 12000) / (sum(deltas) + 1),
    ]
    expected = value(FILL + 12000, 4, max(*tau, *windows))
    assert plan(costs, 3, 4, pins).value == expected


@pytest.mark.parametrize("occupancy_ns", [9300, 9301, 15000])
def test_occupancy_bounds_the_period(occupancy_ns: int) -> None:
    costs = with_slices(
        table(schedule="eager-1f1b", transfer_ns=0), occupancy_ns=occupancy_ns
    )
    across = plan(costs, 2, 4, HALVES)
    inside = plan(costs, 2, 4, replace(hosting(2, 0), units=(4, 4)))
    expected = value(FILL, 4, max(TAU, occupancy_ns))
    assert across.value == expected
    assert inside.value == expected


def test_gpipe_adds_the_slowest_forward_to_the_slowest_backward() -> None:
    costs = table(schedule="gpipe", transfer_ns=100)
    costs = with_cluster(costs, 0, forward_ns=(0, 1500, 0), backward_ns=(0, 1000, 0))
    costs = with_cluster(costs, 1, forward_ns=(0, 500, 0), backward_ns=(0, 2000, 0))
    fill = 3 * 2500 + 3 * 2500 + 200
    pins = hosting(1, 1, order=("a", "b"), units=(4, 4))
    costs = replace(costs, usable_bytes=(10**6, 10**6))
    assert plan(costs, 2, 8, pins).value == value(fill, 8, 4500 + 6000)
    # a boundary may be the slowest of the forwards and not of the backwards
    slow = with_slices(costs, occupancy_ns=5000)
    assert plan(slow, 2, 8, pins).value == value(fill, 8, 5000 + 6000)


def test_period_is_rounded_up() -> None:
    costs = with_slices(table(transfer_ns=9301), occupancy_ns=0)
    costs = with_cluster(costs, 0, forward_ns=(100, 1000, 101))
    pins = hosting(2, 1, order=("a", "b"), units=(3, 2, 3))
    period = (FILL + 4 * 9301) / 3
    assert period % 1 != 0
    assert plan(costs, 3, 4, pins).value == value(FILL + 4 * 9301, 4, period)


def test_kappa_is_that_of_the_cut_and_of_both_layouts() -> None:
    """Two classes of cuts, alternating; each cluster's layout its own costs."""
    costs = table()
    costs = replace(costs, cut_classes=("hidden", "wide"), cuts=(0, 0, 1, 0, 1, 0, 0))
    costs = with_slices(
        costs,
        transfer_ns=[[[10, 20], [30, 40]], [[50, 60], [70, 80]]],
        occupancy_ns=0,
        resharding=0,
    )
    for units, order, kappa in (
        ((3, 5), ("a", "b"), 60),
        ((3, 5), ("b", "a"), 70),
        ((4, 4), ("a", "b"), 20),
        ((4, 4), ("b", "a"), 30),
    ):
        pins = hosting(1, 1, order=order, units=units)
        assert plan(costs, 2, 1, pins).value == value(FILL + 2 * kappa, 1, 0)
    for units, kappa in (((3, 5), 50), ((4, 4), 10)):
        pins = replace(hosting(2, 0), units=units)
        assert plan(costs, 2, 1, pins).value == value(FILL + 2 * kappa, 1, 0)


def test_unused_cluster_does_not_lengthen_lambda_0() -> None:
    """A boundary that is not there cannot lower the warm-ups of h-1f1b."""
    costs = replace(
        table(schedule="h-1f1b", activation_bytes=1),
        cut_classes=("hidden", "wide"),
        cuts=(0, 0, 0, 0, 0, 1, 0),
    )
    costs = with_slices(
        costs,
        # inside a: more than 1/20 of tau = 9300, less than 1/20 of a boundary to b
        transfer_ns=[[[500, 20000], [20000, 500]]] * 2,
        occupancy_ns=0,
        resharding=0,
    )
    pins = Pins(order=("a",), units=(4, 4))
    state = 20 + 4 * 100 + 5
    fits = replace(costs, usable_bytes=(state + 4 * 3, 1000))
    head = with_cluster(fits, 0, temporary_bytes=(0, 5, 5))
    assert best(head, 2, 4, pins) is not None
    assert best(replace(head, usable_bytes=(state + 4 * 2, 1000)), 2, 4, pins) is None


def test_synchronisation_of_the_stage_that_needs_longest() -> None:
    costs = with_slices(table(transfer_ns=0), occupancy_ns=0)
    costs = with_cluster(costs, 0, sync_ns=70, sync_unit_ns=(1000, 10, 1))
    costs = with_cluster(costs, 1, sync_ns=60, sync_unit_ns=(1, 10, 500))
    first = PERIOD_SCALE * (FILL + 70 + 3 * 10 + 1000)
    assert plan(costs, 2, 1, HALVES).value == first
    swapped = replace(HALVES, order=("b", "a"))
    assert plan(costs, 2, 1, swapped).value == PERIOD_SCALE * (FILL + 70 + 30 + 1)
    alone = plan(costs, 1, 1, hosting(1, 0)).value
    assert alone == PERIOD_SCALE * (FILL + 70 + 60 + 1001)


def test_tied_embeddings_count_on_both_ends_but_not_alone() -> None:
    costs = with_slices(
        table(transfer_ns=0), occupancy_ns=0, tied_ns=[[11, 22], [33, 44]]
    )
    costs = with_cluster(costs, 1, sync_ns=100)
    for pins, sync in (
        (HALVES, 100 + 22),
        (replace(HALVES, order=("b", "a")), 100 + 33),
        (replace(hosting(2, 0), units=(4, 4)), SYNC + 11),
    ):
        assert plan(costs, 2, 1, pins).value == PERIOD_SCALE * (FILL + sync)
    assert plan(costs, 1, 1, hosting(1, 0)).value == PERIOD_SCALE * (FILL + SYNC)
    # not on the stage between them
    middle = with_cluster(costs, 0, sync_ns=500)
    pins = hosting(1, 2, order=("b",), units=(3, 2, 3))
    assert best(middle, 3, 1, pins) is None
