"""The schemas are valid, and refuse what is broken."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema
import pytest

from hetopt.plans.plan import Pipeline, Plan, Stage
from hetopt.plans.strategy import Strategy
from hetopt.report.schemas import SCHEMAS
from tests.schemas import ensure_fits

PLAN = Plan(
    schedule="1f1b",
    problem_digest="0" * 64,
    table_digest="f" * 64,
    pipelines=(
        Pipeline(
            microbatches=4,
            stages=(
                Stage(
                    cluster="a",
                    first_unit=0,
                    end_unit=3,
                    strategy=Strategy(dp=1, cp=1, tp=2),
                    warmup=2,
                    resharding="p2p",
                    unit_strategies=(Strategy(dp=1, cp=1, tp=2),) * 3,
                ),
                Stage(
                    cluster="b",
                    first_unit=3,
                    end_unit=6,
                    strategy=Strategy(dp=2, cp=1, tp=2, recompute="full"),
                    warmup=1,
                ),
            ),
        ),
    ),
).to_json()


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_are_valid(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])


def test_a_plan_matches() -> None:
    ensure_fits(PLAN, "plan")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["schema"], "hetopt-plan/9"),
        (["schedule"], "zigzag"),
        (["problem_digest"], "abc"),
        (["pipelines"], []),
        (["pipelines", 0, "microbatches"], 0),
        (["pipelines", 0, "stages", 1, "warmup"], "1"),
        (["pipelines", 0, "stages", 0, "color"], 1),
        (["pipelines", 0, "stages", 0, "resharding"], "x"),
    ],
)
def test_a_broken_plan_does_not(path: list[str | int], value: Any) -> None:
    data = copy.deepcopy(PLAN)
    place: Any = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        ensure_fits(data, "plan")
