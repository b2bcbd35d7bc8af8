"""What the relaxation says is true of what brute force finds."""

from __future__ import annotations

import numpy as np
import pytest

from hetopt.formulations.chain import Chain
from hetopt.problem.training.choices import ScheduleName
from hetopt.solvers.bounds.by_count import focus, survey
from hetopt.solvers.bounds.relaxation import Relaxation
from tests.oracle import brute_force, plain
from tests.oracle.instances import OTHERS, Instance, make_instance, make_other


@pytest.mark.parametrize("seed", range(300, 340))
def test_bounds_hold_and_no_optimum_is_lost(seed: int) -> None:
    _ensure_true(make_instance(seed))


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("seed", range(340, 346))
def test_bounds_of_other_schedules_hold(seed: int, kind: ScheduleName) -> None:
    _ensure_true(make_other(seed, kind))


@pytest.mark.slow
@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("seed", range(350, 420))
def test_more_bounds_of_other_schedules_hold(seed: int, kind: ScheduleName) -> None:
    _ensure_true(make_other(seed, kind))


def test_bounds_hold_where_no_device_waits() -> None:
    problem, table = plain.without_waiting()
    _ensure_true(Instance(seed=0, problem=problem, table=table))


def _ensure_true(instance: Instance) -> None:
    """Fail if a bound exceeds what brute force finds, or loses it."""
    problem, table = instance.problem, instance.table
    chain = Chain.of(table)
    programs = brute_force.solve(problem, table).programs
    for part in table.slices:
        q = part.microbatches
        relaxation = Relaxation(
            table=table,
            part=part,
            chain=chain,
            pins=problem.pins,
            most_stages=chain.length,
        )
        rough = survey(relaxation, cutoff=None)
        for p in range(1, chain.length + 1):
            found = programs.get((p, q))
            if found is None:
                continue
            value = float(found.closed_form_ns)
            assert rough.bound[p] <= value
            close = survey(relaxation, cutoff=value)
            assert close.bound[p] <= value
            narrowed = focus(relaxation, p, cutoff=value)
            assert narrowed.bound <= value
            _, _, order, strategies, _ = found.shape
            for j, strategy in zip(order, strategies, strict=True):
                assert strategy in narrowed.keep[j]


@pytest.mark.parametrize("seed", range(300, 320))
def test_a_relaxed_optimum_adds_up(seed: int) -> None:
    instance = make_instance(seed)
    problem, table = instance.problem, instance.table
    chain = Chain.of(table)
    for part in table.slices:
        relaxation = Relaxation(
            table=table,
            part=part,
            chain=chain,
            pins=problem.pins,
            most_stages=chain.length,
        )
        fill = relaxation.fill(np.inf, roles=True)
        for p in range(1, chain.length + 1):
            choices = relaxation.choices(np.inf, p)
            assert (choices is not None) == bool(np.isfinite(fill[p]))
            if choices is None:
                continue
            assert sum(choice.stages for choice in choices) == p
            assert sum(choice.units for choice in choices) == chain.length
            assert len({choice.cluster for choice in choices}) == len(choices)
