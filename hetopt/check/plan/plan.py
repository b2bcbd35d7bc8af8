"""Check one plan against its problem and latency table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.check.plan.lengths import (
    length_findings,
    one_length_each,
)
from hetopt.check.plan.packing import packing_findings
from hetopt.check.plan.pricing import rows_of
from hetopt.check.plan.rules import mesh_findings, pin_findings, table_findings
from hetopt.check.plan.schedule.closed_form import closed_form
from hetopt.check.plan.schedule.schedules import STEPS
from hetopt.check.plan.schedule.times import Times, last_ends
from hetopt.check.plan.several import parts_of, several_findings, together
from hetopt.check.plan.uneven import cuts_findings, priced_stages
from hetopt.check.plan.units import PricedUnits, unit_findings
from hetopt.cost.table.ticks import LONGEST_NS, LONGEST_S, TICK_S
from hetopt.cost.table_file.file import table_digest
from hetopt.errors import CheckError, DigestError
from hetopt.problem.digest import problem_digest
from hetopt.problem.training.principles import PRUNED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.check.plan.pricing import PricedStages
    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Pipeline, Plan, Stage
    from hetopt.plans.strategy import Strategy
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.principles import Principles


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedPlan:
    """Times and memory of a valid plan.

    Attributes
    ----------
    closed_form_s, iteration_time_s
        Both times of MODEL.md section 4, in seconds.
    memory_bytes
        Memory needed on each device of every stage.
    uniap_s
        UniAP's objective, in seconds; None unless units have strategies of their own.
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
        Principles that the plan has to keep; all of them unless given.

    Raises
    ------
    DigestError
        The plan was made from another problem or table.
    CheckError
        The plan breaks rules; the findings name all that were found.
    """
    check_digests(problem, table, plan)
    findings = list(_whole_findings(problem, table, plan))
    if findings:
        raise CheckError(findings)
    if problem.training.lengths is not None:
        return _checked_lengths(problem, table, plan, principles)
    priced: Sequence[PricedStages | PricedUnits]
    if len(plan.pipelines) > 1:
        parts = parts_of(problem, table, plan)
        priced = _sound_parts(parts, plan, principles)
    else:
        priced = [_sound(problem, table, plan, principles)]
    simulated = together(
        plan,
        [(last_ends([each.times], each.warmups), each.times.sync) for each in priced],
    )
    _ensure_short(closed := max(each.closed_form_ns for each in priced), simulated)
    return CheckedPlan(
        closed_form_s=float(closed * _TICK),
        iteration_time_s=float(simulated * _TICK),
        memory_bytes=tuple(size for each in priced for size in each.memory_bytes),
        uniap_s=next(
            (
                float(each.uniap_ns * _TICK)
                for each in priced
                if isinstance(each, PricedUnits)
            ),
            None,
        ),
    )


def _ensure_short(closed: Fraction, simulated: int) -> None:
    """Raise CheckError if both times, in nanoseconds, exceed the longest allowed."""
    quicker = min(closed, Fraction(simulated))
    if quicker > LONGEST_NS:
        # the table caps longer times, so that no time of this plan is exact
        raise CheckError(
            [
                f"time: an iteration takes {float(quicker * _TICK):g} s "
                f"or more, a plan may take at most {LONGEST_S} s"
            ]
        )


def _checked_lengths(
    problem: Problem, table: CostTable, plan: Plan, principles: Principles
) -> CheckedPlan:
    """Return times and memory of a plan for sequences of several lengths."""
    findings: list[str] = []
    closed, ran = [], []
    memory: list[int] = []
    for number, known in enumerate(one_length_each(problem, table, plan)):
        mix = plan.pipelines[number].mix
        assert mix is not None
        longest = known[max(mix.sequences)]
        alone = replace(plan, pipelines=(longest.pipeline,))
        missing = [
            f"{tokens} tokens: {each}"
            for tokens, own in known.items()
            for each in rows_of(*own)[1]
        ]
        try:
            # Memory is checked for the longest sequences, which need the most.
            sound = _sound(longest.problem, longest.table, alone, principles)
        except CheckError as error:
            missing += error.findings
        findings += [f"pipeline {number}: {each}" for each in missing]
        if missing:
            continue
        times = {tokens: stage_times(*own) for tokens, own in known.items()}
        sync = times[min(times)].sync
        each = [
            replace(times[tokens], sync=sync, microbatches=-(-n // mix.per_microbatch))
            for tokens, n in mix.sequences.items()
        ]
        closed.append(closed_form(each, sound.warmups))
        ran.append((last_ends(each, sound.warmups), sync))
        memory += sound.memory_bytes
    if findings:
        raise CheckError(findings)
    simulated = together(plan, ran)
    _ensure_short(max(closed), simulated)
    return CheckedPlan(
        closed_form_s=float(max(closed) * _TICK),
        iteration_time_s=float(simulated * _TICK),
        memory_bytes=tuple(memory),
    )


def _whole_findings(problem: Problem, table: CostTable, plan: Plan) -> Iterator[str]:
    """Yield findings on the whole plan, before its stages are checked."""
    yield from table_findings(problem, table)
    if plan.schedule != problem.training.schedule:
        yield f"schedule: {plan.schedule}, the problem says {problem.training.schedule}"
    chunks = problem.training.chunks
    if plan.chunks != chunks:
        yield f"chunks: {plan.chunks}, the problem says {chunks}"
    if plan.cuts != problem.pins.cuts:
        yield f"cuts: {plan.cuts}, the problem says {problem.pins.cuts}"
    if plan.warmup_epsilon != (epsilon := problem.training.epsilon):
        yield f"warmup_epsilon: {plan.warmup_epsilon}, the problem says {epsilon}"
    if problem.training.lengths is not None:
        yield from length_findings(problem, plan)
    elif any(pipeline.mix is not None for pipeline in plan.pipelines):
        yield "pipelines: one has a mix, but all sequences have the same length"
    elif len(plan.pipelines) > 1:
        yield from several_findings(problem, plan)
    elif not plan.pipelines or plan.pipelines[0].share is not None:
        yield "pipelines: expected one without a share, or several"


def _sound_parts(
    parts: Sequence[tuple[Problem, CostTable]], plan: Plan, principles: Principles
) -> list[PricedStages | PricedUnits]:
    """Return times and memory of each of several pipelines; see ``_sound``."""
    priced, findings = [], []
    for number, (problem, table) in enumerate(parts):
        try:
            priced.append(_sound(problem, table, plan.alone(number), principles))
        except CheckError as error:
            findings += [f"pipeline {number}: {each}" for each in error.findings]
    if findings:
        raise CheckError(findings)
    return priced


def _sound(
    problem: Problem, table: CostTable, plan: Plan, principles: Principles
) -> PricedStages | PricedUnits:
    """Return times and memory of the only pipeline; CheckError if it breaks a rule."""
    pipeline = plan.pipelines[0]
    if findings := [*cuts_findings(table, plan)]:
        raise CheckError(findings)
    findings += _unit_findings(table, pipeline.stages)
    p, q = len(pipeline.stages), pipeline.microbatches
    if plan.chunks > 1 and (p < 2 or q % p):
        findings.append(
            f"pipeline: {counted(p, 'stage')} of {counted(plan.chunks, 'chunk')} and "
            f"{q} microbatches, expected at least 2 stages, and microbatches that are "
            "a multiple of the stages"
        )
        raise CheckError(findings)
    if table.pairs is not None and q <= p:
        findings.append(
            f"pipeline: {p} folded stages and {q} microbatches, expected more "
            "microbatches than stages"
        )
        raise CheckError(findings)
    findings += _pipeline_pin_findings(problem, pipeline)
    # stages have costs only if they hold all units in order
    sound = _units_in_order(table, pipeline.stages)
    priced: PricedStages | PricedUnits | None = None
    if plan.per_unit:
        missing = list(unit_findings(problem, table, pipeline))
        findings += missing
        if sound and not missing:
            priced = PricedUnits(problem, table, pipeline)
    else:
        findings += _cluster_findings(problem, pipeline, principles)
        rows, missing = rows_of(problem, table, pipeline)
        findings += missing
        if sound and not missing:
            priced = priced_stages(problem, table, pipeline, rows)
    if priced is not None:
        findings += priced.findings()
    if findings or priced is None:
        raise CheckError(findings)
    return priced


def stage_times(problem: Problem, table: CostTable, pipeline: Pipeline) -> Times:
    """Return the times of a pipeline whose units and table rows are sound."""
    rows, _ = rows_of(problem, table, pipeline)
    return priced_stages(problem, table, pipeline, rows).times


#: The tick as an exact decimal number.
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
    """Yield units that are not held once and in order, and stages without a layer."""
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
            yield f"stage {i}: holds no unit (first_unit {first}, end_unit {end})"
        # UniAP's rule (7b) requires only some unit
        elif not (stage.unit_strategies or table.layout) and not any(
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
    """Yield violations of P3, P4, mesh rules and capacity, and unknown clusters."""
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
        hosted = [each.strategy for each in pipeline.stages if each.cluster == name]
        strategies = list(dict.fromkeys(hosted))
        if len(strategies) > 1 and principles.sharing == "one":
            listed = " and ".join(map(str, strategies))
            yield f"cluster {name!r}: strategies {listed}, expected one (P4)"
        if principles.sharing == "falling-tp":
            yield from _rising_tp_findings(name, pipeline.stages)
        yield from packing_findings(known[name], hosted)
        if known[name].several_domains and _crosses_unevenly(known[name], hosted):
            yield (
                f"cluster {name!r}: stages of several sizes, expected one, as nobody "
                "knows which of them lie in one domain"
            )
        for strategy in strategies:
            yield from mesh_findings(
                problem, known[name], strategy, pipeline.microbatches
            )


def _crosses_unevenly(cluster: Cluster, hosted: Sequence[Strategy]) -> bool:
    """Whether stages differ in devices, some of several nodes."""
    sizes = {strategy.devices for strategy in hosted}
    return len(sizes) > 1 and max(sizes) > cluster.devices_per_node


def _rising_tp_findings(name: str, stages: Sequence[Stage]) -> Iterator[str]:
    """Yield where tp rises along a cluster's stages (H2, section 4.3.3)."""
    own = [(i, stage) for i, stage in enumerate(stages) if stage.cluster == name]
    for (i, before), (k, after) in pairwise(own):
        tp = after.strategy.tp
        if tp > before.strategy.tp:
            yield (
                f"cluster {name!r}: tp rises from {before.strategy.tp} on stage {i} to "
                f"{tp} on stage {k} (p4-falling-tp)"
            )


def _pipeline_pin_findings(problem: Problem, pipeline: Pipeline) -> Iterator[str]:
    """Yield broken pins (except those of strategies), a wrong q and missing links."""
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
        if problem.links.between(first, second) is None:
            yield f"links: no link between {first!r} and {second!r}"
    folded = STEPS[problem.training.schedule].folded
    ends = order[:1] + order[-1:]
    copies = problem.model.shares_table and len({*ends}) > 1 and not folded
    if copies and problem.links.between(*ends) is None:
        yield (
            f"links: no link between {ends[0]!r} and {ends[1]!r}, which "
            "hold copies of the embedding's table"
        )
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
