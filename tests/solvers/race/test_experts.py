"""Plans of models with experts keep the degrees of experts in their files."""

from __future__ import annotations

import pytest

from hetopt.check import check_result
from hetopt.errors import InputError
from hetopt.plans.plan import Plan
from hetopt.solvers.loading import load
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from tests.oracle.instances import Instance, make_instance

#: Instances until one whose plan has such degrees.
ALL = range(3006, 3200)


def instance_of(seed: int) -> Instance:
    return make_instance(seed, experts=True)


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
