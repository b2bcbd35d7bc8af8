"""Exact solvers plan models with experts as brute force does."""

from __future__ import annotations

import pytest

from hetopt.check import check_result
from hetopt.errors import InputError
from hetopt.plans.plan import Plan
from hetopt.solvers.loading import load
from hetopt.solvers.params import RaceParams
from hetopt.solvers.race import programs
from hetopt.solvers.request import Request
from tests.oracle.instances import Instance, make_instance
from tests.solvers.race.agreeing import ensure_best

#: Together the instances on which all three are held against brute force.
FEW, ALL = range(3000, 3006), range(3006, 3200)
EXACT = ("dp", "cp-sat", "milp")


def instance_of(seed: int) -> Instance:
    return make_instance(seed, experts=True)


@pytest.mark.parametrize("seed", FEW)
@pytest.mark.parametrize("name", EXACT)
def test_the_best_plan_is_found(name: str, seed: int) -> None:
    ensure_best(name, instance_of(seed))


@pytest.mark.parametrize("seed", FEW)
def test_bounds_leave_out_what_others_replace(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "_MANY", 0)
    ensure_best("dp", instance_of(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", ALL)
@pytest.mark.parametrize("name", EXACT)
def test_the_best_plan_is_found_everywhere(name: str, seed: int) -> None:
    ensure_best(name, instance_of(seed))


def test_instances_spread_experts() -> None:
    strategies = {
        strategy
        for seed in FEW
        for part in instance_of(seed).table.slices
        for cluster in part.clusters
        for strategy in cluster.strategies
    }
    assert {strategy.ep > 1 for strategy in strategies} == {True, False}
    assert {strategy.etp > 1 for strategy in strategies} == {True, False}


def test_a_plan_keeps_the_degrees_of_experts_in_its_file() -> None:
    for seed in ALL:
        instance = instance_of(seed)
        result = load("dp")(
            Request(
                problem=instance.problem,
                table=instance.table,
                params=RaceParams(jobs=0),
            )
        )
        if result.best is None:
            continue
        plan = result.best.plan
        if any(stage.strategy.has_expert_degrees for stage in plan.pipeline.stages):
            break
    assert Plan.from_json(plan.to_json()) == plan
    data = result.to_json()
    assert check_result(instance.problem, instance.table, data) == []
    stages = data["plan"]["pipelines"][0]["stages"]
    stage = next(each for each in stages if "ep" in each or "etp" in each)
    stage["ep"] = 1 + 4 * stage.get("ep", 1)
    with pytest.raises(InputError, match="expected ep"):
        check_result(instance.problem, instance.table, data)
