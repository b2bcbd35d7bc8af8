"""Stages of several chunks: exact solvers, the checker and brute force agree."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import pytest

from hetopt.check import check_plan, check_result
from hetopt.errors import CheckError, InputError
from hetopt.problem.training import INTERLEAVED, RESHARDING
from hetopt.solvers.loading import load
from hetopt.solvers.params import RaceParams
from hetopt.solvers.registry import SOLVERS, ensure_plans
from hetopt.solvers.request import Request
from tests.oracle import brute_force
from tests.oracle.instances import make_chunked

TICK = Fraction(1, 10**9)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["cp-sat", "milp", "dp"])
def test_plans_of_brute_force(name: str, seed: int) -> None:
    _ensure_best(name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 104))
@pytest.mark.parametrize("name", ["cp-sat", "milp", "dp"])
def test_more_plans_of_brute_force(name: str, seed: int) -> None:
    _ensure_best(name, seed)


def _ensure_best(name: str, seed: int) -> bool:
    """Compare a solver's answer with brute force's; say whether there is a plan."""
    instance = make_chunked(7300 + seed, 2 + seed % 3)
    problem, table = instance.problem, instance.table
    best = brute_force.solve(problem, table).best
    request = Request(problem=problem, table=table, params=RaceParams(jobs=0))
    result = load(name)(request)
    if best is None:
        assert result.status == "infeasible"
        return False
    assert result.status == "optimal"
    assert result.best is not None
    exact = float(best.closed_form_ns * TICK)
    assert result.best.closed_form_s == pytest.approx(exact, rel=1e-12)
    assert result.best.plan == brute_force.to_plan(problem, table, best)
    assert check_result(problem, table, result.to_json()) == []
    return True


def test_many_instances_have_plans() -> None:
    found = [
        brute_force.solve(instance.problem, instance.table).best is not None
        for instance in (make_chunked(7300 + seed, 2 + seed % 3) for seed in range(24))
    ]
    assert sum(found) >= 12


def test_how_activations_get_back_to_the_first_stage_is_checked() -> None:
    drawn = (make_chunked(7300 + seed, 2) for seed in itertools.count())
    solved = (
        (each.problem, each.table, brute_force.solve(each.problem, each.table).best)
        for each in drawn
    )
    problem, table, best = next(each for each in solved if each[2] is not None)
    assert best is not None
    plan = brute_force.to_plan(problem, table, best)
    check_plan(problem, table, plan)
    *before, last = plan.pipeline.stages
    for way in (None, *RESHARDING):
        if way == last.resharding:
            continue
        stages = (*before, replace(last, resharding=way))
        wrong = replace(plan, pipelines=(replace(plan.pipeline, stages=stages),))
        with pytest.raises(
            CheckError, match=f"{way}, the table says {last.resharding}"
        ):
            check_plan(problem, table, wrong)


def test_other_solvers_are_refused_by_name() -> None:
    for name, record in SOLVERS.items():
        if record.interleaves:
            ensure_plans(name, INTERLEAVED)
            continue
        with pytest.raises(InputError, match=f"solver {name} .*use auto, cp-sat, dp"):
            ensure_plans(name, INTERLEAVED)
