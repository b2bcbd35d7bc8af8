"""HAPT's load balance, by hand."""

from dataclasses import replace

import pytest

import hetopt
from hetopt.cost.build import build_table
from hetopt.pricing.balance import balance
from hetopt.pricing.price import price
from hetopt.problem.reading import read_problem


def test_balance_weighs_devices_by_their_peak() -> None:
    """Devices that wait count as much as their peak FLOP/s (HAPT, Eq. 25)."""
    problem = read_problem("a100-h100-v100")
    table = build_table(problem)
    found = hetopt.plan(problem, table=table).best
    assert found is not None
    plan, priced = found.plan, price(found.plan, table)
    times = priced.times.round_trip_ns
    peaks = {
        cluster.name: cluster.accelerator.peak_flops_of(
            problem.training.precision, problem.training.emulate
        )
        for cluster in problem.clusters
    }
    stages = plan.pipeline.stages
    assert len({stage.cluster for stage in stages}) > 1
    lost = total = 0.0
    for stage, took in zip(stages, times, strict=True):
        for _ in range(stage.strategy.devices):
            lost += (max(times) - took) * peaks[stage.cluster]
            total += max(times) * peaks[stage.cluster]
    assert balance(problem, plan, priced) == pytest.approx(1 - lost / total)


def test_equal_stages_are_in_balance() -> None:
    """Stages of one time are in perfect balance, whatever their devices."""
    problem = read_problem("a100-h100-v100")
    table = build_table(problem)
    found = hetopt.plan(problem, table=table).best
    assert found is not None
    priced = price(found.plan, table)
    count = len(priced.times.forward_ns)
    times = replace(priced.times, forward_ns=(2,) * count, backward_ns=(3,) * count)
    even = replace(priced, times=times)
    assert balance(problem, found.plan, even) == pytest.approx(1)
