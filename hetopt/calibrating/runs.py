"""A measured run, and the price of its plan under other calibrations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hetopt.cost.build import build_table
from hetopt.cost.sources.by_cluster import latency_sources
from hetopt.cost.sources.remembered import RememberedSource
from hetopt.plans.strategy import DEGREES
from hetopt.pricing.price import price
from hetopt.problem.training.pins import ClusterPins, Domain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hetopt.plans.plan import Plan
    from hetopt.plans.strategy import Strategy
    from hetopt.pricing.price import Price
    from hetopt.problem.calibration import Calibration
    from hetopt.problem.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """A plan that was launched, and its measured iteration time.

    Attributes
    ----------
    name
        The problem's name in errors: its file.
    measured_s
        Seconds of an iteration, above 0.
    file, noise, on_cpu
        The file that has the time, and why it is unreliable; None and nothing for a
        time without a file.
    """

    name: str
    problem: Problem
    plan: Plan
    measured_s: float
    file: str | None = None
    noise: tuple[str, ...] = ()
    on_cpu: bool = False


class Repriced:
    """A plan that is priced under one calibration after another.

    Its table is built with the plan's strategies only. The latency source, whose
    answers do not depend on the calibration, is asked once.
    """

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.problem = _only_this_plan(problem, plan)
        self.plan = plan
        self._source = RememberedSource(latency_sources(self.problem))

    def price(self, calibration: Calibration) -> Price:
        """Return the plan's price."""
        problem = replace(self.problem, calibration=calibration)
        return price(self.plan, build_table(problem, self._source))

    def seconds(self, calibration: Calibration) -> float:
        """Return the simulated time of an iteration."""
        return self.price(calibration).iteration_time_s


def _only_this_plan(problem: Problem, plan: Plan) -> Problem:
    """Pin the plan's strategies, so that its table is built quickly."""
    used: dict[str, set[Strategy]] = {}
    for stage in plan.pipeline.stages:
        strategies = stage.unit_strategies or (stage.strategy,)
        used.setdefault(stage.cluster, set()).update(strategies)
    pins = {
        name: ClusterPins(
            recompute=_among(one.recompute for one in strategies),
            **{
                degree: _among(getattr(one, degree) for one in strategies)
                for degree in DEGREES
            },
        )
        for name, strategies in used.items()
    }
    return replace(
        problem,
        pins=replace(
            problem.pins,
            microbatches=_among([plan.pipeline.microbatches]),
            clusters={**problem.pins.clusters, **pins},
        ),
    )


def _among(values: Iterable[int | str]) -> Domain:
    return Domain(allowed=frozenset(values))
