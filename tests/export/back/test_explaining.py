"""The steps from one plan to another end there, and each is a plan of its own."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from hetopt.errors import InputError
from hetopt.export.back.differences import changes
from hetopt.export.back.explaining import Explanation, explain
from hetopt.export.back.importing import Imported, import_plan
from hetopt.export.job import Job
from hetopt.export.pipeline import PipelineReadBack, StageReadBack
from hetopt.plans.strategy import Strategy
from hetopt.pricing.price import price
from hetopt.problem.problem import Problem
from hetopt.problem.training.choices import RECOMPUTE, Recompute, ScheduleName
from hetopt.report.explanation import (
    explained,
    memory_findings,
    other_findings,
    sentence,
)
from tests.export.jobs import draw_job

SCHEDULES: tuple[ScheduleName, ...] = ("1f1b", "eager-1f1b", "virtual-1f1b", "gpipe")


def plan_of(job: Job, problem: Problem) -> Imported:
    """Import a job's plan under another problem of the same clusters and model."""
    assert job.layers is not None
    stages = tuple(
        StageReadBack(
            cluster=stage.cluster, hosts=(), layers=layers, strategy=stage.strategy
        )
        for stage, layers in zip(job.stages, job.layers, strict=True)
    )
    read_back = PipelineReadBack(
        microbatches=job.microbatches, schedule=job.plan.schedule, stages=stages
    )
    return import_plan(read_back, problem)


def another(job: Job, random: Random) -> PipelineReadBack:
    """Return a pipeline on the same clusters with some other decisions."""
    assert job.layers is not None
    names = list(dict.fromkeys(stage.cluster for stage in job.stages))
    random.shuffle(names)
    rows: list[tuple[str, Strategy]] = []
    for name in names:
        own = [stage for stage in job.stages if stage.cluster == name]
        policy: Recompute = random.choice(RECOMPUTE)
        strategy = replace(own[0].strategy, recompute=policy)
        if strategy.tp > 1 and random.random() < 0.5:
            strategy = replace(strategy, tp=strategy.tp // 2, dp=strategy.dp * 2)
        rows += [(name, strategy)] * random.randint(1, len(own))
    total = sum(job.layers)
    cuts = sorted(random.sample(range(1, total), len(rows) - 1))
    layers = [b - a for a, b in zip([0, *cuts], [*cuts, total], strict=True)]
    return PipelineReadBack(
        microbatches=random.choice(
            [
                q
                for q in range(1, job.problem.training.global_batch + 1)
                if all(
                    job.problem.training.global_batch % (q * strategy.dp) == 0
                    for _, strategy in rows
                )
            ]
            or [1]
        ),
        schedule=random.choice(SCHEDULES),
        stages=tuple(
            StageReadBack(cluster=name, hosts=(), layers=count, strategy=strategy)
            for (name, strategy), count in zip(rows, layers, strict=True)
        ),
    )


def told_of(mine: Imported, ours: Imported) -> Explanation:
    return explain(mine, ours.plan, ours.table, ours.problem)


@pytest.mark.parametrize("seed", range(30))
def test_steps_lead_from_one_plan_to_the_other(seed: int) -> None:
    job = draw_job(seed, schedules=SCHEDULES)
    random = Random(seed)
    mine = plan_of(job, job.problem)
    ours = import_plan(another(job, random), job.problem)
    told = told_of(mine, ours)
    expected = changes(mine.plan, ours.plan)
    assert [change for step in told.steps for change in step.changes] != [] or (
        mine.plan.pipelines == ours.plan.pipelines
    )
    assert {c for step in told.steps for c in step.changes} == set(expected)
    assert sum(len(step.changes) for step in told.steps) == len(expected)
    # Only the last step, which takes all that is left, may lose.
    reached = [mine.price.closed_form_s, *(step.closed_form_s for step in told.steps)]
    assert reached[:-1] == sorted(reached[:-1], reverse=True)
    if told.steps:
        last = told.steps[-1]
        assert last.closed_form_s == ours.price.closed_form_s
        assert last.iteration_time_s == ours.price.iteration_time_s
    assert told.ours_price == price(ours.plan, ours.table)


def test_the_same_plan_takes_no_steps() -> None:
    job = draw_job(3, schedules=SCHEDULES)
    mine = plan_of(job, job.problem)
    told = told_of(mine, mine)
    assert told.steps == ()
    assert explained(told).to_json()["speedup"] == {"closed_form": 1, "simulated": 1}


def two_clusters() -> tuple[Job, PipelineReadBack]:
    """Return a problem of two clusters with 16 devices, and a read_back of a plan."""
    job = next(
        job for job in map(draw_job, range(100)) if len(job.problem.clusters) == 2
    )
    problem = replace(
        job.problem,
        clusters=tuple(
            replace(c, nodes=2, devices_per_node=8, max_tp=8, hosts=None)
            for c in job.problem.clusters
        ),
        model=replace(job.problem.model, layers=12, tied=False, kv_heads=8),
        training=replace(job.problem.training, global_batch=64, schedule="1f1b"),
    )
    layers = (3, 3, 3, 3)
    names = ("hall0", "hall0", "hall1", "hall1")
    stages = tuple(
        StageReadBack(
            cluster=name,
            hosts=(),
            layers=count,
            strategy=Strategy(dp=4, cp=1, tp=2, recompute="full"),
        )
        for name, count in zip(names, layers, strict=True)
    )
    read_back = PipelineReadBack(microbatches=4, schedule="1f1b", stages=stages)
    return replace(job, problem=problem), read_back


def changed(
    read_back: PipelineReadBack, *rows: tuple[str, int, Strategy]
) -> PipelineReadBack:
    return replace(
        read_back,
        stages=tuple(
            StageReadBack(cluster=name, hosts=(), layers=layers, strategy=strategy)
            for name, layers, strategy in rows
        ),
    )


def test_one_difference_is_one_step() -> None:
    job, read_back = two_clusters()
    mine = import_plan(read_back, job.problem)
    ours = import_plan(replace(read_back, microbatches=16), job.problem)
    (step,) = told_of(mine, ours).steps
    assert [sentence(change) for change in step.changes] == ["micro-batches: 4 -> 16"]


def test_a_layer_split_follows_its_cluster() -> None:
    """Turning the pipeline round alone is no change of the layer split."""
    job, read_back = two_clusters()
    strategy = read_back.stages[0].strategy
    split = changed(
        read_back,
        *(("hall0", 5, strategy), ("hall0", 3, strategy)),
        *(("hall1", 2, strategy), ("hall1", 2, strategy)),
    )
    turned = replace(split, stages=(*split.stages[2:], *split.stages[:2]))
    mine, ours = (import_plan(each, job.problem) for each in (split, turned))
    (step,) = told_of(mine, ours).steps
    assert [sentence(change) for change in step.changes] == [
        "order: hall0, hall1 -> hall1, hall0"
    ]


def test_what_cannot_be_alone_is_taken_together() -> None:
    """Two wide stages need more devices than there are, one narrow stage is slower."""
    job, read_back = two_clusters()
    old, wide = (
        read_back.stages[0].strategy,
        Strategy(dp=8, cp=1, tp=2, recompute="full"),
    )
    mine = import_plan(read_back, job.problem)
    ours = import_plan(
        changed(read_back, ("hall0", 6, wide), ("hall1", 3, old), ("hall1", 3, old)),
        job.problem,
    )
    steps = [
        [change.what for change in step.changes] for step in told_of(mine, ours).steps
    ]
    whats = sorted(what for step in steps for what in step)
    assert whats == ["degrees", "layer split", "stages"]
    assert ["degrees", "stages"] in steps


def test_a_plan_that_does_not_fit_says_where_and_still_leads_on() -> None:
    job, read_back = two_clusters()
    none = [
        (s.cluster or "", int(s.layers), replace(s.strategy, recompute="none"))
        for s in read_back.stages
    ]
    greedy = changed(read_back, *none)
    needed = import_plan(read_back, job.problem).price.memory_bytes
    clusters = tuple(
        replace(c, memory_bytes=limit + c.overhead_bytes + 1)
        for c, limit in zip(
            job.problem.clusters, (max(needed[:2]), max(needed[2:])), strict=True
        )
    )
    problem = replace(job.problem, clusters=clusters)
    mine, ours = (import_plan(each, problem) for each in (greedy, read_back))
    assert mine.findings
    assert not ours.findings
    told = told_of(mine, ours)
    assert told.steps[-1].closed_form_s == ours.price.closed_form_s
    too_full = [
        number
        for number, (need, usable) in enumerate(
            zip(mine.price.memory_bytes, mine.price.usable_bytes, strict=True)
        )
        if need > usable
    ]
    said = memory_findings(told)
    assert too_full
    assert [text.split(" (")[0] for text in said] == [f"stage {n}" for n in too_full]
    assert "GB too much" in said[0]
    assert other_findings(told) == []


def test_per_unit_plans_are_refused() -> None:
    job, read_back = two_clusters()
    mine = import_plan(read_back, job.problem)
    stages = tuple(
        replace(stage, unit_strategies=(stage.strategy,) * stage.units)
        for stage in mine.plan.pipeline.stages
    )
    pipeline = replace(mine.plan.pipeline, stages=stages)
    with pytest.raises(InputError, match="cannot be taken apart"):
        explain(
            mine, replace(mine.plan, pipelines=(pipeline,)), mine.table, mine.problem
        )
