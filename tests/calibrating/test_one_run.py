from __future__ import annotations

import numpy as np
import pytest

from hetopt.calibrating.one_run import fit
from hetopt.cost.build import build_table
from hetopt.problem.calibration import Calibration
from tests.calibrating.making import efficiencies, problem_of, run_of, seconds


def test_efficiency_divides_computation_alone() -> None:
    plain, quick = (
        build_table(problem_of()),
        build_table(problem_of(efficiencies(a=2.0))),
    )
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
    plain, wide = problem_of(), problem_of(Calibration(bandwidth=2.0))
    for before, after in zip(
        build_table(plain).slices, build_table(wide).slices, strict=True
    ):
        assert (after.transfer_ns <= before.transfer_ns).all()
        assert (after.transfer_ns < before.transfer_ns).any()


@pytest.mark.parametrize("factor", [0.5, 0.9, 1.0, 1.3])
def test_a_fit_undoes_an_efficiency(factor: float) -> None:
    measured = seconds(problem_of(efficiencies(a=factor, b=factor)))
    found = fit(run_of(problem_of(), measured))
    assert not found.bounded
    assert found.after_s == pytest.approx(measured, rel=1e-3)
    assert found.before_s == pytest.approx(seconds(problem_of()))
    for name in ("a", "b"):
        assert found.calibration.efficiency_of(name) == pytest.approx(factor, rel=2e-3)


def test_a_fit_goes_on_from_the_last_one() -> None:
    start = problem_of(efficiencies(a=0.8, b=0.8))
    found = fit(run_of(start, seconds(problem_of(efficiencies(a=0.6, b=0.6)))))
    assert found.before_s == pytest.approx(seconds(start))
    assert found.calibration.efficiency_of("a") == pytest.approx(0.6, rel=2e-3)


def test_one_cluster_alone() -> None:
    measured = seconds(problem_of(efficiencies(a=0.7)))
    found = fit(run_of(problem_of(), measured), clusters=("a",))
    assert found.calibration.efficiency == {"a": pytest.approx(0.7, rel=2e-3)}


def test_bandwidth_instead() -> None:
    slow = problem_of(Calibration(bandwidth=0.3))
    found = fit(run_of(problem_of(), seconds(slow)), correct="bandwidth")
    assert found.calibration.bandwidth == pytest.approx(0.3, rel=1e-2)
    assert not found.calibration.efficiency


def test_links_inside_nodes_instead() -> None:
    slow = problem_of(Calibration(intra_node=0.6))
    found = fit(run_of(problem_of(), seconds(slow)), correct="intra_node")
    assert found.calibration.intra_node == pytest.approx(0.6, rel=1e-2)
    assert not found.calibration.efficiency


@pytest.mark.parametrize(("measured_s", "bound"), [(1e-3, 2.0), (1e4, 0.25)])
def test_factors_are_bounded(measured_s: float, bound: float) -> None:
    found = fit(run_of(problem_of(), measured_s))
    assert found.calibration.efficiency == {"a": bound, "b": bound}
    assert found.bounded == ("efficiency (0.25 to 2)",)
