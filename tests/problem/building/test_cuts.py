"""Layouts of chunks that problems pin."""

from __future__ import annotations

from typing import Any

import pytest

from hetopt.errors import InputError
from hetopt.plans.plan import Plan
from hetopt.problem.digest import problem_digest
from hetopt.problem.problem import Problem
from hetopt.problem.reading import read_problem_text

CUTS = [3, 5, 8, 10]


def problem(
    pin: str, training: str = "schedule: interleaved-1f1b, chunks: 2"
) -> Problem:
    return read_problem_text(
        "model: {layers: 8, hidden: 64, heads: 4, ffn: 128, vocab: 256}\n"
        "clusters: [{name: a, accelerator: A100-80GB, nodes: 1, devices_per_node: 4}]\n"
        f"training: {{global_batch: 8, seq_len: 64, {training}}}\n"
        f"pin: {{{pin}}}\n"
    )


def test_cuts_and_a_layout_are_the_same() -> None:
    by_cuts = problem(f"cuts: {CUTS}")
    by_layout = problem("layout: 'Ett|tt|t*3,|tL'")
    assert by_cuts.pins.cuts == by_layout.pins.cuts == tuple(CUTS)
    assert problem_digest(by_cuts) == problem_digest(by_layout)
    assert by_cuts.stage_counts == (2,)


@pytest.mark.parametrize(
    ("pin", "field", "message"),
    [
        ("cuts: [3, 5, 8]", "cuts", "has 3 chunks, expected 2 (training.chunks)"),
        ("cuts: [5, 3, 8, 10]", "cuts", "expected ascending numbers up to the model's"),
        ("cuts: [3, 5, 8, 9]", "cuts", "expected ascending numbers up to the model's"),
        ("cuts: [0, 5, 8, 10]", "cuts", "leaves the first chunk without the embedding"),
        ("cuts: [3, 5, 10, 10]", "cuts", "leaves the last chunk without the head"),
        ("cuts: [3, -1, 8, 10]", "cuts.1", "is -1, expected"),
        ("cuts: [3, 3, 9, 9, 9, 10]", "cuts", "leaves stage 1 without a unit"),
        ("layout: 'Ett|tt|t|tL'", "layout", "has 6 layers, expected 8"),
        ("layout: 'Ett|tx|t*3,|tL'", "layout", "has 'x', expected E, t, m, L"),
        ("layout: 'Ett|tt|t*3,m|tL'", "layout", "is not one embedding"),
        (f"cuts: {CUTS}, layout: 'E'", "layout", "is given beside cuts"),
        (f"cuts: {CUTS}, units: [3, 3]", "units", "expected"),
        (f"cuts: {CUTS}, stages: 4", "cuts", "has 2 stages, which pin.stages"),
    ],
)
def test_impossible_layouts_are_refused(pin: str, field: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        problem(pin)
    assert caught.value.field == f"pin.{field}"
    assert message in caught.value.message


@pytest.mark.parametrize("schedule", ["1f1b", "auto"])
def test_layouts_are_of_one_schedule(schedule: str) -> None:
    with pytest.raises(InputError, match="expected schedule interleaved-1f1b"):
        problem(f"cuts: {CUTS}", f"schedule: {schedule}")


def test_a_problem_under_the_schedule_of_a_plan() -> None:
    pinned, free = problem(f"cuts: {CUTS}"), problem("")
    other = (2, 5, 8, 10)
    assert pinned.of_plan("interleaved-1f1b", 2).pins.cuts == tuple(CUTS)
    assert pinned.of_plan("interleaved-1f1b", 2, None, other).pins.cuts == other
    assert pinned.of_plan("1f1b").pins.cuts is None
    assert free.of_plan("interleaved-1f1b", 2, None, other).pins.cuts == other
    with pytest.raises(InputError, match="is of stages of several chunks") as caught:
        pinned.under("1f1b")
    assert caught.value.field == "pin.cuts"


def test_plans_with_cuts_are_of_a_later_schema() -> None:
    from hetopt import plan

    found = plan(problem(f"cuts: {CUTS}")).best
    assert found is not None
    data: dict[str, Any] = found.plan.to_json()
    assert (data["schema"], data["cuts"]) == ("hetopt-plan/2", CUTS)
    assert Plan.from_json(data) == found.plan
    equal = plan(problem("")).best
    assert equal is not None
    assert equal.plan.to_json()["schema"] == "hetopt-plan/1"
    assert "cuts" not in equal.plan.to_json()
