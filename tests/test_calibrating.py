from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetopt.calibrating import fit
from hetopt.cost.build import build_table
from hetopt.plans import Pipeline, Plan, Stage, Strategy
from hetopt.pricing import price
from hetopt.problem.calibration import Calibration
from hetopt.problem.problem import Problem
from hetopt.problem.training import Training
from tests.cost.making import make_cluster, make_links, make_model, make_problem

MODEL = make_model(layers=8)


def problem_of(**efficiency: float) -> Problem:
    problem = make_problem(
        (make_cluster("a", nodes=1), make_cluster("b", "H20-96GB", nodes=1)),
        MODEL,
        Training(global_batch=32, seq_len=2048),
        None,
        make_links(),
    )
    return replace(problem, calibration=Calibration(efficiency=efficiency))


def plan_of(dp: int = 2) -> Plan:
    strategy = Strategy(dp=dp, cp=1, tp=4)
    return Plan(
        schedule="virtual-1f1b",
        pipelines=(
            Pipeline(
                microbatches=16,
                stages=(
                    Stage(
                        cluster="a",
                        first_unit=0,
                        end_unit=6,
                        strategy=strategy,
                        warmup=3,
                        resharding="p2p",
                    ),
                    Stage(
                        cluster="b",
                        first_unit=6,
                        end_unit=10,
                        strategy=strategy,
                        warmup=1,
                    ),
                ),
            ),
        ),
        problem_digest="",
        table_digest="",
    )


def seconds(problem: Problem) -> float:
    return price(plan_of(), build_table(problem)).iteration_time_s


def test_efficiency_divides_computation_alone() -> None:
    plain, quick = build_table(problem_of()), build_table(problem_of(a=2.0))
    for before, after in zip(plain.slices, quick.slices, strict=True):
        first, second = before.clusters[0], after.clusters[0]
        alone = np.array(
            [strategy.tp * strategy.cp == 1 for strategy in first.strategies]
        )
        ratio = first.forward_ns[alone] / second.forward_ns[alone]
        assert ratio == pytest.approx(2, rel=1e-3)
        assert (first.forward_ns > second.forward_ns).all()
        assert (second.forward_ns > first.forward_ns // 2 - 1).all()
        assert (before.clusters[1].forward_ns == after.clusters[1].forward_ns).all()
        assert (before.transfer_ns == after.transfer_ns).all()


def test_bandwidth_makes_boundaries_cheaper() -> None:
    plain = problem_of()
    wide = replace(plain, calibration=Calibration(bandwidth=2.0))
    for before, after in zip(
        build_table(plain).slices, build_table(wide).slices, strict=True
    ):
        assert (after.transfer_ns <= before.transfer_ns).all()
        assert (after.transfer_ns < before.transfer_ns).any()


@pytest.mark.parametrize("factor", [0.5, 0.9, 1.0, 1.3])
def test_a_fit_undoes_an_efficiency(factor: float) -> None:
    measured = seconds(problem_of(a=factor, b=factor))
    found = fit(problem_of(), plan_of(), measured)
    assert not found.bounded
    assert found.after_s == pytest.approx(measured, rel=1e-3)
    assert found.before_s == pytest.approx(seconds(problem_of()))
    for name in ("a", "b"):
        assert found.calibration.efficiency_of(name) == pytest.approx(factor, rel=2e-3)


def test_a_fit_goes_on_from_the_last_one() -> None:
    start = problem_of(a=0.8, b=0.8)
    found = fit(start, plan_of(), seconds(problem_of(a=0.6, b=0.6)))
    assert found.before_s == pytest.approx(seconds(start))
    assert found.calibration.efficiency_of("a") == pytest.approx(0.6, rel=2e-3)


def test_one_cluster_alone() -> None:
    measured = seconds(problem_of(a=0.7))
    found = fit(problem_of(), plan_of(), measured, clusters=("a",))
    assert found.calibration.efficiency == {"a": pytest.approx(0.7, rel=2e-3)}


def test_bandwidth_instead() -> None:
    slow = replace(problem_of(), calibration=Calibration(bandwidth=0.3))
    found = fit(problem_of(), plan_of(), seconds(slow), correct="bandwidth")
    assert found.calibration.bandwidth == pytest.approx(0.3, rel=1e-2)
    assert not found.calibration.efficiency


@pytest.mark.parametrize(("measured_s", "bound"), [(1e-3, 2.0), (1e4, 0.25)])
def test_factors_are_bounded(measured_s: float, bound: float) -> None:
    found = fit(problem_of(), plan_of(), measured_s)
    assert found.calibration.efficiency == {"a": bound, "b": bound}
    assert found.bounded == ("efficiency (0.25 to 2)",)


def test_memory_corrects_the_overhead_of_the_fullest_device() -> None:
    problem, plan = problem_of(), plan_of()
    needed = max(price(plan, build_table(problem)).memory_bytes)
    measured = seconds(problem)
    assert not fit(problem, plan, measured).overhead
    more = fit(problem, plan, measured, measured_bytes=needed + 3 * 10**9)
    assert more.memory_bytes == needed
    assert list(more.overhead.values()) == [3 * 10**9]
    less = fit(problem, plan, measured, measured_bytes=int(needed * 0.5))
    assert list(less.overhead.values()) == [0]
    assert [bound.split()[0] for bound in less.bounded] == ["overhead"]
