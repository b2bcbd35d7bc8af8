"""The data of the papers' figures: runs of our solvers, stored as JSON.

A *campaign* is a list of runs that one or two figures are drawn from. Every run has a
process of its own; they run one after the other (``hetopt.planning.side_by_side``).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from hetopt.base.machine import machine
from hetopt.planning.side_by_side import EVERY_CLUSTER, Entry, run_apart, warm_up
from hetopt.problem.catalogue import problem_files
from hetopt.problem.cluster.links import ClusterLink, ClusterLinks
from hetopt.problem.reading import read_problem
from hetopt.problem.training.pins import ClusterPins, Domain, Pins
from hetopt.solvers.registry import SOLVERS
from hetopt.whatif.mixing import alone_problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import ScheduleName

EXPERIMENTS = tuple(f"hetauto-exp{number}" for number in (1, 2, 3))
LONG = "hetauto-exp2-32k"
H2 = (
    *(f"h2-exp-{letter}-{number}" for letter in "abc" for number in (1, 2)),
    "h2-exp-d",
)
#: HetAuto, section 7.7.
WEIGHTS = (0.1, 1.0, 10.0, 25.0, 100.0)
BASELINES = ("uniform", "amp", "metis")
#: HetAuto, section 2.3: between clusters, as measured with iperf3.
_BETWEEN = ClusterLinks(
    default=ClusterLink(latency_s=1e-3, node_bytes_per_s=10.2e9 / 8, staged="host")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """One run, as plain data: times in seconds.

    Attributes
    ----------
    setting
        The problem, and the changes made to it.
    limit_s
        None if the search had no limit.
    layout
        Clusters along the pipeline, with their numbers of stages and (d, c, t).
    trace
        When each better plan was found, and its closed form.
    """

    setting: str
    solver: str
    every_cluster: bool = False
    seed: int | None
    exploration: float | None
    limit_s: float | None
    status: str
    closed_form_s: float | None
    iteration_time_s: float | None
    tokens: int
    devices: int
    lower_bound_s: float | None
    search_time_s: float | None
    process_time_s: float
    layout: str
    trace: tuple[tuple[float, float], ...]
    failure: str | None

    @property
    def label(self) -> str:
        """The solver's name, and whether its plans use every cluster."""
        return self.solver + (EVERY_CLUSTER if self.every_cluster else "")

    @property
    def tokens_per_s(self) -> float | None:
        """Throughput by the simulated time."""
        if self.iteration_time_s is None:
            return None
        return self.tokens / self.iteration_time_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """Runs, and the machine that they ran on."""

    name: str
    machine: str
    limit_s: float
    shots: tuple[Shot, ...]

    def to_text(self) -> str:
        """Return JSON."""
        return json.dumps(asdict(self), indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_text(cls, text: str) -> Campaign:
        """Read what ``to_text`` wrote."""
        data: dict[str, Any] = json.loads(text)
        shots = [
            Shot(**{**shot, "trace": tuple((t, v) for t, v in shot["trace"])})
            for shot in data.pop("shots")
        ]
        return cls(**data, shots=tuple(shots))

    def of(
        self, setting: str, solver: str, *, every_cluster: bool = False
    ) -> Shot | None:
        """Return the first run of a solver in a setting, of one variant."""
        wanted = (setting, solver, every_cluster)
        for shot in self.shots:
            if (shot.setting, shot.solver, shot.every_cluster) == wanted:
                return shot
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A run to be made.

    Attributes
    ----------
    rivals
        Settings whose best plan it starts from.
    """

    setting: str
    problem: Problem
    entry: Entry
    rivals: tuple[str, ...] = ()


def campaign(name: str, *, limit_s: float, seeds: int) -> Campaign:
    """Run a campaign by name; print its progress."""
    orders = list(CAMPAIGNS[name](limit_s, seeds))
    # Searches of a wider space are compiled separately.
    kinds = {
        (
            order.entry.solver,
            order.entry.asked,
            order.problem.training.schedule,
        ): order.entry
        for order in orders
    }
    for (solver, _, schedule), entry in kinds.items():
        spent_s = warm_up(entry, schedule)
        print(f"{name}: {solver} is compiled, {spent_s:.1f} s", flush=True)
    shots: list[Shot] = []
    for order in orders:
        known = [
            shot.closed_form_s
            for shot in shots
            if shot.setting in order.rivals and shot.closed_form_s is not None
        ]
        cutoff_s = min(known) * (1 + 1e-9) if known else None
        entry = replace(order.entry, cutoff_s=cutoff_s)
        shot = shoot(replace(order, entry=entry))
        shots.append(shot)
        print(
            f"{name}: {shot.setting}, {shot.label}: {shot.status} "
            f"{shot.closed_form_s or shot.failure} ({shot.process_time_s:.1f} s)",
            flush=True,
        )
    return Campaign(name=name, machine=machine(), limit_s=limit_s, shots=tuple(shots))


def shoot(order: Order) -> Shot:
    """Run one order."""
    problem, entry = order.problem, order.entry
    run = run_apart(problem, entry)
    return Shot(
        setting=order.setting,
        solver=entry.solver,
        every_cluster=entry.every_cluster,
        seed=entry.seed,
        exploration=entry.exploration,
        limit_s=entry.time_limit_s,
        status=run.outcome,
        closed_form_s=run.closed_form_s,
        iteration_time_s=run.iteration_time_s,
        tokens=problem.training.global_batch * problem.training.seq_len,
        devices=sum(cluster.devices for cluster in problem.clusters),
        lower_bound_s=run.lower_bound_s,
        search_time_s=run.search_time_s,
        process_time_s=run.process_time_s,
        layout=layout(run.plan) if run.plan else "",
        trace=tuple((each.elapsed_s, each.closed_form_s) for each in run.trace),
        failure=run.failure,
    )


def layout(plan: Plan) -> str:
    """Return clusters, stages and degrees along the pipeline, and p and q."""
    stages = plan.pipeline.stages
    parts = []
    for (cluster, own), group in groupby(
        stages, key=lambda stage: (stage.cluster, stage.strategy)
    ):
        count = len(list(group))
        parts.append(f"{cluster} {count}x({own.dp},{own.cp},{own.tp})")
    return f"p={len(stages)} q={plan.pipeline.microbatches}: {' '.join(parts)}"


def _entry(
    solver: str,
    limit_s: float | None,
    *,
    seed: int | None = None,
    exploration: float | None = None,
) -> Entry:
    return Entry(
        solver=solver,
        seed=seed,
        principles=SOLVERS[solver].space,
        time_limit_s=limit_s,
        exploration=exploration,
    )


def _read(name: str) -> Problem:
    return read_problem(str(problem_files()[name]))


def _experiments(limit_s: float, seeds: int) -> Iterator[Order]:
    """Yield HetAuto's experiments with all rivals, tree search and the proof."""
    for name in EXPERIMENTS:
        problem = _read(name)
        for solver in (*BASELINES, "mcts", "mcts-guided", "dp"):
            seed = 0 if solver.startswith("mcts") else None
            # A proof takes seconds; without a limit dp starts no workers.
            limit = None if solver == "dp" else limit_s
            entry = _entry(solver, limit, seed=seed)
            yield Order(setting=name, problem=problem, entry=entry)
            if SOLVERS[solver].every_cluster or solver == "dp":
                every = replace(entry, every_cluster=True)
                yield Order(setting=name, problem=problem, entry=every)
        yield Order(
            setting=f"{name}, c = 1",
            problem=without_context(problem),
            entry=_entry("dp", None),
        )


def _long(limit_s: float, seeds: int) -> Iterator[Order]:
    """Yield HetAuto's exp2 on long sequences, with c free and with c = 1."""
    problem = _read(LONG)
    without = without_context(problem)
    for solver in BASELINES:
        entry = _entry(solver, limit_s)
        yield Order(setting="c free", problem=problem, entry=entry)
        if SOLVERS[solver].every_cluster:
            every = replace(entry, every_cluster=True)
            yield Order(setting="c free", problem=problem, entry=every)
    for setting, each in (("c free", problem), ("c = 1", without)):
        yield Order(
            setting=setting, problem=each, entry=_entry("mcts", limit_s, seed=0)
        )
        yield Order(setting=setting, problem=each, entry=_entry("dp", None))


def without_context(problem: Problem) -> Problem:
    """Return a problem whose only pin is c = 1."""
    one = ClusterPins(cp=Domain(allowed=frozenset({1})))
    pins = Pins(clusters={cluster.name: one for cluster in problem.clusters})
    return replace(problem, pins=pins)


def _weights(limit_s: float, seeds: int) -> Iterator[Order]:
    """Yield tree search on HetAuto's exp2 under several exploration weights."""
    problem = _read("hetauto-exp2")
    for weight in WEIGHTS:
        for seed in range(seeds):
            entry = _entry("mcts", limit_s, seed=seed, exploration=weight)
            yield Order(setting="hetauto-exp2", problem=problem, entry=entry)
    yield Order(setting="hetauto-exp2", problem=problem, entry=_entry("dp", None))


def _scattered(limit_s: float, seeds: int) -> Iterator[Order]:
    """Yield 32 A100 in one, two and four clusters, with the published strategy."""
    base = _read("hetauto-table1-a100")
    for schedule in ("1f1b", "virtual-1f1b"):
        for count in (1, 2, 4):
            yield Order(
                setting=f"{count} clusters, {schedule}",
                problem=scattered(base, count, schedule),
                entry=_entry("dp", None),
            )


def scattered(base: Problem, count: int, schedule: ScheduleName) -> Problem:
    """Return the published strategy on four nodes in ``count`` clusters.

    (p, d, c, t) = (4, 2, 2, 2) is published: a node per stage. We assume one sequence
    per micro-batch (the size Table 1 gives for A100), six layers per stage, and free
    recomputation.
    """
    nodes, stages = 4, 4
    own = ClusterPins(
        dp=Domain(allowed=frozenset({2})),
        cp=Domain(allowed=frozenset({2})),
        tp=Domain(allowed=frozenset({2})),
    )
    clusters = tuple(
        replace(base.clusters[0], name=f"a100-{index}", nodes=nodes // count)
        for index in range(count)
    )
    each = base.model.layers // stages
    return replace(
        base,
        name=f"hetauto-fig1-{count}",
        clusters=clusters,
        links=_BETWEEN,
        training=replace(base.training, schedule=schedule, recompute={}),
        pins=Pins(
            stages=Domain(allowed=frozenset({stages})),
            microbatches=Domain(allowed=frozenset({base.training.global_batch // 2})),
            order=tuple(cluster.name for cluster in clusters),
            units=(each + 1, each, each, each + 1),
            clusters={cluster.name: own for cluster in clusters},
        ),
        latency={},
    )


def _h2(limit_s: float, seeds: int) -> Iterator[Order]:
    """Yield H2's experiments with its own search and the proof, and its chips alone.

    H2 has no context parallelism: its space is that of c = 1.
    """
    for name in H2:
        problem = _read(name)
        one, setting = without_context(problem), f"{name}, c = 1"
        yield Order(setting=setting, problem=one, entry=_entry("dfs", limit_s))
        yield Order(setting=setting, problem=one, entry=_entry("dp", None))
        space = SOLVERS["dfs"].space
        yield Order(
            setting=f"{name}, wider",
            problem=one,
            entry=replace(_entry("dp", limit_s), principles=space, asked=space),
            rivals=(setting,),
        )
        yield Order(
            setting=f"{name}, c free", problem=problem, entry=_entry("dp", None)
        )
    # Table 6: 256 chips of each kind, 2M tokens.
    four = _read("h2-exp-b-1")
    for cluster in four.clusters:
        name = cluster.name
        alone = replace(alone_problem(four, cluster), name=f"{four.name}-{name}")
        for rule, problem in (("c = 1", without_context(alone)), ("c free", alone)):
            entry = _entry("dp", None)
            yield Order(setting=f"{name}, {rule}", problem=problem, entry=entry)


CAMPAIGNS = {
    "hetauto-experiments": _experiments,
    "hetauto-32k": _long,
    "hetauto-weights": _weights,
    "hetauto-scattered": _scattered,
    "h2": _h2,
}
