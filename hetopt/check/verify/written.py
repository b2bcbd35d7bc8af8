"""Write decisions down as a plan, so that ``check_plan`` can check it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.check.plan.plan import stage_times
from hetopt.check.plan.schedule.times import warmups
from hetopt.cost.table_file.file import table_digest
from hetopt.plans.plan import Pipeline, Plan, Stage
from hetopt.problem.digest import problem_digest
from hetopt.problem.training.choices import RESHARDING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.cost.table.table import CostTable
    from hetopt.plans.strategy import Strategy
    from hetopt.problem.problem import Problem


def written(
    problem: Problem,
    table: CostTable,
    microbatches: int,
    hosts: Sequence[tuple[int, Strategy]],
    units: Sequence[int],
) -> Plan:
    """Return the plan with these stages, first to last, as ``pipeline_of`` has them."""
    return Plan(
        schedule=table.schedule,
        chunks=table.chunks,
        cuts=table.layout,
        warmup_epsilon=table.warmup_epsilon,
        pipelines=(pipeline_of(problem, table, microbatches, hosts, units),),
        problem_digest=problem_digest(problem),
        table_digest=table_digest(table),
    )


def pipeline_of(
    problem: Problem,
    table: CostTable,
    microbatches: int,
    hosts: Sequence[tuple[int, Strategy]],
    units: Sequence[int],
) -> Pipeline:
    """Return the pipeline with these stages, first to last.

    Parameters
    ----------
    hosts
        Cluster and strategy of each stage.
    units
        Body units of each stage; all of its units if there is a layout.
    """
    stages = _stages(table, microbatches, hosts, units)
    pipeline = Pipeline(microbatches=microbatches, stages=tuple(stages))
    times = stage_times(problem, table, pipeline)
    on = [stage.cluster for stage in stages]
    counts = warmups(times, on, table.warmup_epsilon)
    return replace(
        pipeline,
        stages=tuple(
            replace(stage, warmup=count)
            for stage, count in zip(stages, counts, strict=True)
        ),
    )


def _stages(
    table: CostTable,
    microbatches: int,
    hosts: Sequence[tuple[int, Strategy]],
    units: Sequence[int],
) -> list[Stage]:
    """Return the stages of ``written``, with one warm-up each."""
    inside = [u for u, kind in enumerate(table.units) if table.body[kind]]
    layout = table.layout
    part = table.at(microbatches)
    layouts = [
        int(part.clusters[j].layout[part.clusters[j].strategies.index(strategy)])
        for j, strategy in hosts
    ]
    stages = []
    first, end = 0, inside[0] if layout is None else 0
    for i, ((j, strategy), held) in enumerate(zip(hosts, units, strict=True)):
        end += held
        resharding = None
        cut = table.cuts[end - 1] if i + 1 < len(hosts) else table.way_back
        if layout is not None:
            cut = table.cuts[layout[i] - 1]
        if cut is not None:
            after = layouts[(i + 1) % len(layouts)]
            resharding = RESHARDING[int(part.resharding[cut, layouts[i], after])]
        stages.append(
            Stage(
                cluster=table.cluster_names[j],
                first_unit=first,
                end_unit=end if i + 1 < len(hosts) else len(table.units),
                strategy=strategy,
                warmup=1,
                resharding=resharding,
            )
        )
        first = end
    return stages
