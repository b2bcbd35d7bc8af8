"""What the relaxation says is true of what brute force finds."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hetopt.formulations.chain import Chain
from hetopt.problem.training.principles import PRUNED, Principles
from hetopt.solvers.bounds import relaxation as module
from hetopt.solvers.bounds.by_count import focus, survey
from hetopt.solvers.bounds.relaxation import Relaxation
from tests.oracle import brute_force, plain
from tests.oracle.instances import (
    OTHERS,
    Instance,
    make_chunked,
    make_instance,
    make_other,
    make_split,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.problem.training.choices import ScheduleName
    from hetopt.problem.training.principles import Relaxable


@pytest.mark.parametrize("seed", range(300, 340))
def test_bounds_hold_and_no_optimum_is_lost(seed: int) -> None:
    _ensure_true(make_instance(seed))


@pytest.mark.quick_cases(10)
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


def _relaxations(
    instance: Instance, principles: Principles = PRUNED
) -> list[Relaxation]:
    """Return the relaxation of every q."""
    chain = Chain.of(instance.table)
    return [
        Relaxation(
            table=instance.table,
            part=part,
            chain=chain,
            pins=instance.problem.pins,
            most_stages=chain.length,
            principles=principles,
        )
        for part in instance.table.slices
    ]


def _ensure_true(instance: Instance) -> None:
    """Fail if a bound exceeds what brute force finds, or loses it."""
    programs = brute_force.solve(instance.problem, instance.table).programs
    for relaxation in _relaxations(instance):
        q, chain = relaxation.part.microbatches, relaxation.chain
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
    for relaxation in _relaxations(make_instance(seed)):
        chain = relaxation.chain
        fill = relaxation.fill(np.inf)
        for p in range(1, chain.length + 1):
            choices = relaxation.choices(np.inf, p)
            assert (choices is not None) == bool(np.isfinite(fill[p]))
            if choices is None:
                continue
            assert sum(choice.stages for choice in choices) == p
            assert sum(choice.units for choice in choices) == chain.length
            assert len({choice.cluster for choice in choices}) == len(choices)


@pytest.mark.parametrize(
    ("make", "relaxed"),
    [
        (make_instance, ()),
        (make_instance, ("p3",)),
        (make_instance, ("p3", "p4")),
        (partial(make_chunked, chunks=2), ()),
        (make_split, ()),
    ],
)
def test_lambdas_share_bounds_that_are_equal(
    make: Callable[[int], Instance],
    relaxed: tuple[Relaxable, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shared = 0
    for seed in range(430, 433):
        with monkeypatch.context() as context:
            known = _relaxations(make(seed), Principles.relaxing(relaxed))
            context.setattr(module, "_FEW_CAPS", -1)
            alone = _relaxations(make(seed), Principles.relaxing(relaxed))
        for one, other in zip(known, alone, strict=True):
            least = other.least_period()
            periods = [*np.geomspace(least, 20 * least, 20), np.inf]
            for period in periods if np.isfinite(least) else ():
                assert np.array_equal(one.fill(period), other.fill(period))
                for p in range(1, one.chain.length + 1):
                    found, fills = one.option_fill(period, p)
                    expected, others = other.option_fill(period, p)
                    assert found == expected
                    assert all(map(np.array_equal, fills, others))
            own = {id(one.fill(period)) for period in periods}
            shared += len(periods) - len(own)
    assert shared > 40
