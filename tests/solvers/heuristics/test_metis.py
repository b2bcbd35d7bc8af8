"""``metis`` against its definition, tried out plan by plan."""

from __future__ import annotations

import os

import pytest

from hetopt.check import check_result
from hetopt.errors import InputError
from hetopt.problem.training.pins import ANY
from hetopt.solvers.heuristics.metis import device_groups, solve, spread
from hetopt.solvers.registry import SOLVERS
from hetopt.solvers.request import Request
from tests.oracle import brute_force, metis_space
from tests.oracle.instances import Instance, make_instance

#: Instances; every fifth has the same schedule.
INSTANCES = int(os.environ.get("HETOPT_RIVALS_INSTANCES", "100"))


def check_against_definition(instance: Instance) -> None:
    problem, table = instance.problem, instance.table
    result = solve(Request(problem=problem, table=table))
    assert check_result(problem, table, result.to_json()) == []
    assert result.relaxed == ("p4",)
    values = [plan.closed_form_ns for plan in metis_space.plans(problem, table)]
    if not values:
        assert result.best is None
        assert result.status in ("infeasible", "unknown")
        return
    assert result.status == "feasible"
    assert result.best is not None
    assert result.best.closed_form_s == pytest.approx(
        float(min(values)) * 1e-9, rel=1e-9
    )


def is_free(instance: Instance) -> bool:
    pins = instance.problem.pins
    return pins.units is None and all(
        own.units == ANY for own in pins.clusters.values()
    )


@pytest.mark.parametrize("seed", range(INSTANCES))
def test_best_of_its_own_space(seed: int) -> None:
    instance = make_instance(seed)
    if not is_free(instance):
        with pytest.raises(InputError, match="decides the units itself"):
            check_against_definition(instance)
        return
    check_against_definition(instance)


@pytest.mark.parametrize("seed", range(5))
def test_schedules_that_adapt(seed: int) -> None:
    check_against_definition(make_instance(seed, schedule="h-1f1b", pinned=False))


@pytest.mark.parametrize("seed", range(INSTANCES))
def test_no_plan_beats_the_optimum_without_p4(seed: int) -> None:
    instance = make_instance(seed, widest=True)
    problem, table = instance.problem, instance.table
    if not is_free(instance):
        return
    result = solve(Request(problem=problem, table=table))
    optimum = brute_force.solve(problem, table, SOLVERS["metis"].space).best
    if optimum is None:
        assert result.best is None
        return
    least = float(optimum.closed_form_ns) * 1e-9
    assert result.lower_bound_s is not None
    assert result.lower_bound_s <= least * (1 + 1e-12)
    if result.best is not None:
        assert result.best.closed_form_s >= least * (1 - 1e-9)


def test_devices_are_shared_by_neighbouring_sizes() -> None:
    sizes = (1, 2, 4, 8)
    assert device_groups(32, sizes, 5) == (8, 8, 8, 4, 4)
    assert device_groups(32, sizes, 3) == (8, 8, 8)
    assert device_groups(4, sizes, 3) == (2, 1, 1)
    assert device_groups(4, sizes, 5) == ()
    assert device_groups(7, (1, 3, 6), 3) == (3, 3, 1)


def test_units_go_where_they_take_least() -> None:
    # Twice as fast: twice as many; the third has room for one only.
    assert spread([1.0, 2.0, 2.0], [0.0, 0.0, 0.0], [9, 9, 1], 7) == [4, 2, 1]
    assert spread([1.0, 1.0], [0.0, 3.0], [9, 9], 5) == [4, 1]
    # What counts is how long a stage gets, not how long it is.
    assert spread([5.0, 2.0], [0.0, 0.0], [9, 9], 5) == [1, 4]
    assert spread([1.0, 1.0], [0.0, 0.0], [2, 2], 5) is None
    assert spread([1.0, 1.0], [0.0, 0.0], [9, 0], 2) is None
