"""Toy problems for the tree of a search: every plan has a drawn time.

A toy has one or two clusters of single devices. A plan uses some nodes of each cluster;
on each it has a *kind*, which a launcher wants to be the same on all, and some
launchers in all pipelines. The same plan takes equally long whatever nodes are rented
beside its own; a pipeline of several may take the longer, the more devices its whole
division has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import product
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.base.deadline import Deadline
from hetopt.errors import InputError
from hetopt.plans.plan import Pipeline, Plan, Stage
from hetopt.results.priced_plan import PricedPlan
from hetopt.results.result import Result
from hetopt.results.settlement import Settlement
from hetopt.results.spending import Spending
from hetopt.solvers.search.branchings import divisions, fleets, together
from hetopt.solvers.search.branchings.divisions import Divisions
from hetopt.solvers.search.branchings.fleets import Fleets
from hetopt.solvers.search.branchings.runnable import (
    STRATEGIES,
    InCommon,
    Launchable,
    Runnable,
)
from hetopt.solvers.search.branchings.schedules import Schedules, ScheduleVariant
from hetopt.solvers.search.node import Leaf

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest
    from numpy.typing import NDArray

    from hetopt.solvers.search.node import Node

NAMES = ("red", "blue")
#: How a leaf's search may end: with all settled; given up with a gap; with all settled
#: by bounds that leave a gap; after a slice of its time; refused by the solver.
MOODS = ("exact", "open", "rough", "slices", "refused")
TOKENS = 100


@dataclass(frozen=True)
class Table:
    """What the nodes take from a table: how much work there is, and which kinds."""

    batch: int
    schedule: Any
    kinds: frozenset[int]
    chunks: int = 1
    layout: None = None
    warmup_epsilon: None = None
    problem_digest: str = ""


@dataclass(frozen=True)
class Cluster:
    """Nodes of one device each."""

    name: str
    nodes: int
    price_per_hour: float
    devices_per_node: int = 1

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        return ((1, self.nodes),)


@dataclass(frozen=True)
class Problem:
    """What the nodes take from a problem."""

    clusters: tuple[Cluster, ...]
    batch: int
    toy: Any = field(compare=False)

    @property
    def links(self) -> Any:
        return SimpleNamespace(between=lambda *pair: 0)

    @property
    def training(self) -> Any:
        return SimpleNamespace(
            global_batch=self.batch, chunks=1, lengths=None, tokens=TOKENS
        )


@dataclass(frozen=True, eq=False)
class Space:
    """A stand-in for ``hetopt.solvers.search.space.Space``.

    Attributes
    ----------
    shared
        Devices of all pipelines, if it is the problem of one of several.
    """

    problem: Problem
    table: Table
    nodes: tuple[int, ...] | None = None
    shared: int | None = None
    all_nodes: Space | None = None

    @property
    def whole(self) -> Space:
        return self.all_nodes or self

    @property
    def counts(self) -> NDArray[np.int64]:
        """Nodes of each cluster."""
        own = tuple(each.nodes for each in self.problem.clusters)
        return np.array(self.nodes or own)

    @property
    def there(self) -> dict[str, int]:
        """Nodes by cluster, of those that have any."""
        names = (each.name for each in self.problem.clusters)
        nodes = zip(names, self.counts.tolist(), strict=True)
        return {name: count for name, count in nodes if count}

    @property
    def units(self) -> int:
        return 1

    @property
    def devices(self) -> Any:
        """Stand in for ``hetopt.solvers.search.devices.Devices``."""
        seconds = np.ones((len(self.problem.clusters), 1))
        return SimpleNamespace(source=None, seconds=seconds)

    def least_s(self, nodes: Any, *, divided: bool) -> Any:
        with np.errstate(divide="ignore"):
            return self.table.batch / nodes.sum(axis=1)

    @property
    def own(self) -> Problem:
        there = tuple(
            replace(each, nodes=self.there[each.name])
            for each in self.problem.clusters
            if self.there.get(each.name)
        )
        return replace(self.problem, clusters=there)

    def reported(self, priced: PricedPlan) -> PricedPlan:
        return priced

    def rented(self, nodes: Sequence[int]) -> Space:
        return replace(self, nodes=tuple(nodes), all_nodes=self)

    def narrowed(self, problem: Problem, table: Table) -> Space:
        return replace(self, problem=problem, table=table, all_nodes=self.whole)

    def part(self, way: Sequence[Any], number: int, batch: int, source: None) -> Space:
        clusters = tuple(
            replace(each, nodes=len(way[number][each.name]))
            for each in self.own.clusters
            if way[number].get(each.name)
        )
        return Space(
            problem=replace(self.problem, clusters=clusters, batch=batch),
            table=replace(self.table, batch=batch),
            shared=sum(len(own) for nodes in way for own in nodes.values()),
        )


@dataclass(frozen=True)
class OnePlan:
    """A plan of one pipeline."""

    time_s: float
    used: tuple[tuple[str, int, int], ...]
    number: int
    schedule: Any

    @property
    def is_runnable(self) -> bool:
        return len({kind for _, _, kind in self.used}) == 1

    def priced(self) -> PricedPlan:
        stages = tuple(
            Stage(
                cluster=name,
                first_unit=0,
                end_unit=1,
                strategy=(nodes, kind),  # type: ignore[arg-type]
                warmup=1,
            )
            for name, nodes, kind in self.used
        )
        plan = Plan(
            schedule=self.schedule,
            pipelines=(Pipeline(microbatches=self.number, stages=stages),),
            problem_digest="",
            table_digest="",
        )
        return PricedPlan(
            plan=plan, closed_form_s=self.time_s, iteration_time_s=self.time_s
        )


@dataclass
class Toy:
    """A drawn problem, what is asked of it, and its tree."""

    seed: int
    objective: Any = "closed"
    #: Time of every plan of one pipeline by its number.
    times: list[float] = field(default_factory=list)
    searches: int = 0

    def __post_init__(self) -> None:
        self.random = rng = Random(self.seed)
        clusters = rng.choice((1, 2, 2))
        self.problem = Problem(
            tuple(
                Cluster(name, rng.randint(1, 3), rng.choice((0, 0.5, 3, 5)))
                for name in NAMES[:clusters]
            ),
            rng.randint(2, 5),
            self,
        )
        self.kinds = frozenset(range(rng.randint(1, 3)))
        self.measure: Any = rng.choice((None, "time", "cost", "front"))
        budget = rng.choice((None, None, 4, 8))
        slowest = rng.choice((None, None, 20)) if self.measure == "cost" else None
        self.spending = Spending(budget=budget, min_tokens_per_s=slowest)
        self.schedules = [
            ScheduleVariant(schedule=name)  # type: ignore[arg-type]
            for name in ("1f1b", "gpipe", "zb-h1")[: rng.choice((0, 0, 2, 3))]
        ]
        self.most = rng.choice((1, 1, 2, 2, 3))
        self.launcher = rng.random() < 0.4
        self.top = 1 if self.measure == "front" else rng.choice((1, 3))
        self.mood = rng.choice(("exact", "exact", "exact", *MOODS[1:]))
        if rng.random() < 0.2:
            self.objective = "simulated"
        self.proves = rng.random() < 0.95
        self.stop_after = rng.randint(1, 8) if rng.random() < 0.2 else None
        #: Only plans that take less are of interest.
        self.cutoff = math.inf
        if self.measure in (None, "time") and rng.random() < 0.2:
            self.cutoff = rng.choice((1.0, 2.0, 3.0, 5.0))
        self.waits = rng.choice((0.0, 0.3))
        #: Whether all pipelines have to have one kind.
        self.alike = self.launcher and rng.random() < 0.5
        self._plans: dict[object, list[OnePlan]] = {}
        self._waited: dict[int, int] = {}
        #: What the searches of each leaf have proven.
        self.proven: dict[Leaf, float] = {}
        self._drawn: dict[object, OnePlan] = {}

    @property
    def is_exact(self) -> bool:
        """Whether the search ends with the best plan and its proof."""
        joins = self.objective == "simulated" and self.most > 1
        ends = self.stop_after is None and self.mood in ("exact", "slices")
        alone = self.mood == "slices" and not self.branches
        return ends and self.proves and not (joins or alone)

    @property
    def branches(self) -> bool:
        """Whether the tree is more than a leaf."""
        return bool(self.measure or self.schedules or self.most > 1 or self.launcher)

    @property
    def deadline(self) -> Deadline:
        limited = self.mood == "slices" or (self.mood == "open" and self.seed % 2)
        return Deadline.after(1000.0 if limited else None)

    # ------------------------------------------------------------------ plans

    def plans(self, space: Space) -> list[OnePlan]:
        """Return every plan of one pipeline, best first."""
        table = space.table
        counts = tuple(sorted(space.there.items()))
        key = counts, table.batch, table.schedule, table.kinds, space.shared
        if key not in self._plans:
            options = [
                [(0, 0), *product(range(1, most + 1), sorted(table.kinds))]
                for _, most in counts
            ]
            found = [
                self._plan(used, space)
                for choice in product(*options)
                if (
                    used := tuple(
                        (name, *own)
                        for (name, _), own in zip(counts, choice, strict=True)
                        if own[0]
                    )
                )
            ]
            known = [each for each in found if each.time_s < np.inf]
            self._plans[key] = sorted(known, key=lambda each: each.time_s)
        return self._plans[key]

    def _plan(self, used: tuple[tuple[str, int, int], ...], space: Space) -> OnePlan:
        table = space.table
        plan = used, table.batch, table.schedule
        key = plan, space.shared
        if key not in self._drawn:
            rng = Random(f"{self.seed} {plan}")
            power = sum(nodes for _, nodes, _ in used)
            # Few different times, so that some are equal.
            time_s = table.batch / power * rng.choice((1, 1.5, 2, 2.5, 3, 4, 5))
            if space.shared is not None:
                time_s *= 1 + self.waits * space.shared
            nodes = [own[:2] for own in used]
            if rng.random() < 0.1 or Random(f"{self.seed} {nodes}").random() < 0.25:
                time_s = np.inf
            self.times.append(time_s)
            own = OnePlan(time_s, used, len(self.times), table.schedule)
            self._drawn[key] = own
        return self._drawn[key]

    # ----------------------------------------------------------------- the tree

    def space(self) -> Space:
        table = Table(self.problem.batch, "1f1b", self.kinds)
        return Space(self.problem, table)

    def root(self) -> Node:
        space = self.space()
        if self.measure is None:
            return self._scheduled(space)
        return Fleets(
            space,  # type: ignore[arg-type]
            self._scheduled,
            self.spending,
            self.measure,
            top=self.top,
            divided=self.most > 1,
        )

    def under(self, space: Space, variant: ScheduleVariant) -> Space:
        table = replace(space.table, schedule=variant.schedule)
        return replace(space, table=table, all_nodes=None)

    def _scheduled(self, space: Any) -> Node:
        if not self.schedules:
            return self._divided(space)
        known: Any = {each: self.under(self.space(), each) for each in self.schedules}
        # One of them cannot be had.
        given = ScheduleVariant(schedule="eager-1f1b")
        return Schedules(
            space,
            self._divided,
            [*self.schedules, given],
            known,
            {given: "none"},
            top=self.top,
        )

    def _divided(self, space: Any) -> Node:
        if self.most == 1:
            return self._one(space, self.top)
        return Divisions(
            space,
            self._one,
            self.most,
            self.objective,
            cuts=True,
            top=self.top,
            together=IN_COMMON if self.alike else None,
        )

    def _one(self, space: Any, top: int) -> Node:
        if not self.launcher:
            return self._leaf(space, 0.0, top)
        return Runnable(
            space,
            lambda own, least: self._leaf(own, least, top),
            LAUNCHER,
            top=top,
            rule=STRATEGIES,
            quick=self.mood == "slices",
        )

    def _leaf(self, space: Any, least: float, top: int) -> Leaf:
        return Leaf(space, self._solve, least, top=top, proves=self.proves)

    # --------------------------------------------------------------- a search

    def _mood(self, leaf: Leaf, deadline: Deadline) -> str:
        if self.mood != "slices":
            return "exact" if self.random.random() < 0.5 else self.mood
        if not self._waited.setdefault(id(leaf), self.random.randint(0, 3)):
            return "exact"
        self._waited[id(leaf)] -= 1
        if deadline.limit_s:
            # It took all of its time.
            object.__setattr__(deadline, "began", deadline.began - deadline.limit_s)
        return "open"

    @property
    def _share(self) -> float:
        return self.random.uniform(0.5, 1)

    def _solve(self, leaf: Leaf, cutoff: float, deadline: Deadline) -> Result:
        """Search a toy problem, as far as the mood of the toy has it."""
        self.searches += 1
        assert isinstance(leaf.space, Space)
        plans = self.plans(leaf.space)
        within = [each for each in plans if each.time_s <= cutoff]
        bound = min([cutoff, *(each.time_s for each in plans[:1])])
        mood = self._mood(leaf, deadline)
        if mood == "rough" and not within:
            mood = "exact"
        if mood == "refused":
            raise InputError("the solver cannot search it")
        settled = mood in ("exact", "rough")
        if mood != "exact":
            bound = (0.0 if np.isinf(bound) else bound) * self._share
            within = within[self.random.randint(0, len(within) - settled) :]
        best = [each.priced() for each in within[: leaf.top]]
        status: Any = "feasible" if best else "unknown"
        if settled and not plans:
            status = "infeasible"
        proven = bound
        if settled and not best:
            proven = math.nextafter(cutoff, math.inf) if plans else math.inf
        self.proven[leaf] = max(self.proven.get(leaf, 0.0), proven)
        value = best[0].closed_form_s if best else None
        if value is not None:
            bound = min(bound, value)
        return Result(
            status=status,
            objective=self.objective,
            solver="toy",
            best=best[0] if best else None,
            alternatives=tuple(best[1:]),
            lower_bound_s=None if not self.proves or np.isinf(bound) else bound,
            gap=None if not value else (value - bound) / value,
            search_time_s=0.0,
            settlements=(
                Settlement(
                    stages=1,
                    microbatches=1,
                    how="solved" if settled else "unsettled",
                    bound_s=None if np.isinf(bound) else bound,
                ),
            ),
            tokens_per_s=None,
            mfu=None,
            mfu_used=None,
            table_kinds={},
            interrupted=self.searches == self.stop_after,
        )


def permitted(space: Space) -> list[Table]:
    """Return tables that together hold every plan that the launcher can run."""
    return _tables(space.table)


def _tables(table: Table) -> list[Table]:
    if table.batch == 1:
        return []
    if len(table.kinds) < 3:
        return [table]
    ends = min(table.kinds), max(table.kinds)
    return [replace(table, kinds=table.kinds - {end}) for end in ends]


def _kinds(plan: Plan) -> list[int]:
    """Return the kinds that a plan has, ascending."""
    stages = (stage for own in plan.pipelines for stage in own.stages)
    return sorted({stage.strategy[1] for stage in stages})  # type: ignore[index]


def _broken(problem: Any, plan: Plan) -> str | None:
    """Return two kinds that a plan has."""
    kinds = _kinds(plan)
    return None if len(kinds) == 1 else " ".join(map(str, kinds[:2]))


def _split(problem: Any, table: Any, rule: str) -> list[tuple[Any, Any]]:
    """Return spaces without one of two kinds each."""
    if rule == STRATEGIES:
        return [(problem, each) for each in _tables(table)]
    kinds = map(int, rule.split())
    return [(problem, replace(table, kinds=table.kinds - {kind})) for kind in kinds]


def _sharing(problem: Any, table: Any, value: str) -> tuple[Any, Any]:
    return problem, replace(table, kinds=table.kinds & {int(value)})


def _is_shared(problem: Any, plan: Plan) -> bool:
    return len(_kinds(plan)) == 1


IN_COMMON = InCommon(values=("0", "1", "2"), sharing=_sharing, is_shared=_is_shared)
LAUNCHER = Launchable(
    name="toy", broken=_broken, split=_split, passed_over=lambda variant: None
)


def rented_nodes(problem: Any, plan: Plan) -> dict[str, int]:
    """Stand in for ``hetopt.results.money.rented_nodes``."""
    used: dict[str, int] = {}
    for stage in (each for pipeline in plan.pipelines for each in pipeline.stages):
        used[stage.cluster] = used.get(stage.cluster, 0) + stage.strategy[0]  # type: ignore[index]
    return used


def use_toys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the nodes take from toys what they take from a problem's costs."""
    monkeypatch.setattr(fleets, "rented_nodes", rented_nodes)
    monkeypatch.setattr(divisions, "depends_on", depends_on)
    monkeypatch.setattr(together, "table_digest", lambda table: "")
    monkeypatch.setattr(together, "price_several", price_several)


def price_several(problem: Problem, plan: Plan) -> Any:
    """Stand in for ``hetopt.pricing.several.price_several``."""
    toy: Toy = problem.toy
    numbers = [each.microbatches for each in plan.pipelines]
    longest = max(toy.times[number - 1] for number in numbers)
    wait = Random(f"{toy.seed} {numbers}").choice((1.0, 1.1, 1.3))
    return SimpleNamespace(closed_form_s=longest, iteration_time_s=longest * wait)


def depends_on(problem: Problem, way: Sequence[Any], number: int) -> object:
    """Stand in for ``hetopt.cost.divided.depends_on``."""
    devices = sum(len(own) for nodes in way for own in nodes.values())
    return devices, tuple(sorted(way[number].items()))
