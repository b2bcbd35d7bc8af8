"""Stages of several chunks: exact solvers, the checker and brute force agree."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from hetopt.check import check_plan
from hetopt.errors import CheckError, InputError
from hetopt.problem.training.choices import INTERLEAVED, RESHARDING
from hetopt.solvers.refusals import ensure_plans
from hetopt.solvers.registry import SOLVERS
from tests.oracle import brute_force
from tests.oracle.instances import Instance, make_chunked
from tests.solvers.race.agreeing import ensure_best, with_plans


def drawn(seed: int) -> Instance:
    """Draw an instance of two to four chunks."""
    return make_chunked(7300 + seed, 2 + seed % 3)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["cp-sat", "milp", "dp"])
def test_plans_of_brute_force(name: str, seed: int) -> None:
    ensure_best(name, drawn(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 104))
@pytest.mark.parametrize("name", ["cp-sat", "milp", "dp"])
def test_more_plans_of_brute_force(name: str, seed: int) -> None:
    ensure_best(name, drawn(seed))


def test_many_instances_have_plans() -> None:
    assert with_plans(map(drawn, range(24))) >= 12


def test_how_activations_get_back_to_the_first_stage_is_checked() -> None:
    solved = (
        (each.problem, each.table, brute_force.solve(each.problem, each.table).best)
        for each in map(drawn, itertools.count())
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
