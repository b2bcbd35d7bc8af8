"""Bounds on a whole q are true of what brute force finds."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from types import SimpleNamespace

import numpy as np
import pytest

from hetopt.formulations.chain import Chain
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.problem.training.choices import ScheduleName
from hetopt.problem.training.pins import Domain, Pins
from hetopt.solvers.bounds.bound_q import BoundTask, QBounds, explore
from hetopt.solvers.bounds.boxes import BoxBounds
from hetopt.solvers.race.messages import NO_CUTOFF, Found, Payload
from hetopt.solvers.race.worker import Worker
from tests.oracle import brute_force, plain
from tests.oracle.instances import (
    OTHERS,
    Instance,
    make_instance,
    make_other,
)

SEEDS = range(900, 960)


def _all_box_bounds(instance: Instance) -> list[BoxBounds]:
    problem, table = instance.problem, instance.table
    chain = Chain.of(table)
    return [
        BoxBounds(
            table=table,
            part=part,
            chain=chain,
            pins=problem.pins,
            most_stages=chain.length,
        )
        for part in table.slices
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_bounds_hold_and_no_optimum_is_lost(seed: int) -> None:
    _ensure_true(make_instance(seed))


@pytest.mark.quick_seeds(1)
@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("seed", range(960, 966))
def test_bounds_of_other_schedules_hold(seed: int, kind: ScheduleName) -> None:
    _ensure_true(make_other(seed, kind))


@pytest.mark.slow
@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("seed", range(970, 1040))
def test_more_bounds_of_other_schedules_hold(seed: int, kind: ScheduleName) -> None:
    _ensure_true(make_other(seed, kind))


@pytest.mark.parametrize("seed", [1103, 1148])
def test_periods_of_two_slow_boundaries_are_not_left_out(seed: int) -> None:
    """Where transfers block, a stage in the middle waits for four of them."""
    instance = make_instance(seed, schedule="1f1b-blocking", pinned=False)
    three = Pins(stages=Domain(allowed=frozenset({3})))
    slices = tuple(
        replace(
            part,
            transfer_ns=np.full_like(part.transfer_ns, 10**11),
            occupancy_ns=np.zeros_like(part.occupancy_ns),
        )
        for part in instance.table.slices
    )
    _ensure_true(
        replace(
            instance,
            problem=replace(instance.problem, pins=three),
            table=replace(instance.table, slices=slices),
        )
    )


def test_bounds_hold_where_no_device_waits() -> None:
    problem, table = plain.without_waiting()
    _ensure_true(Instance(seed=0, problem=problem, table=table))


def _ensure_true(instance: Instance) -> None:
    """Fail if a bound exceeds what brute force finds, or loses it."""
    programs = brute_force.solve(instance.problem, instance.table).programs
    for box_bounds in _all_box_bounds(instance):
        q = box_bounds.part.microbatches
        plans = [found for (_, other), found in programs.items() if other == q]
        if not plans:
            continue
        best = min(plans, key=lambda found: found.closed_form_ns)
        value = float(best.closed_form_ns)
        rough = explore(box_bounds, None, cutoff=inf, goal=inf, evaluations=30)
        assert rough.bound <= value
        # As the race does, a tick more: bounds are sums of floats.
        cutoff = value + 1
        close = explore(box_bounds, rough, cutoff=cutoff, goal=inf, evaluations=300)
        assert close.bound <= value
        _, _, order, strategies, _ = best.shape
        known = box_bounds.part.clusters
        used = set(zip(order, strategies, strict=True))
        assert all(k < len(known[j].strategies) for j, k in used)
        assert any(
            used <= {box_bounds.names[o] for o in box.alive}
            for box in (*close.boxes, *close.leaves)
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_bounds_rise_with_every_box_that_is_cut(seed: int) -> None:
    for box_bounds in _all_box_bounds(make_instance(seed)):
        known: QBounds | None = None
        before = 0.0
        for _ in range(6):
            known = explore(box_bounds, known, cutoff=inf, goal=inf, evaluations=8)
            assert known.bound >= before
            before = known.bound


@pytest.mark.parametrize("seed", SEEDS)
def test_plans_are_plans_and_no_better_than_the_best(seed: int) -> None:
    instance = make_instance(seed)
    problem, table = instance.problem, instance.table
    if not Chain.of(table).is_uniform:
        pytest.skip("a whole q is not bounded there")
    programs = brute_force.solve(problem, table).programs
    found: list[Found] = []
    worker = Worker(
        Payload(
            problem=problem,
            table=table,
            engine="hetopt.solvers.dp.solver:DpEngine",
            seed=0,
            top=1,
        ),
        SimpleNamespace(value=NO_CUTOFF),
        found.append,
    )
    for part in table.slices:
        worker.run(BoundTask(microbatches=part.microbatches, visit=1, plans=True))
    for plan in found:
        own = programs[plan.decision.stages, plan.decision.microbatches]
        # A period is rounded up to a whole 1 / PERIOD_SCALE tick.
        assert plan.value >= int(own.closed_form_ns * PERIOD_SCALE)
