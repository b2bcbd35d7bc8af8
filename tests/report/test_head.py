"""The first lines of a report: how fast, how sure, which plan, what next."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetopt.plans.strategy import Strategy
from hetopt.problem.facts import Accuracy
from hetopt.report.head import answer, errors_text, layout, next_command
from hetopt.report.plan_report import Told, plan_report
from hetopt.results.launch import Launch
from hetopt.results.money import Cost
from tests.report.test_summary import PLAN, PRICED, result

NEAR = Accuracy(runs=69, median=0.02, worst=0.21)


def test_the_answer_is_the_minimised_time_and_how_sure_it_is() -> None:
    found = result(objective="simulated")
    assert answer(found, PRICED, {"A100": NEAR, "H20": None}) == (
        "1.90 s per iteration, 12.3k tokens/s, MFU 40%: proven optimal; "
        "times off by 2% (A100), unknown (H20)"
    )
    # Throughput is that of the time which is minimised.
    assert answer(result(), PRICED) == (
        "2.00 s per iteration in closed form, 11.7k tokens/s, MFU 38%: proven optimal"
    )


def test_a_time_has_the_digits_of_its_error() -> None:
    for median, told in ((0.02, "9.9 s"), (0.3, "9.9 s"), (0.004, "9.89 s")):
        best = replace(PRICED, iteration_time_s=9.8943)
        errors = {"A100": replace(NEAR, median=median)}
        found = result(objective="simulated", best=best)
        assert answer(found, best, errors).startswith(f"{told} per iteration, ")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"status": "feasible", "gap": 0.032}, "at most 3.2% from the best possible"),
        ({"status": "feasible", "gap": None}, "how far from the best possible is un"),
        ({"status": "feasible", "gap": 1.0}, "how far from the best possible is unkn"),
        ({"relaxed": ("p4",)}, "proven optimal with p4 relaxed"),
        (
            {"over": ({"launcher": "megatron"},)},
            "proven optimal of the plans that megatron can run",
        ),
    ],
)
def test_the_answer_says_what_was_proven(changes: dict[str, object], told: str) -> None:
    found = result(**changes)
    assert f": {told}" in answer(found, PRICED)
    assert all("(p, q)" not in str(part) for part in plan_report(found, PRICED))


def test_what_a_launcher_costs_is_said_at_once() -> None:
    launch = Launch(
        launcher="megatron",
        schedule="virtual-1f1b",
        closed_form_s=1.9,
        iteration_time_s=1.9,
        proven=False,
    )
    parts = plan_report(result(launch=launch), PRICED)
    against = (
        "against the plan of least {} without its limits (virtual-1f1b, not proven)."
    )
    text = f"megatron costs +5.26% in closed form, +0.00% simulated, {against}"
    assert text.format("closed form") in parts
    simulated = plan_report(result(launch=launch, objective="simulated"), PRICED)
    assert text.format("simulated time") in simulated


def test_errors_of_devices_are_grouped() -> None:
    assert errors_text({}) == "times as the table has them"
    assert errors_text({"H20": None}) == "times of H20 never checked against a run"
    several = {f"chip{n}": None for n in range(4)}
    assert errors_text({**several, "A100": NEAR, "H100": NEAR}) == (
        "times off by 2% (A100, H100), unknown (4 types of devices)"
    )


def test_the_second_line_is_the_plan() -> None:
    assert layout(PLAN) == (
        "h20 1 stage cp2 tp4 full recompute -> a100 1 stage dp2, 4 micro-batches, "
        "virtual-1f1b"
    )
    stages = tuple(
        replace(
            PLAN.pipeline.stages[0], cluster=name, strategy=Strategy(dp=1, cp=1, tp=1)
        )
        for name in "abcd"
    )
    many = replace(PLAN, pipelines=(replace(PLAN.pipeline, stages=stages),))
    assert layout(many) == "4 clusters, 4 stages, 4 micro-batches, virtual-1f1b"
    two = replace(PLAN, pipelines=(PLAN.pipeline, PLAN.pipeline))
    assert layout(two) == "2 pipelines side by side, 20 devices, virtual-1f1b"


def test_the_third_line_is_the_next_command() -> None:
    assert next_command("my problem.yaml", "plan.json", "torch") == (
        "hetopt export 'my problem.yaml' plan.json --to torch --out bundle"
    )
    assert next_command("p.yaml", "plan.json", None, "t.json") == (
        "hetopt check p.yaml plan.json --table t.json"
    )


def test_three_lines_come_before_any_table() -> None:
    told = Told(errors={"A100": NEAR, "H20": None}, next="next: hetopt export")
    head = plan_report(result(), PRICED, told=told)[:4]
    assert head[0] == answer(result(), PRICED, told.errors)
    assert head[1:] == [layout(PLAN), "next: hetopt export", ""]


def test_of_least_cost_the_cost_comes_first() -> None:
    cost = Cost(
        nodes={"h20": 1},
        unpriced=(),
        per_hour=3600.0,
        per_iteration=1.9,
        per_trillion_tokens=9.0,
    )
    text = answer(result(objective="cost", cost=cost), PRICED)
    assert text.startswith("2.00 an iteration, 2.00 s per iteration in closed form, ")
    assert text.endswith("MFU 38%: proven of least cost")
