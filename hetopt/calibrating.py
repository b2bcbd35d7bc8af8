"""Correcting the latency table by what an engineer's own run took.

One measured iteration tells one number, so it corrects one thing: what the devices of
the plan's clusters reach of their modelled or profiled speed (``efficiency``), or what
the networks between nodes and clusters reach of their bandwidth (``bandwidth``).
Measured memory corrects the overhead of the cluster with the fullest device: what was
measured there beyond what the plan allocates. All are bounded: a difference that they
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
    MOST_OVERHEAD,
)
from hetopt.problem.training import ClusterPins, Domain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hetopt.plans import Plan
    from hetopt.problem.calibration import Calibration
    from hetopt.problem.problem import Problem

Corrected = Literal["efficiency", "bandwidth"]

_BOUNDS = {"efficiency": EFFICIENCY_BOUNDS, "bandwidth": BANDWIDTH_BOUNDS}

#: Relative precision of a factor: no run is measured more precisely.
PRECISION = 1e-4

#: Significant digits of the factors written.
DIGITS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What a run says about a problem's table.

    Attributes
    ----------
    calibration, overhead
        To be used from now on; overhead is bytes by cluster, empty if no memory was
        measured.
    before_s, after_s
        The plan's simulated iteration with the problem's own, and with the new
        calibration.
    memory_bytes
        What the fullest stage needs per device by our count.
    bounded
        What the bounds did not let correct in full.
    """

    calibration: Calibration
    overhead: Mapping[str, int]
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
        Peak memory of the fullest device, as its driver counts it.
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
    low, high = _BOUNDS[correct]

    def corrected(factor: float) -> Calibration:
        return _corrected(problem.calibration, factor, correct, asked)

    def seconds(factor: float) -> float:
        return _priced(problem, plan, corrected(factor))[0]

    if seconds(low / high) == seconds(high / low):
        raise InputError(f"the plan's iteration time does not depend on {correct}")
    factor = _bisected(seconds, measured_s, low / high, high / low)
    after_s = seconds(factor)
    bounded = []
    if abs(after_s / measured_s - 1) > 10 * PRECISION:
        bounded.append(f"{correct} ({low:g} to {high:g})")
    overhead = {}
    if measured_bytes is not None:
        name = stages[memory.index(max(memory))].cluster
        most = _most_overhead(problem, name)
        exact = measured_bytes - max(memory)
        overhead[name] = min(max(exact, 0), most)
        if overhead[name] != exact:
            bounded.append(f"overhead (0 to {most / 1e9:g} GB)")
    return Fit(
        calibration=corrected(factor),
        overhead=overhead,
        before_s=before_s,
        after_s=after_s,
        memory_bytes=max(memory),
        bounded=tuple(bounded),
    )


def _corrected(
    old: Calibration, factor: float, correct: Corrected, clusters: Sequence[str]
) -> Calibration:
    """Return a calibration with one thing changed by a factor, within its bounds."""
    low, high = _BOUNDS[correct]
    if correct == "bandwidth":
        return replace(old, bandwidth=_within(old.bandwidth * factor, low, high))
    new = {
        name: _within(old.efficiency_of(name) * factor, low, high) for name in clusters
    }
    return replace(old, efficiency={**old.efficiency, **new})


def _most_overhead(problem: Problem, name: str) -> int:
    memory = next(c.memory_bytes for c in problem.clusters if c.name == name)
    return math.floor(memory * MOST_OVERHEAD)


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
