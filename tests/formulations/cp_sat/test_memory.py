"""Memory by position: how many micro-batches each schedule keeps in flight."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.problem.training.choices import ScheduleName
from hetopt.problem.training.pins import Pins
from tests.formulations.programs import (
    LAYER,
    best,
    hosting,
    plan,
    table,
    with_cluster,
    with_slices,
)
from tests.oracle.plain import USABLE_BYTES

#: Everything but activations of the first of three stages of two layers each.
FIRST = 20 + 3 * 100 + 5


def first_stage_holds(
    schedule: ScheduleName, q: int, in_flight: int, pins: Pins, transfer_ns: int
) -> bool:
    """Whether 1 byte per unit and ``in_flight`` micro-batches is all that fits."""
    costs = table(schedule=schedule, transfer_ns=transfer_ns, activation_bytes=1)
    costs = with_slices(costs, occupancy_ns=0)
    costs = replace(costs, usable_bytes=(FIRST + 3 * in_flight, USABLE_BYTES))
    return best(costs, 3, q, pins) is not None


@pytest.mark.parametrize(
    ("schedule", "q", "in_flight"),
    [
        ("1f1b", 8, 3),
        ("eager-1f1b", 8, 5),
        ("virtual-1f1b", 8, 4),
        ("h-1f1b", 8, 3),
        ("gpipe", 8, 8),
        ("1f1b", 2, 2),
        ("eager-1f1b", 4, 4),
        ("virtual-1f1b", 1, 1),
        ("gpipe", 4, 4),
    ],
)
def test_first_stage_keeps_its_warmup(
    schedule: ScheduleName, q: int, in_flight: int
) -> None:
    """Two stages on a, then one on b."""
    pins = hosting(2, 1, order=("a", "b"), units=(3, 2, 3))
    assert first_stage_holds(schedule, q, in_flight, pins, 10)
    assert not first_stage_holds(schedule, q, in_flight - 1, pins, 10)


@pytest.mark.parametrize(
    ("transfer_ns", "in_flight"),
    [(355, 3), (356, 5), (3550, 5), (3551, 7), (7100, 7), (20000, 7)],
)
def test_thresholds_of_h_1f1b(transfer_ns: int, in_flight: int) -> None:
    """HAPT Eq. 2: 1/20, 1/2 and 1 of the longest, here tau = 7100 of both ends."""
    heavy = with_cluster(
        with_cluster(table(), 0, forward_ns=(1100, 1000, 1100)),
        1,
        forward_ns=(1100, 1000, 1100),
    )
    assert heavy.at(1).clusters[0].forward_ns[0, 0] == 1100
    costs = replace(heavy, schedule="h-1f1b")
    costs = with_slices(costs, transfer_ns=transfer_ns, occupancy_ns=0)
    for j in (0, 1):
        costs = with_cluster(costs, j, activation_bytes=1, backward_ns=(0, 2000, 0))
    pins = hosting(2, 1, order=("a", "b"), units=(3, 2, 3))
    fits, not_quite = (
        replace(costs, usable_bytes=(FIRST + 3 * held, USABLE_BYTES))
        for held in (in_flight, in_flight - 1)
    )
    assert best(fits, 3, 8, pins) is not None
    assert best(not_quite, 3, 8, pins) is None


def test_cluster_that_holds_one_micro_batch_comes_last() -> None:
    costs = replace(table(activation_bytes=100), usable_bytes=(950, 2000))
    # four units, one of them the head: 20 + 400 + 50 + 400 on a at W = 1
    decision = plan(costs, 2, 4, hosting(1, 1, units=(4, 4))).decision
    assert decision.order == (1, 0)
    pins = hosting(1, 1, units=(4, 4), order=("a", "b"))
    assert best(costs, 2, 4, pins) is None
    assert best(costs, 2, 1, pins) is not None
    small = replace(costs, usable_bytes=(950, 950))
    assert best(small, 2, 4, hosting(1, 1, units=(4, 4))) is None


def test_less_memory_moves_units_downstream() -> None:
    roomy = table(activation_bytes=60)
    tight = replace(roomy, usable_bytes=(880, 880))
    pins = Pins(order=("a",))
    assert plan(roomy, 2, 4, pins).decision.units == (4, 4)
    # four units need 20 + 400 + 5 + 2 * 240 on the first stage; five on the last
    # 20 + 500 + 50 + 300
    assert plan(tight, 2, 4, pins).decision.units == (3, 5)
    assert best(replace(roomy, usable_bytes=(869, 869)), 2, 4, pins) is None


def test_ends_weigh_on_the_stages_that_hold_them() -> None:
    pins = Pins(order=("a",), units=(4, 4))
    light = table(activation_bytes=0)
    assert best(light, 2, 1, pins) is not None
    # 20 + 3 * 100 + the end unit + temporary of the layer, or of the head
    for end, limit in ((0, 1000 - 325), (2, 1000 - 370)):
        state = [100, 100, 100]
        state[end] = limit
        assert best(with_cluster(light, 0, state_bytes=state), 2, 1, pins) is not None
        state[end] = limit + 1
        assert best(with_cluster(light, 0, state_bytes=state), 2, 1, pins) is None


def test_both_ends_on_a_single_stage() -> None:
    pins = Pins(order=("a",))
    light = with_cluster(table(), 0, activation_bytes=0)
    need = 20 + 8 * 100 + 50
    assert best(replace(light, usable_bytes=(need, 0)), 1, 4, pins) is not None
    assert best(replace(light, usable_bytes=(need - 1, 0)), 1, 4, pins) is None


@pytest.mark.parametrize("wide_bytes", [300, 301])
def test_temporary_of_the_kinds_that_are_present(wide_bytes: int) -> None:
    """Only the stage with the wide layer needs room for its temporary."""
    costs = table()
    slices = []
    for part in costs.slices:
        clusters = []
        for own in part.clusters:
            columns = {}
            for name in (
                "forward_ns",
                "backward_ns",
                "state_bytes",
                "activation_bytes",
                "temporary_bytes",
                "sync_unit_ns",
            ):
                array = getattr(own, name)
                columns[name] = array[:, [0, 1, 2, 1]].copy()
            columns["activation_bytes"][:] = 0
            columns["temporary_bytes"][:, 3] = wide_bytes
            clusters.append(replace(own, **columns))
        slices.append(replace(part, clusters=tuple(clusters)))
    costs = replace(
        costs,
        kinds=(*costs.kinds, "layer-wide"),
        body=(*costs.body, True),
        units=(0, 1, 1, 1, 1, 1, 3, 2),
        slices=tuple(slices),
        usable_bytes=(20 + 4 * 100 + 300, 0),
    )
    pins = Pins(order=("a",))
    fits = wide_bytes == 300
    assert (best(costs, 2, 2, replace(pins, units=(4, 4))) is not None) == fits
    # without the wide layer five units fit, and the wide stage has three
    assert best(costs, 2, 2, replace(pins, units=(5, 3))) is not None


def test_value_does_not_depend_on_memory_that_suffices() -> None:
    costs = table(activation_bytes=0)
    roomy = replace(costs, usable_bytes=(10**9, 10**9))
    assert plan(costs, 3, 4).value == plan(roomy, 3, 4).value
    assert plan(costs, 3, 4).value > PERIOD_SCALE * 6 * LAYER
