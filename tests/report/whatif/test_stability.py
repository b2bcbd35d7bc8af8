"""Rows on how far coefficients may move, made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hetopt.plans.plan import Plan, Share
from hetopt.report.drawing.console import draw
from hetopt.report.whatif.stability import stability_report
from hetopt.results.crossing import Crossing
from hetopt.results.priced_plan import PricedPlan
from hetopt.results.result import Objective
from tests.report.comparisons import PLAN


def told(
    other: Plan,
    plan: Plan = PLAN,
    objective: Objective = "closed",
    **changed: Any,
) -> str:
    """Return the report on one coefficient."""
    best = PricedPlan(plan=other, closed_form_s=1.5, iteration_time_s=2.0)
    crossing = Crossing(
        kind="speed",
        clusters=("fast",),
        direction="less",
        factor=0.8,
        plan_s=2.0,
        other=best,
        proven=True,
    )
    crossing = replace(crossing, **changed)
    assert Crossing.from_json(crossing.to_json()) == crossing
    parts = stability_report([crossing], plan, objective=objective, complete=True)
    return " ".join(draw(parts, None).split())


def divided(first: int) -> Plan:
    """Return two pipelines, of which one takes so many sequences."""
    (own,) = PLAN.pipelines
    pipelines = tuple(
        replace(own, share=Share(batch=batch, nodes={"fast": (1,)}))
        for batch in (first, 8 - first)
    )
    return replace(PLAN, pipelines=pipelines)


def test_another_schedule_is_named() -> None:
    other = replace(PLAN, schedule="interleaved-1f1b", chunks=2)
    assert "-> interleaved-1f1b of 2 chunks" in told(other)
    more = replace(other, chunks=4)
    assert "of 2 chunks -> interleaved-1f1b of 4 chunks" in told(more, other)


def test_several_pipelines_are_named() -> None:
    text = told(divided(3))
    assert "2 pipelines side by side" in text
    assert "pipeline 0: " in text
    assert "3 sequences, devices of nodes: fast 1" in text
    assert "5 sequences, devices of nodes: fast 1" in text
    back = told(PLAN, divided(3))
    assert "side by side" not in back
    assert f"schedule {PLAN.schedule}" in back


def test_pipelines_are_compared_one_by_one() -> None:
    text = told(divided(3), divided(3))
    assert "the same decisions" in text
    assert "4 sequences" in told(divided(4), divided(3))
    first, second = divided(3).pipelines
    changed = replace(second, microbatches=second.microbatches + 1)
    other = replace(PLAN, pipelines=(first, changed))
    text = told(other, divided(3))
    assert "pipeline 1: micro-batches" in text
    assert "pipeline 0" not in text


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"plan_cost": 4.0, "other_cost": 1.0}, "75%"),
        ({"other_cost": 1.0}, "this one is too slow"),
        ({"plan_s": None, "other_cost": 1.0}, "this one does not fit"),
    ],
)
def test_costs(changed: dict[str, Any], said: str) -> None:
    assert said in told(PLAN, objective="cost", **changed)
    assert "25%" in told(PLAN)
