"""CP-SAT and the race against brute force on generated instances."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from functools import cache

import pytest

from hetopt.base.deadline import Deadline
from hetopt.check import check_result
from hetopt.problem.digest import problem_digest
from hetopt.problem.training.pins import Domain
from hetopt.results.result import Result
from hetopt.solvers.cp_sat import solve
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from tests.oracle import brute_force
from tests.oracle.brute_force import Answer
from tests.oracle.instances import Instance, make_instance

#: Instances; every fifth has the same schedule.
SEEDS = range(220)
TICK = Fraction(1, 10**9)


@cache
def answered(seed: int) -> tuple[Instance, Answer]:
    instance = make_instance(seed)
    return instance, brute_force.solve(instance.problem, instance.table)


def plan(instance: Instance, *, top: int = 1, seed: int = 0) -> Result:
    return solve(
        Request(
            problem=instance.problem,
            table=instance.table,
            params=RaceParams(jobs=0, top=top),
            deadline=Deadline.after(60),
            seed=seed,
        )
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_same_plan_or_same_infeasibility(seed: int) -> None:
    instance, answer = answered(seed)
    problem, table = instance.problem, instance.table
    result = plan(instance)
    best = answer.best
    if best is None:
        assert result.status == "infeasible"
        assert result.best is None
    else:
        assert result.status == "optimal"
        assert result.best is not None
        exact = float(best.closed_form_ns * TICK)
        assert result.best.closed_form_s == pytest.approx(exact, rel=1e-12)
        assert result.best.plan == brute_force.to_plan(problem, table, best)
    data = json.loads(json.dumps(result.to_json()))
    assert check_result(problem, table, data) == []
    _check_settlements(result, answer)


def _check_settlements(result: Result, answer: Answer) -> None:
    """What the certificate says of each (p, q) is true."""
    programs = dict(answer.programs)
    for settlement in result.settlements:
        key = (settlement.stages, settlement.microbatches)
        found = programs.pop(key, None)
        if settlement.how == "infeasible":
            assert found is None, settlement
            continue
        assert settlement.how != "unsettled"
        if found is None:  # refuted without noticing that there is no plan
            assert settlement.how.startswith("refuted")
            continue
        assert settlement.bound_s is not None
        # programs are ranked with the period rounded up to a whole tick
        value = float(found.value_ns * TICK)
        assert settlement.bound_s <= value * (1 + 1e-12)
        if settlement.how == "solved":
            slack = (key[1] + 1) * 1e-9
            assert settlement.bound_s == pytest.approx(value, rel=1e-12, abs=slack)
    assert not programs, "feasible programs that the certificate leaves out"


@pytest.mark.parametrize("seed", SEEDS[7::28])
def test_every_program_by_itself(seed: int) -> None:
    """Pinned to one (p, q) after the other, the solver finds each optimum."""
    instance, answer = answered(seed)
    for p in instance.problem.stage_counts:
        for part in instance.table.slices:
            problem = replace(
                instance.problem,
                pins=replace(
                    instance.problem.pins,
                    stages=Domain(allowed=frozenset({p})),
                    microbatches=Domain(allowed=frozenset({part.microbatches})),
                ),
            )
            table = replace(instance.table, problem_digest=problem_digest(problem))
            result = plan(Instance(seed=seed, problem=problem, table=table))
            found = answer.programs.get((p, part.microbatches))
            if found is None:
                assert result.status == "infeasible"
                continue
            assert result.best is not None
            assert result.best.plan == brute_force.to_plan(problem, table, found)


@pytest.mark.parametrize("seed", SEEDS[3::15])
def test_alternatives_are_the_next_best(seed: int) -> None:
    instance, answer = answered(seed)
    problem, table = instance.problem, instance.table
    result = plan(instance, top=3)
    found = [] if result.best is None else [result.best, *result.alternatives]
    expected = answer.shapes[:3]
    assert [other.closed_form_s for other in found] == pytest.approx(
        [float(other.closed_form_ns * TICK) for other in expected], rel=1e-12
    )
    assert [other.plan for other in found] == [
        brute_force.to_plan(problem, table, other) for other in expected
    ]
    assert check_result(problem, table, result.to_json()) == []


@pytest.mark.parametrize("seed", SEEDS[1::40])
def test_the_plan_does_not_depend_on_the_seed(seed: int) -> None:
    instance, _ = answered(seed)
    first, second = plan(instance), plan(instance, seed=1)
    assert first.status == second.status
    assert first.best == second.best
