"""Small problems under every question, and all plans that may answer it.

Fleets are problems with fewer nodes, divisions are those of ``hetopt.cost.divided``,
and a launcher runs some of the plans: all of them are enumerated and priced by the
checker.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any, Literal

import yaml

from hetopt.cost.build import build_table
from hetopt.cost.divided import part
from hetopt.cost.sources.by_cluster import latency_sources
from hetopt.cost.sources.remembered import RememberedSource
from hetopt.cost.table.ticks import TICK_S
from hetopt.export import launcher as export
from hetopt.export.job import parts_of
from hetopt.export.launcher import Limits
from hetopt.export.planning.limits import broken, is_shared, sharing, split
from hetopt.planning.solving import solve_for
from hetopt.problem.digest import problem_digest
from hetopt.problem.reading import read_problem_text
from hetopt.results.spending import Spending
from hetopt.solvers.dividing import divisions
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from hetopt.solvers.search.branchings.runnable import InCommon, Launchable
from hetopt.solvers.search.branchings.schedules import ScheduleVariant
from hetopt.solvers.search.over import Over
from hetopt.solvers.search.search import TreeSearch
from tests.oracle.brute_force import every_plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.cost.sources.source import LatencySource
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.results.claims import Measure
    from hetopt.solvers.request import Solve
    from tests.oracle.brute_force import Found

Time = Literal["closed", "simulated"]
#: Stages of a plan have the same dp, and recompute nothing or something; those of all
#: pipelines have the same cp.
LIMITS = Limits(
    schedules=("1f1b", "interleaved-1f1b"),
    shared=("dp",),
    recompute=(("none", "full"), ("selective",)),
    together=export.SideBySide(
        values=lambda problem: ("1", "2", "4"),
        has=lambda problem, q, strategy, value: strategy.cp == int(value),
    ),
)
#: What is searched under, in closed form; the simulated time of the first two.
SCHEDULES = (
    ScheduleVariant(schedule="1f1b"),
    ScheduleVariant(schedule="gpipe"),
    ScheduleVariant(schedule="interleaved-1f1b", chunks=2),
)
#: Less than all nodes of most problems cost.
BUDGET = 14.0
#: Times may differ by so much of themselves, as periods are rounded to ticks.
ROUNDING = 1e-6


def drawn(seed: int) -> Problem:
    """Return a problem of two small clusters with prices."""
    rng = Random(seed)
    devices = rng.sample(("A100-80GB", "A40", "H100"), 2)
    data = {
        "model": {"layers": 4, "hidden": 512, "heads": 4, "ffn": 2048, "vocab": 1000},
        "clusters": [
            {
                "name": name,
                "accelerator": accelerator,
                # Little enough that some choices have no plan.
                "memory": f"{rng.choice((0.3, 1, 40))} GB",
                "overhead": "0 GB",
                "nodes": rng.choice((1, 2)),
                "devices_per_node": rng.choice((1, 2)),
                "inter_node": {"bandwidth": f"{rng.choice((10, 100))} Gbps"},
                "price_per_hour": rng.choice((0.5, 3, 4, 12.5)),
            }
            for name, accelerator in zip(("red", "green"), devices, strict=True)
        ],
        "links": {"default": {"bandwidth": "10 Gbps", "latency": "0.1 ms"}},
        "training": {
            "global_batch": rng.choice((2, 4)),
            "seq_len": 2048,
            "precision": "fp16",
            "schedule": "1f1b",
        },
    }
    return read_problem_text(yaml.safe_dump(data))


@dataclass(frozen=True)
class Asked:
    """What is branched over, and what is minimised."""

    measure: Measure | None
    schedules: bool
    pipelines: int
    launcher: bool
    time: Time
    top: int

    @property
    def variants(self) -> tuple[ScheduleVariant, ...]:
        """The schedules to choose from."""
        if not self.schedules:
            return ()
        return SCHEDULES if self.time == "closed" else SCHEDULES[:2]

    @property
    def waits(self) -> bool:
        """Whether stages of a pipeline may wait for those of another."""
        return self.pipelines > 1 and self.time == "simulated"

    @property
    def over(self) -> Over:
        spending = None if self.measure is None else Spending(budget=BUDGET)
        together = LIMITS.together
        assert together is not None
        launcher = Launchable(
            name="toy",
            together=InCommon(
                values=together.values(drawn(0)),
                sharing=partial(sharing, LIMITS),
                is_shared=lambda problem, plan: is_shared(
                    together, parts_of(problem, plan)
                ),
            ),
            broken=partial(broken, LIMITS),
            split=partial(split, LIMITS),
            passed_over=lambda each: (
                None if each.schedule in LIMITS.schedules else "it does not run it"
            ),
        )
        return Over(
            spending=spending,
            measure=self.measure or "time",
            schedules=self.variants,
            pipelines=self.pipelines,
            launcher=launcher if self.launcher else None,
        )


class Truth:
    """All plans of a problem and of those that it is split into."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._known: dict[object, list[tuple[object, bool, dict[str, float]]]] = {}
        self._sources: dict[str, LatencySource] = {}

    def plans(
        self, problem: Problem, table: CostTable | None = None
    ) -> list[tuple[object, bool, dict[str, float]]]:
        """Return the shapes of a problem's plans.

        Of each shape, whether the launcher can run it, and its least times.
        """
        where = problem_digest(problem), None if table is None else id(problem)
        if where not in self._known:
            own = build_table(problem) if table is None else table
            least: dict[object, tuple[bool, dict[str, float]]] = {}
            for found in every_plan(problem, own, simulated=own.chunks == 1):
                shape = shape_of(problem, own, found)
                runs = can_be_run(own, found)
                _, times = least.setdefault(shape, (runs, {}))
                for name, ns in (
                    ("closed", float(found.closed_form_ns)),
                    ("simulated", found.simulated_ns),
                ):
                    if ns is not None:
                        times[name] = min(times.get(name, math.inf), ns * TICK_S)
            self._known[where] = [(shape, *each) for shape, each in least.items()]
        return self._known[where]

    def fleets(self, asked: Asked) -> Iterator[tuple[float, Problem]]:
        """Yield price and problem of every fleet that is permitted."""
        if asked.measure is None:
            yield 1.0, self.problem
            return
        clusters = self.problem.clusters
        for nodes in product(*(range(each.nodes + 1) for each in clusters)):
            there = tuple(
                replace(each, nodes=count)
                for each, count in zip(clusters, nodes, strict=True)
                if count
            )
            price = sum(each.nodes * (each.price_per_hour or 0) for each in there)
            if there and price <= BUDGET:
                yield price, replace(self.problem, clusters=there)

    def every(self, asked: Asked) -> Iterator[tuple[object, float, float]]:
        """Yield what tells plans apart, the price of a fleet, and a time there."""
        for price, fleet in self.fleets(asked):
            for variant in asked.variants or SCHEDULES[:1]:
                if asked.launcher and variant.schedule not in LIMITS.schedules:
                    continue
                for key, time_s in self.times(variant.of(fleet), asked):
                    if time_s < math.inf:
                        yield (variant, key), price, time_s

    def values(self, asked: Asked) -> list[float]:
        """Return the values of all plans, one of each shape or division, ascending."""
        found: dict[object, float] = {}
        for key, price, time_s in self.every(asked):
            value = time_s * (price if asked.measure == "cost" else 1.0)
            found[key] = min(found.get(key, math.inf), value)
        return sorted(found.values())

    def front(self, asked: Asked) -> list[tuple[float, float]]:
        """Return price and time of the plans that no other beats in both."""
        kept: list[tuple[float, float]] = []
        for price, time_s in sorted(each[1:] for each in self.every(asked)):
            if not kept or time_s < kept[-1][1] * (1 - ROUNDING):
                kept.append((price, time_s))
        return kept

    def times(self, problem: Problem, asked: Asked) -> Iterator[tuple[object, float]]:
        """Yield the times of plans on all nodes, under one schedule."""
        for shape, runs, times in self.plans(problem):
            if runs or not asked.launcher:
                yield shape, times[asked.time]
        for way in divisions(problem, asked.pipelines) if asked.pipelines > 1 else ():
            yield way, self.longest(problem, way, asked)

    def longest(self, problem: Problem, way: Any, asked: Asked) -> float:
        """Return the least time of the slower of two pipelines."""
        nodes, batch = [dict(parts) for parts in way], problem.training.global_batch
        least = math.inf
        for first, cp in product(range(1, batch), (1, 2, 4)):
            times = []
            for r, n in enumerate((first, batch - first)):
                own = [
                    each[asked.time]
                    for shape, runs, each in self._part(problem, nodes, r, n)
                    if not asked.launcher or (runs and degrees(shape) == {cp})
                ]
                times.append(min(own, default=math.inf))
            least = min(least, max(times))
        return least

    def _part(self, problem: Problem, nodes: Any, number: int, batch: int) -> Any:
        key = problem_digest(problem), str(nodes), number, batch
        if key not in self._known:
            own = part(problem, nodes, number, batch, self._source(problem))
            self._known[key] = self.plans(own.problem, own.table)
        return self._known[key]

    def _source(self, problem: Problem) -> LatencySource:
        """Return one that predicts each latency once, for all parts of a problem."""
        key = problem_digest(problem)
        if key not in self._sources:
            self._sources[key] = RememberedSource(latency_sources(problem))
        return self._sources[key]


def shape_of(problem: Problem, table: CostTable, found: Found) -> object:
    """Return what a plan has in common with those that differ in their units only."""
    _, q, order, rows, stages = found.shape
    own = table.at(q)
    return q, tuple(
        (table.cluster_names[j], own.clusters[j].strategies[k], count)
        for j, k, count in zip(order, rows, stages, strict=True)
    )


def degrees(shape: Any) -> set[int]:
    """Return the cp of a plan's stages."""
    _, runs = shape
    return {strategy.cp for _, strategy, _ in runs}


def can_be_run(table: CostTable, found: Found) -> bool:
    """Whether the launcher can run a plan."""
    _, q, order, rows, _ = found.shape
    own = table.at(q)
    used = [own.clusters[j].strategies[k] for j, k in zip(order, rows, strict=True)]
    policies = {each.recompute for each in used}
    return len({each.dp for each in used}) == 1 and any(
        policies <= set(together) for together in LIMITS.recompute
    )


@cache
def truth_of(seed: int) -> Truth:
    return Truth(drawn(seed))


def searched(
    problem: Problem,
    asked: Asked,
    cutoff_s: float | None = None,
    *,
    solve: Solve | None = None,
    **params: Any,
) -> TreeSearch:
    return TreeSearch(
        Request(
            problem=problem,
            table=build_table(problem),
            params=RaceParams(**{"jobs": 1, "top": asked.top, **params}),
            cutoff_s=cutoff_s,
        ),
        solve or solve_for("dp", asked.time),
        asked.over,
        solver="dp",
        objective=asked.time,
    )
