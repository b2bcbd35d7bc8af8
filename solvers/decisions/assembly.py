"""From a program's decision to a plan, and to its exact value."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import groupby, pairwise
from math import ceil
from typing import TYPE_CHECKING

from hetopt.cost.table.ticks import TICK_S
from hetopt.formulations.decision import Decision
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.plans.plan import Pipeline, Plan, Stage
from hetopt.pricing.price import pipeline_times
from hetopt.problem.training.choices import RESHARDING
from hetopt.schedule.closed_form import closed_form_at, closed_form_ns
from hetopt.schedule.period import period_by_recursion
from hetopt.schedule.warmup import warmup_counts
from hetopt.solvers.decisions.stages import most_in_flight

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.cost.table.table import CostTable
    from hetopt.schedule.times import PipelineTimes


def plan_of(decision: Decision, table: CostTable, table_digest: str) -> Plan:
    """Return the plan of a decision, with warm-up counts and resharding.

    Parameters
    ----------
    table_digest
        Digest of ``table``, for the plan's own field.
    """
    stages = _stages(decision, table)
    bare = Plan(
        schedule=table.schedule,
        pipelines=(Pipeline(microbatches=decision.microbatches, stages=stages),),
        problem_digest=table.problem_digest,
        table_digest=table_digest,
        chunks=table.chunks,
        cuts=table.layout,
        warmup_epsilon=table.warmup_epsilon,
    )
    warmups = decision.warmups
    if warmups is None:
        times = pipeline_times(bare, table)
        warmups = warmup_counts(
            table.schedule,
            microbatches=decision.microbatches,
            crosses=[
                before.cluster != after.cluster for before, after in pairwise(stages)
            ],
            round_trip_ns=times.round_trip_ns,
            transfer_ns=times.transfer_ns,
            chunks=table.chunks,
            epsilon=table.warmup_epsilon,
        )
    pipeline = Pipeline(
        microbatches=decision.microbatches,
        stages=tuple(
            replace(stage, warmup=warmup)
            for stage, warmup in zip(stages, warmups, strict=True)
        ),
    )
    return replace(bare, pipelines=(pipeline,))


def closed_value(times: PipelineTimes) -> int:
    """Return the closed form in 1 / PERIOD_SCALE ticks, as ``value_of`` rounds it.

    With several chunks a stage no program minimises it.
    """
    if times.chunks is None:
        return value_of(times)
    return ceil(closed_form_ns(times) * PERIOD_SCALE)


def value_of(times: PipelineTimes) -> int:
    """Return the closed form in 1 / PERIOD_SCALE ticks, with lambda rounded up to one.

    Programs minimise this number, which with v chunks a stage is only an estimate
    (``closed_form_at``). Rounding lambda adds less than q - 1 of these units, or
    q v - 1.
    """
    uneven = times.chunks is not None and times.chunks.uneven is not None
    if uneven or not times.has_steady_state or times.microbatches == 1:
        return ceil(closed_form_ns(times) * PERIOD_SCALE)
    period = Fraction(ceil(period_by_recursion(times) * PERIOD_SCALE), PERIOD_SCALE)
    return ceil(closed_form_at(times, period) * PERIOD_SCALE)


def bound_seconds(value: int, passes: int) -> float:
    """Return the lower bound on a closed form, given one on an objective."""
    return (value - max(passes - 1, 0)) / PERIOD_SCALE * TICK_S


def decision_of_plan(plan: Plan, table: CostTable) -> Decision:
    """Return the decision of a plan in the pruned space."""
    stages = plan.pipeline.stages
    runs = [
        (cluster, len(list(group)))
        for cluster, group in groupby(stage.cluster for stage in stages)
    ]
    strategy = {stage.cluster: stage.strategy for stage in stages}
    return Decision(
        microbatches=plan.pipeline.microbatches,
        order=tuple(table.cluster_names.index(cluster) for cluster, _ in runs),
        strategies=tuple(strategy[cluster] for cluster, _ in runs),
        hosted=tuple(hosted for _, hosted in runs),
        units=tuple(stage.units for stage in stages),
    )


def room_in_flight(
    stages: Sequence[Stage], table: CostTable, microbatches: int
) -> list[int]:
    """Return how many micro-batches fit on each stage, at most q."""
    most = []
    for stage in stages:
        j = table.cluster_names.index(stage.cluster)
        own = table.at(microbatches).clusters[j]
        k = own.strategies.index(stage.strategy)
        held = table.units[stage.first_unit : stage.end_unit]
        base = int(own.fixed_bytes[k]) + sum(int(own.state_bytes[k, u]) for u in held)
        base += max(int(own.temporary_bytes[k, u]) for u in held)
        each = sum(int(own.activation_bytes[k, u]) for u in held)
        most.append(most_in_flight(table.usable_bytes[j], base, each, microbatches))
    return most


def _stages(decision: Decision, table: CostTable) -> tuple[Stage, ...]:
    part = table.at(decision.microbatches)
    hosts = [
        (j, strategy)
        for j, strategy, hosted in zip(
            decision.order, decision.strategies, decision.hosted, strict=True
        )
        for _ in range(hosted)
    ]
    layouts = [
        int(part.clusters[j].layout[part.clusters[j].row(strategy)])
        for j, strategy in hosts
    ]
    stages = []
    first = 0
    for i, ((j, strategy), units) in enumerate(zip(hosts, decision.units, strict=True)):
        end = first + units
        resharding = None
        cut = table.cuts[end - 1] if i + 1 < len(hosts) else part.way_back
        if table.layout is not None:
            # Of the first chunk, as of the others unless they predict further tokens.
            cut = table.cuts[table.layout[i] - 1]
        if cut is not None:
            after = layouts[(i + 1) % len(layouts)]
            resharding = RESHARDING[int(part.resharding[cut, layouts[i], after])]
        stages.append(
            Stage(
                cluster=table.cluster_names[j],
                first_unit=first,
                end_unit=end,
                strategy=strategy,
                # Set once the times are known.
                warmup=1,
                resharding=resharding,
            )
        )
        first = end
    return tuple(stages)
