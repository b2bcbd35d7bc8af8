"""How evenly a plan loads its devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hetopt.plans.plan import Plan
    from hetopt.pricing.price import Price
    from hetopt.problem.problem import Problem


def balance(problem: Problem, plan: Plan, price: Price) -> float:
    """Return HAPT's load balance, above 0 and at most 1.

    HAPT, Eq. 25: 1 - sum_i (td_max - td_i) peak_i / (td_max sum_i peak_i) over the
    devices i of the plan, where td_i is the time that device i computes (here per
    micro-batch), td_max the longest of them, and peak_i the device's peak FLOP/s. That
    is the mean of td_i, weighted by peak_i, over td_max.
    """
    peak = {
        cluster.name: cluster.accelerator.peak_flops_of(
            problem.training.precision, problem.training.emulate
        )
        for cluster in problem.clusters
    }
    weights = [
        stage.strategy.devices * peak[stage.cluster] for stage in plan.pipeline.stages
    ]
    times = price.times.round_trip_ns
    loads = sum(time * of for time, of in zip(times, weights, strict=True))
    return loads / (max(times) * sum(weights))
