"""Correcting the latency table by what an engineer's own run took.

One measured iteration tells one number, so it corrects one thing: what the devices of
the plan's clusters reach of their modelled or profiled speed (``efficiency``), or what
the networks between nodes and clusters reach of their bandwidth (``bandwidth``).
Measured memory corrects the reserve. All factors are bounded: a difference that they
cannot correct in full is reported.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from hetopt.cost.build import build_table
from hetopt.errors import InputError
from hetopt.pricing import price
from hetopt.problem.calibration import (
    BANDWIDTH_BOUNDS,
    EFFICIENCY_BOUNDS,
    RESERVE_BOUNDS,
)
from hetopt.problem.training import ClusterPins, Domain

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.plans import Plan
    from hetopt.problem.calibration import Calibration
    from hetopt.problem.problem import Problem

Corrected = Literal["efficiency", "bandwidth"]

#: Relative precision of a factor: no run is measured more precisely.
PRECISION = 1e-4

#: Significant digits of the factors written.
DIGITS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What a run says about a problem's table.

    Attributes
    ----------
    calibration, reserve
        To be used from now on; the reserve is None if no memory was measured.
    before_s, after_s
        The plan's simulated iteration with the problem's own, and with the new
        calibration.
    memory_bytes
        What the fullest stage needs per device by our count.
    bounded
        What the bounds did not let correct in full.
    """

    calibration: Calibration
    reserve: float | None
    before_s: float
    after_s: float
    memory_bytes: int
    bounded: tuple[str, ...]


def fit(
    problem: Problem,
    plan: Plan,
    measured_s: float,
    *,
    measured_bytes: int | None = None,
    correct: Corrected = "efficiency",
    clusters: tuple[str, ...] = (),
) -> Fit:
    """Find the factor with which the plan's simulated iteration takes ``measured_s``.

    Parameters
    ----------
    measured_bytes
        Peak memory of the fullest device.
    correct
        What the difference is blamed on.
    clusters
        Whose efficiency is corrected; those of the plan by default.

    Raises
    ------
    InputError
        The plan's time does not depend on what is to be corrected.
    """
    stages = plan.pipeline.stages
    asked = clusters or tuple(dict.fromkeys(stage.cluster for stage in stages))
    problem = _only_this_plan(problem, plan)
    before_s, memory = _priced(problem, plan, problem.calibration)
    low, high = EFFICIENCY_BOUNDS if correct == "efficiency" else BANDWIDTH_BOUNDS

    def corrected(factor: float) -> Calibration:
        old = problem.calibration
        if correct == "bandwidth":
            return replace(old, bandwidth=_within(old.bandwidth * factor, low, high))
        new = {
            name: _within(old.efficiency_of(name) * factor, low, high) for name in asked
        }
        return replace(old, efficiency={**old.efficiency, **new})

    slow, quick = (
        _priced(problem, plan, corrected(end))[0] for end in (low / high, high / low)
    )
    if slow == quick:
        msg = f"the plan's iteration time does not depend on {correct}"
        raise InputError(msg)
    factor = _bisected(
        lambda factor: _priced(problem, plan, corrected(factor))[0],
        measured_s,
        low / high,
        high / low,
    )
    calibration = corrected(factor)
    after_s, _ = _priced(problem, plan, calibration)
    bounded = []
    if abs(after_s / measured_s - 1) > 10 * PRECISION:
        bounded.append(f"{correct} ({low:g} to {high:g})")
    reserve = None
    if measured_bytes is not None:
        low, high = RESERVE_BOUNDS
        exact = 1 - (1 - problem.training.reserve) * max(memory) / measured_bytes
        reserve = _within(exact, low, high)
        if abs(reserve - exact) > PRECISION:
            bounded.append(f"reserve ({low:g} to {high:g})")
    return Fit(
        calibration=calibration,
        reserve=reserve,
        before_s=before_s,
        after_s=after_s,
        memory_bytes=max(memory),
        bounded=tuple(bounded),
    )


def _bisected(
    seconds: Callable[[float], float], measured_s: float, low: float, high: float
) -> float:
    """Return the factor with which an iteration takes ``measured_s``."""
    # Iterations only get shorter as a factor rises: halve its logarithm.
    slowest, quickest = math.log(low), math.log(high)
    while quickest - slowest > PRECISION / 2:
        middle = (slowest + quickest) / 2
        if seconds(math.exp(middle)) > measured_s:
            slowest = middle
        else:
            quickest = middle
    return math.exp((slowest + quickest) / 2)


def _only_this_plan(problem: Problem, plan: Plan) -> Problem:
    """Pin the plan's strategies, so that its table is built quickly."""

    def only(value: int | str) -> Domain:
        return Domain(allowed=frozenset({value}))

    pins = {
        stage.cluster: ClusterPins(
            dp=only(stage.strategy.dp),
            cp=only(stage.strategy.cp),
            tp=only(stage.strategy.tp),
            recompute=only(stage.strategy.recompute),
        )
        for stage in plan.pipeline.stages
    }
    return replace(
        problem,
        pins=replace(
            problem.pins,
            microbatches=only(plan.pipeline.microbatches),
            clusters={**problem.pins.clusters, **pins},
        ),
    )


def _priced(
    problem: Problem, plan: Plan, calibration: Calibration
) -> tuple[float, tuple[int, ...]]:
    priced = price(plan, build_table(replace(problem, calibration=calibration)))
    return priced.iteration_time_s, priced.memory_bytes


def _within(value: float, low: float, high: float) -> float:
    return float(f"{min(max(value, low), high):.{DIGITS}g}")
