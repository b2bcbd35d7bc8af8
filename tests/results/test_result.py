"""A result survives its file."""

from __future__ import annotations

import json

import pytest

from hetopt.plans.plan import Pipeline, Plan, Stage
from hetopt.plans.strategy import Strategy
from hetopt.results.crossing import Crossing
from hetopt.results.launch import Launch
from hetopt.results.money import Cost
from hetopt.results.priced_plan import PricedPlan
from hetopt.results.result import Result
from hetopt.results.settlement import Settlement


def priced(time_s: float, objective_s: float | None = None) -> PricedPlan:
    strategies = (Strategy(dp=2, cp=1, tp=2), Strategy(dp=4, cp=1, tp=1, zero=3))
    stage = Stage(
        cluster="fast",
        first_unit=0,
        end_unit=2,
        strategy=strategies[0],
        warmup=1,
        unit_strategies=None if objective_s is None else strategies,
    )
    plan = Plan(
        schedule="1f1b",
        pipelines=(Pipeline(microbatches=4, stages=(stage,)),),
        problem_digest="0" * 64,
        table_digest="f" * 64,
    )
    return PricedPlan(
        plan=plan,
        closed_form_s=time_s,
        iteration_time_s=time_s * 1.1,
        objective_s=objective_s,
    )


def result(**changed: object) -> Result:
    settled = (
        Settlement(stages=1, microbatches=4, how="solved", bound_s=1.0),
        Settlement(stages=2, microbatches=4, how="infeasible", bound_s=None),
    )
    facts: dict[str, object] = {
        "status": "optimal",
        "solver": "dp",
        "best": priced(1.0),
        "lower_bound_s": 1.0,
        "gap": 0.0,
        "search_time_s": 2.5,
        "settlements": settled,
        "tokens_per_s": 1e4,
        "mfu": 0.4,
        "mfu_used": 0.5,
        "table_kinds": {"fast": "operators", "slow": "modelled"},
    }
    return Result(**(facts | changed))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "told",
    [
        result(),
        result(alternatives=(priced(1.5), priced(2.0)), choice="so quick"),
        result(objective="simulated", relaxed=("p3", "p4")),
        result(objective="uniap", best=priced(1.0, 0.9)),
        result(
            cost=Cost(
                nodes={"fast": 1},
                unpriced=(),
                per_hour=3.0,
                per_iteration=0.1,
                per_trillion_tokens=5.0,
            ),
            launch=Launch(
                launcher="megatron",
                schedule="1f1b",
                closed_form_s=None,
                iteration_time_s=None,
                proven=False,
            ),
        ),
        result(status="infeasible", best=None, reason="too large", gap=None),
        result(
            objective="cost",
            lower_bound_s=None,
            lower_cost=0.5,
            over=(
                {
                    "fleets": {
                        "measure": "cost",
                        "budget": 4.0,
                        "min_tokens_per_s": None,
                    }
                },
            ),
            claims={
                "by": "fleets",
                "of": 7,
                "children": [
                    {"at": {"fast": 2}, "bound_s": 1.0, "best_s": 1.0},
                    {"at": {"slow": 1}, "bound_s": None},
                ],
            },
        ),
        result(
            stability=(
                Crossing(
                    kind="link",
                    clusters=("fast", "slow"),
                    direction="less",
                    factor=0.5,
                    plan_s=None,
                    other=priced(1.2),
                    proven=True,
                ),
                Crossing(
                    kind="speed",
                    clusters=("fast",),
                    direction="more",
                    factor=None,
                    plan_s=None,
                    other=None,
                    proven=False,
                ),
            ),
        ),
    ],
)
def test_what_is_written_is_read(told: Result) -> None:
    data = json.loads(json.dumps(told.to_json()))
    assert Result.from_json(data) == told
    assert Result.from_json(data).to_json() == told.to_json()
