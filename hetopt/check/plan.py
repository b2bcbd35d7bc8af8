"""Check one plan against its problem and latency table."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from hetopt.check.rules import mesh_findings, pin_findings, table_findings
from hetopt.check.schedules import STEPS
from hetopt.check.times import Times, closed_form, simulate, warmups
from hetopt.check.units import PricedUnits, unit_findings
from hetopt.cost.table import LONGEST_NS, LONGEST_S, TICK_S
from hetopt.cost.table_file import table_digest
from hetopt.errors import CheckError, DigestError
from hetopt.problem.digest import problem_digest
from hetopt.problem.principles import PRUNED
from hetopt.problem.training import RESHARDING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.cost.table import ClusterTable, CostTable, TableSlice
    from hetopt.plans import Pipeline, Plan, Stage, Strategy
    from hetopt.problem.principles import Principles
    from hetopt.problem.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedPlan:
    """What a plan that holds costs.

    Attributes
    ----------
    closed_form_s, iteration_time_s
        Both times of MODEL.md section 4, in seconds.
    memory_bytes
        Needed on each device of every stage.
    uniap_s
        UniAP's objective, in seconds; None where stages have one strategy.
    """

    closed_form_s: float
    iteration_time_s: float
    memory_bytes: tuple[int, ...]
    uniap_s: float | None = None


def check_plan(
    problem: Problem,
    table: CostTable,
    plan: Plan,
    principles: Principles = PRUNED,
) -> CheckedPlan:
    """Derive a plan's feasibility, memory and times again.

    Parameters
    ----------
    principles
        What the plan has to keep; all of them unless its result says otherwise.

    Raises
    ------
    DigestError
        The plan was made from another problem or table.
    CheckError
        The plan breaks a rule; its findings name all of them.
    """
    check_digests(problem, table, plan)
    findings = list(table_findings(problem, table))
    if plan.schedule != problem.training.schedule:
        findings.append(
            f"schedule: {plan.schedule}, the problem says {problem.training.schedule}"
        )
    if len(plan.pipelines) != 1:
        findings.append(f"pipelines: {len(plan.pipelines)}, expected one")
    if findings:
        raise CheckError(findings)
    pipeline = plan.pipelines[0]
    findings += _unit_findings(table, pipeline.stages)
    findings += _pipeline_pin_findings(problem, pipeline)
    # costs are defined where stages and boundaries are
    sound = _units_in_order(table, pipeline.stages)
    priced: _Priced | PricedUnits | None = None
    if plan.per_unit:
        missing = list(unit_findings(problem, table, pipeline))
        findings += missing
        if sound and not missing:
            priced = PricedUnits(problem, table, pipeline)
    else:
        findings += _cluster_findings(problem, pipeline, principles)
        rows, missing = _rows(problem, table, pipeline)
        findings += missing
        if sound and not missing:
            priced = _Priced(problem, table, pipeline, rows)
    if priced is not None:
        findings += priced.findings()
    if findings or priced is None:
        raise CheckError(findings)
    closed = closed_form(priced.times, priced.warmups)
    simulated = simulate(priced.times, priced.warmups)
    quicker = min(closed, Fraction(simulated))
    if quicker > LONGEST_NS:
        # what is longer stands in the table as just too long: no price is right
        raise CheckError(
            [
                f"time: an iteration takes {float(quicker * _TICK):g} s "
                f"or more, a plan may take at most {LONGEST_S} s"
            ]
        )
    return CheckedPlan(
        closed_form_s=float(closed * _TICK),
        iteration_time_s=float(simulated * _TICK),
        memory_bytes=priced.memory_bytes,
        uniap_s=float(priced.uniap_ns * _TICK)
        if isinstance(priced, PricedUnits)
        else None,
    )


def stage_times(problem: Problem, table: CostTable, pipeline: Pipeline) -> Times:
    """Return the times of a pipeline that takes its rows and units from the table."""
    rows, _ = _rows(problem, table, pipeline)
    return _Priced(problem, table, pipeline, rows).times


#: The tick as the decimal number it is written as.
_TICK = Fraction(str(TICK_S))


def check_digests(problem: Problem, table: CostTable, plan: Plan) -> None:
    """Raise DigestError unless the plan was made from this problem and table."""
    for what, found, expected in (
        ("problem", plan.problem_digest, problem_digest(problem)),
        ("table", plan.table_digest, table_digest(table)),
    ):
        if found != expected:
            msg = (
                f"the plan was made from another {what} ({found[:12]}..., expected "
                f"{expected[:12]}...): name the {what} it was made from, or plan again"
            )
            raise DigestError(msg, field=f"{what}_digest")


# --- structure ----------------------------------------------------------------------


def _unit_findings(table: CostTable, stages: Sequence[Stage]) -> Iterator[str]:
    """Every unit once and in order, and a body unit in every stage."""
    if not stages:
        yield "stages: none, expected at least one"
    reached = 0
    for i, stage in enumerate(stages):
        first, end = stage.first_unit, stage.end_unit
        if first > reached:
            yield f"stage {i}: starts at unit {first}, unit {reached} is left out"
        elif first < reached:
            yield f"stage {i}: starts at unit {first}, which stage {i - 1} holds too"
        if end <= first:
            yield f"stage {i}: units {first} to {end} are none"
        # UniAP's rule (7b) asks for any unit
        elif stage.unit_strategies is None and not any(
            table.body[kind] for kind in table.units[max(first, 0) : end]
        ):
            yield f"stage {i}: units {first} to {end} hold no transformer layer"
        reached = end
    if stages and reached != len(table.units):
        yield f"units: the last stage ends at {reached}, expected {len(table.units)}"


def _units_in_order(table: CostTable, stages: Sequence[Stage]) -> bool:
    ends = [0, *(stage.end_unit for stage in stages)]
    starts = [*(stage.first_unit for stage in stages), len(table.units)]
    return bool(stages) and ends == starts and all(stage.units > 0 for stage in stages)


def _cluster_findings(
    problem: Problem, pipeline: Pipeline, principles: Principles
) -> Iterator[str]:
    """P3, P4, mesh rules and capacity of every cluster; unknown names."""
    known = {cluster.name: cluster for cluster in problem.clusters}
    runs = [
        (name, [i for i, _ in group])
        for name, group in groupby(
            enumerate(pipeline.stages), key=lambda item: item[1].cluster
        )
    ]
    for name in dict.fromkeys(name for name, _ in runs):
        if name not in known:
            yield f"cluster {name!r}: unknown, expected one of {', '.join(known)}"
            continue
        own = [stages for other, stages in runs if other == name]
        if len(own) > 1 and principles.consecutive:
            places = " and ".join(str(i) for stages in own for i in stages)
            yield f"cluster {name!r}: stages {places} are not consecutive (P3)"
        strategies: list[Strategy] = []
        devices = 0
        for stage in pipeline.stages:
            if stage.cluster == name:
                devices += stage.strategy.devices
                if stage.strategy not in strategies:
                    strategies.append(stage.strategy)
        if len(strategies) > 1 and principles.sharing == "one":
            listed = " and ".join(map(str, strategies))
            yield f"cluster {name!r}: strategies {listed}, expected one (P4)"
        if principles.sharing == "falling-tp":
            yield from _rising_tp_findings(name, pipeline.stages)
        if devices > known[name].devices:
            yield (
                f"cluster {name!r}: stages take {devices} devices, it has "
                f"{known[name].devices}"
            )
        for strategy in strategies:
            yield from mesh_findings(
                problem, known[name], strategy, pipeline.microbatches
            )


def _rising_tp_findings(name: str, stages: Sequence[Stage]) -> Iterator[str]:
    """H2 section 4.3.3: tp never rises along a cluster's stages."""
    own = [(i, stage) for i, stage in enumerate(stages) if stage.cluster == name]
    for (i, before), (k, after) in pairwise(own):
        tp = after.strategy.tp
        if tp > before.strategy.tp:
            yield (
                f"cluster {name!r}: tp rises from {before.strategy.tp} on stage {i} to "
                f"{tp} on stage {k} (p4-falling-tp)"
            )


def _pipeline_pin_findings(problem: Problem, pipeline: Pipeline) -> Iterator[str]:
    """Yield the pins of pipeline, order, units and use of clusters that are broken."""
    pins = problem.pins
    stages = pipeline.stages
    batch = problem.training.global_batch
    q = pipeline.microbatches
    if q < 1 or batch % q:
        yield f"microbatches: {q} does not divide the global batch {batch}"
    yield from pin_findings("microbatches", pins.microbatches, q)
    yield from pin_findings("stages", pins.stages, len(stages))
    order = tuple(name for name, _ in groupby(stage.cluster for stage in stages))
    if pins.order is not None and order != pins.order:
        yield f"pin order: {', '.join(order)}, expected {', '.join(pins.order)}"
    for first, second in pairwise(order):
        if (first, second) in pins.forbidden_next:
            yield f"pin: cluster {second!r} follows {first!r}, which is forbidden"
    units = tuple(stage.units for stage in stages)
    if pins.units is not None and units != pins.units:
        yield f"pin units: {list(units)} per stage, expected {list(pins.units)}"
    for cluster in problem.clusters:
        own = [stage for stage in stages if stage.cluster == cluster.name]
        place = f"clusters.{cluster.name}"
        domains = pins.of(cluster.name)
        yield from pin_findings(f"{place}.stages", domains.stages, len(own))
        hosted = sum(stage.units for stage in own)
        yield from pin_findings(f"{place}.units", domains.units, hosted)


# --- costs --------------------------------------------------------------------------


def _rows(
    problem: Problem, table: CostTable, pipeline: Pipeline
) -> tuple[list[tuple[int, int]], list[str]]:
    """Return (cluster, strategy index) of every stage, and what is not in the table."""
    names = [cluster.name for cluster in problem.clusters]
    parts = [s for s in table.slices if s.microbatches == pipeline.microbatches]
    if not parts:
        return [], [f"table: no entry for {pipeline.microbatches} microbatches"]
    rows, missing = [], []
    for i, stage in enumerate(pipeline.stages):
        if stage.cluster not in names:
            missing.append(f"stage {i}: no costs for cluster {stage.cluster!r}")
            continue
        cluster = names.index(stage.cluster)
        own = parts[0].clusters[cluster]
        if stage.strategy not in own.strategies:
            missing.append(
                f"stage {i}: the table has no {stage.strategy} on {stage.cluster!r} "
                f"with {pipeline.microbatches} microbatches"
            )
            continue
        k = own.strategies.index(stage.strategy)
        share = problem.training.global_batch // pipeline.microbatches
        if int(own.microbatch[k]) * stage.strategy.dp != share:
            missing.append(
                f"table: micro-batch {own.microbatch[k]} of {stage.strategy} on "
                f"{stage.cluster!r} with {pipeline.microbatches} microbatches does "
                f"not use the global batch exactly"
            )
        rows.append((cluster, k))
    return rows, missing


class _Priced:
    """Times and memory of a pipeline whose units and table rows are sound."""

    def __init__(
        self,
        problem: Problem,
        table: CostTable,
        pipeline: Pipeline,
        rows: Sequence[tuple[int, int]],
    ) -> None:
        self.problem = problem
        self.table = table
        self.pipeline = pipeline
        self.rows = rows
        self.slice: TableSlice = table.at(pipeline.microbatches)
        self.warmups = tuple(stage.warmup for stage in pipeline.stages)
        self.times = self._times()
        self.memory_bytes = tuple(self._memory(i) for i in range(len(pipeline.stages)))

    def _kinds(self, i: int) -> Sequence[int]:
        stage = self.pipeline.stages[i]
        return self.table.units[stage.first_unit : stage.end_unit]

    def _costs(self, i: int) -> tuple[ClusterTable, int]:
        cluster, k = self.rows[i]
        return self.slice.clusters[cluster], k

    def _layout(self, i: int) -> int:
        own, k = self._costs(i)
        return int(own.layout[k])

    def _boundary(self, i: int) -> tuple[int, int, int]:
        """Return cut class and both layouts of the boundary after stage i."""
        cut = self.table.cuts[self.pipeline.stages[i].end_unit - 1]
        return cut, self._layout(i), self._layout(i + 1)

    def _times(self) -> Times:
        p = len(self.rows)
        forward, backward, sync = [], [], []
        for i in range(p):
            own, k = self._costs(i)
            kinds = self._kinds(i)
            forward.append(sum(int(own.forward_ns[k, kind]) for kind in kinds))
            backward.append(sum(int(own.backward_ns[k, kind]) for kind in kinds))
            units = sum(int(own.sync_unit_ns[k, kind]) for kind in kinds)
            sync.append(int(own.sync_ns[k]) + units)
        tied = self.slice.tied_ns
        if tied is not None and p > 1:
            extra = int(tied[self._layout(0), self._layout(p - 1)])
            sync[0] += extra
            sync[-1] += extra
        cuts = [self._boundary(i) for i in range(p - 1)]
        return Times(
            schedule=self.problem.training.schedule,
            microbatches=self.pipeline.microbatches,
            forward=tuple(forward),
            backward=tuple(backward),
            transfer=tuple(int(self.slice.transfer_ns[cut]) for cut in cuts),
            occupancy=tuple(int(self.slice.occupancy_ns[cut]) for cut in cuts),
            sync=tuple(sync),
        )

    def _memory(self, i: int) -> int:
        own, k = self._costs(i)
        kinds = self._kinds(i)
        in_flight = min(self.warmups[i], self.pipeline.microbatches)
        return (
            int(own.fixed_bytes[k])
            + sum(int(own.state_bytes[k, kind]) for kind in kinds)
            + in_flight * sum(int(own.activation_bytes[k, kind]) for kind in kinds)
            + max(int(own.temporary_bytes[k, kind]) for kind in kinds)
        )

    def findings(self) -> Iterator[str]:
        """Yield wrong warm-ups, memory and resharding."""
        stages = self.pipeline.stages
        clusters = [stage.cluster for stage in stages]
        # under auto the plan decides
        free = STEPS[self.times.schedule].free
        expected = self.warmups if free else warmups(self.times, clusters)
        for i, (before, after) in enumerate(pairwise(self.warmups), start=1):
            if free and after > before:
                yield f"stage {i}: warmup {after}, more than {before} before it"
        for i, stage in enumerate(stages):
            if stage.warmup != expected[i]:
                yield (
                    f"stage {i}: warmup {stage.warmup}, {self.times.schedule} gives "
                    f"{expected[i]}"
                )
            usable = self.table.usable_bytes[self.rows[i][0]]
            if self.memory_bytes[i] > usable:
                yield (
                    f"stage {i}: memory {self.memory_bytes[i]} bytes, {usable} are "
                    f"usable on {stage.cluster!r}"
                )
            if i == len(stages) - 1:
                if stage.resharding is not None:
                    yield (
                        f"stage {i}: resharding {stage.resharding}, the last stage "
                        f"has no next"
                    )
                continue
            chosen = RESHARDING[int(self.slice.resharding[self._boundary(i)])]
            if stage.resharding != chosen:
                yield (
                    f"stage {i}: resharding {stage.resharding}, the table says {chosen}"
                )
            yield from pin_findings("resharding", self.problem.pins.resharding, chosen)
