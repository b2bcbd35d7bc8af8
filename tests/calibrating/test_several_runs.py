from __future__ import annotations

from dataclasses import replace

import pytest

from hetopt.calibrating.runs import MeasuredRun
from hetopt.calibrating.several_runs import fit_jointly
from hetopt.errors import InputError
from hetopt.plans import Plan
from hetopt.problem.calibration import Calibration
from tests.calibrating.making import (
    efficiencies,
    plan_of,
    plan_of_one,
    problem_of,
    problem_of_one,
    run_of,
    seconds,
)

#: Another tp, another micro-batch, other layers on each cluster.
PLANS = (
    plan_of(dp=1, tp=8, microbatches=32),
    plan_of(dp=4, tp=2, microbatches=4),
    plan_of(dp=2, tp=4, microbatches=4, first=3),
)


def measured(calibration: Calibration, plans: tuple[Plan, ...]) -> list[MeasuredRun]:
    truth = problem_of(calibration)
    return [run_of(problem_of(), seconds(truth, plan), plan) for plan in plans]


def test_three_plans_tell_how_fast_devices_and_their_links_are() -> None:
    truth = problem_of_one(Calibration(efficiency={"a": 0.8}, intra_node=0.7))
    runs = [
        run_of(problem_of_one(), seconds(truth, plan), plan)
        for plan in (
            plan_of_one(tp=8, microbatches=32),
            plan_of_one(tp=4, microbatches=4),
            plan_of_one(tp=1, microbatches=2),
        )
    ]
    found = fit_jointly(runs)
    assert found.calibration.efficiency == {"a": pytest.approx(0.8, rel=0.01)}
    assert found.calibration.intra_node == pytest.approx(0.7, rel=0.02)
    # No byte leaves the node.
    assert found.calibration.bandwidth == 1
    assert not found.bounded
    for run, before, after, left_out in zip(
        runs, found.before_s, found.after_s, found.left_out_s, strict=True
    ):
        assert before < 0.9 * run.measured_s
        assert after == pytest.approx(run.measured_s, rel=0.01)
        assert left_out == pytest.approx(run.measured_s, rel=0.01)


@pytest.mark.slow
def test_two_clusters_have_factors_of_their_own() -> None:
    flat = plan_of(dp=8, tp=1, microbatches=4, first=8)
    runs = measured(efficiencies(a=0.7, b=0.9), (*PLANS, flat))
    found = fit_jointly(runs)
    assert found.calibration.efficiency_of("a") == pytest.approx(0.7, rel=0.05)
    assert found.calibration.efficiency_of("b") == pytest.approx(0.9, rel=0.05)


def test_what_runs_do_not_tell_stays() -> None:
    runs = measured(efficiencies(a=0.8, b=0.8), PLANS[:2])
    found = fit_jointly(runs, correct="efficiency", clusters=("a",))
    assert found.calibration.bandwidth == found.calibration.intra_node == 1
    assert set(found.calibration.efficiency) == {"a"}
    right = fit_jointly(measured(Calibration(), PLANS[:2]))
    assert right.calibration == efficiencies(a=1.0, b=1.0)
    assert right.left_out_s == right.before_s == right.after_s


def test_factors_end_on_their_bounds() -> None:
    found = fit_jointly([run_of(problem_of(), 1e4, plan) for plan in PLANS[:2]])
    assert found.calibration.efficiency["a"] == 0.25
    assert "efficiency of a (0.25 to 2)" in found.bounded


def test_problems_have_to_be_alike() -> None:
    first = run_of(problem_of(), 1.0)
    for problem, message in (
        (
            problem_of(Calibration(intra_node=0.9)),
            r"other.yaml: calibration.intra_node: is 0.9, expected 1 as in problem",
        ),
        (
            problem_of(efficiencies(b=0.9)),
            r"calibration.efficiency.b: is 0.9, expected 1",
        ),
        (
            replace(problem_of(), clusters=problem_of().clusters[:1]),
            r"other.yaml: clusters: are a, expected those of problem.yaml \(a, b\)",
        ),
        (replace(problem_of(), latency={"a": "roofline"}), r"latency.a: is roofline"),
    ):
        other = replace(run_of(problem, 1.0), name="other.yaml")
        with pytest.raises(InputError, match=message):
            fit_jointly([first, other])
