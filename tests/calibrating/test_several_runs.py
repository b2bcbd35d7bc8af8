from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.calibrating.alike import ensure_alike
from hetopt.calibrating.runs import MeasuredRun
from hetopt.calibrating.several_runs import fit_jointly
from hetopt.errors import InputError
from hetopt.plans.plan import Plan
from hetopt.problem.calibration import Calibration
from hetopt.problem.cluster.accelerator import Link, PeakFlops
from hetopt.problem.cluster.links import ClusterLinks
from hetopt.problem.cluster.nearby import DeviceGroup
from hetopt.problem.problem import Problem
from tests.calibrating.making import (
    efficiencies,
    plan_of,
    plan_of_one,
    problem_of,
    problem_of_one,
    run_of,
    seconds,
)
from tests.cost.making import GBPS, make_cluster, make_links

if TYPE_CHECKING:
    from pathlib import Path

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


@pytest.mark.slow
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


def with_cluster_a(**changes: Any) -> Problem:
    one, *rest = problem_of().clusters
    return replace(problem_of(), clusters=(replace(one, **changes), *rest))


def slower(link: Link) -> Link:
    return replace(link, bandwidth_bytes_per_s=link.bandwidth_bytes_per_s / 10)


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (
            replace(problem_of(), links=make_links(bandwidth_bytes_per_s=GBPS)),
            "other.yaml: links between a and b: per_connection: is 0.125 GB/s, "
            "expected 1.25 GB/s as in problem.yaml: ",
        ),
        (
            replace(problem_of(), links=make_links(staged="device")),
            "links between a and b: staged: is device, expected host",
        ),
        (
            replace(problem_of(), links=ClusterLinks(default=None)),
            "links between a and b: bandwidth: is none, expected unlimited",
        ),
        (
            with_cluster_a(inter_node=slower(make_cluster().inter_node)),
            "clusters.a.inter_node.bandwidth: is 1.25 GB/s, expected 12.5 GB/s",
        ),
        (
            with_cluster_a(intra_node=slower(make_cluster().intra_node)),
            "clusters.a.intra_node.bandwidth: is 30 GB/s, expected 300 GB/s",
        ),
        (
            with_cluster_a(host_device=slower(make_cluster().host_device)),
            "clusters.a.host_device.bandwidth: is ",
        ),
        (
            with_cluster_a(group=DeviceGroup(size=2, link=make_cluster().intra_node)),
            "clusters.a.group.size: is 2, expected none",
        ),
        (
            with_cluster_a(nics_per_node=4),
            "clusters.a.nics_per_node: is 1/2 per device, expected 1 per device",
        ),
        (
            with_cluster_a(uplink_bytes_per_s=1e9),
            "clusters.a.uplink: is 1 GB/s, expected unlimited",
        ),
        (
            with_cluster_a(
                accelerator=replace(
                    make_cluster().accelerator,
                    peak_flops=PeakFlops.dense_16_bit(1e14),
                )
            ),
            "clusters.a.accelerator.peak_flops.bf16: is 100 TFLOPS, expected 312 TFL",
        ),
        (
            with_cluster_a(
                accelerator=replace(
                    make_cluster().accelerator, preset=None, like="H100"
                )
            ),
            "clusters.a.accelerator: is like H100, expected A100-80GB as in",
        ),
    ],
)
def test_links_and_rates_have_to_be_alike(problem: Problem, message: str) -> None:
    runs = [run_of(problem_of(), 1.0), run_of(problem, 1.0)]
    with pytest.raises(InputError, match=re.escape(message)):
        fit_jointly([runs[0], replace(runs[1], name="other.yaml")])


def test_a_latency_file_is_known_by_what_it_holds(tmp_path: Path) -> None:
    runs = []
    for folder, text in (("one", "1"), ("same", "1"), ("other", "2")):
        path = tmp_path / folder / "mine.csv"
        path.parent.mkdir()
        path.write_text(text)
        runs.append(run_of(replace(problem_of(), latency={"a": str(path)}), 1.0))
    ensure_alike(runs[0], runs[1])
    with pytest.raises(InputError, match=r"latency\.a: is mine\.csv \(sha256 d4735e"):
        ensure_alike(runs[0], runs[2])


def test_what_no_price_depends_on_may_differ() -> None:
    """Labels, how links are written, and the network of a node that nothing leaves."""
    problem, link = problem_of(), make_links().default
    labelled = with_cluster_a(accelerator=replace(make_cluster().accelerator, name="x"))
    ensure_alike(run_of(problem, 1.0), run_of(labelled, 1.0))
    by_pair = ClusterLinks(default=None, pairs={frozenset("ab"): link})
    ensure_alike(run_of(problem, 1.0), run_of(replace(problem, links=by_pair), 1.0))
    one = problem_of_one()
    two = replace(one, clusters=(make_cluster("a", nodes=2),))
    alone = replace(one.clusters[0], inter_node=one.clusters[0].intra_node)
    runs = [run_of(each, 1.0) for each in (replace(one, clusters=(alone,)), two)]
    ensure_alike(*runs)
