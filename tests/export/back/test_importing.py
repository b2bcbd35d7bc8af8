"""Pipelines read back become the plans they were, or say why they cannot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetopt.check import check_result
from hetopt.errors import InputError
from hetopt.export.back.importing import import_plan, principles_of
from hetopt.export.job import Job
from hetopt.export.pipeline import PipelineReadBack, StageReadBack
from hetopt.plans.plan import Stage
from hetopt.plans.strategy import Strategy
from hetopt.problem.training.choices import ScheduleName
from tests.export.jobs import draw_job


def read_back_of(
    job: Job, *, named: bool = True, hosted: bool = False
) -> PipelineReadBack:
    layers = job.layers
    assert layers is not None
    return PipelineReadBack(
        microbatches=job.microbatches,
        schedule=job.plan.schedule,
        stages=tuple(
            StageReadBack(
                cluster=stage.cluster if named else None,
                hosts=tuple(
                    rank.host for rank in job.placement.ranks if rank.stage == number
                )
                if hosted
                else (),
                layers=layers[number],
                strategy=stage.strategy,
            )
            for number, stage in enumerate(job.stages)
        ),
    )


def bare(stages: tuple[Stage, ...]) -> list[Stage]:
    """Leave out what the latency table decides."""
    return [replace(stage, resharding=None) for stage in stages]


@pytest.mark.parametrize("granularity", ["layer", "block"])
@pytest.mark.parametrize("seed", range(12))
def test_a_read_back_of_a_plan_is_that_plan(seed: int, granularity: str) -> None:
    job = draw_job(
        seed,
        granularity="block" if granularity == "block" else "layer",
        schedules=("1f1b", "eager-1f1b", "virtual-1f1b", "gpipe"),
    )
    imported = import_plan(read_back_of(job), job.problem)
    assert bare(imported.plan.pipeline.stages) == bare(job.stages)
    assert imported.plan.schedule == job.plan.schedule
    assert imported.plan.pipeline.microbatches == job.microbatches
    assert not imported.findings
    assert not check_result(
        imported.problem, imported.table, imported.result().to_json()
    )


def test_hosts_of_the_inventory_tell_the_clusters() -> None:
    seen = 0
    for seed in range(30):
        job = draw_job(seed, schedules=("1f1b",))
        several = len(job.problem.clusters) > 1
        if job.problem.clusters[0].hosts is None or not several:
            continue
        imported = import_plan(read_back_of(job, named=False, hosted=True), job.problem)
        assert bare(imported.plan.pipeline.stages) == bare(job.stages)
        seen += 1
    assert seen > 3


def two_stages(*, devices: tuple[int, int] = (8, 4)) -> tuple[PipelineReadBack, Job]:
    """Return a job of two clusters that each have 8 and 4 devices, all used."""
    job = next(
        job
        for job in map(draw_job, range(1000))
        if len(job.problem.clusters) == 2
        and not job.problem.model.tied
        and job.problem.model.layers >= 4
    )
    clusters = tuple(
        replace(cluster, nodes=1, devices_per_node=count, max_tp=count, hosts=None)
        for cluster, count in zip(job.problem.clusters, devices, strict=True)
    )
    problem = replace(
        job.problem,
        clusters=clusters,
        model=replace(job.problem.model, layers=8),
        training=replace(job.problem.training, global_batch=16, schedule="1f1b"),
    )
    stages = tuple(
        StageReadBack(
            cluster=None,
            hosts=(),
            layers=4,
            strategy=Strategy(dp=1, cp=1, tp=count, recompute="none"),
        )
        for count in devices
    )
    read_back = PipelineReadBack(microbatches=8, schedule="1f1b", stages=stages)
    return read_back, replace(job, problem=problem)


def test_devices_tell_the_clusters_where_only_one_way_uses_them_up() -> None:
    read_back, job = two_stages()
    backwards = replace(read_back, stages=read_back.stages[::-1])
    for each, order in ((read_back, [0, 1]), (backwards, [1, 0])):
        plan = import_plan(each, job.problem).plan
        names = [stage.cluster for stage in plan.pipeline.stages]
        assert names == [job.problem.clusters[j].name for j in order]


def test_devices_that_fit_in_two_ways_are_questioned_until_the_order_is_pinned() -> (
    None
):
    read_back, job = two_stages(devices=(4, 4))
    with pytest.raises(InputError, match="hall0, hall1 as well as hall1, hall0"):
        import_plan(read_back, job.problem)
    pinned = replace(
        job.problem, pins=replace(job.problem.pins, order=("hall1", "hall0"))
    )
    plan = import_plan(read_back, pinned).plan
    assert [stage.cluster for stage in plan.pipeline.stages] == ["hall1", "hall0"]


def named(read_back: PipelineReadBack, *names: str) -> PipelineReadBack:
    return replace(
        read_back,
        stages=tuple(
            replace(stage, cluster=name)
            for stage, name in zip(read_back.stages, names, strict=True)
        ),
    )


def test_accelerators_tell_clusters_where_no_two_have_the_same() -> None:
    read_back, job = two_stages()
    kinds = [cluster.accelerator.name for cluster in job.problem.clusters]
    plan = import_plan(named(read_back, *kinds), job.problem).plan
    assert [stage.cluster for stage in plan.pipeline.stages] == ["hall0", "hall1"]
    short = kinds[0].partition("-")[0]
    if not kinds[1].startswith(short):
        import_plan(named(read_back, short, "hall1"), job.problem)
    with pytest.raises(InputError, match=r"stage 1: 'TPU': no cluster is or has"):
        import_plan(named(read_back, "hall0", "TPU"), job.problem)


def test_another_job_is_refused() -> None:
    read_back, job = two_stages()
    read_back = named(read_back, "hall0", "hall1")
    import_plan(replace(read_back, says={"hidden": 512, "tied": False}), job.problem)
    for says, message in (
        ({"hidden": 1024}, "hidden: the files say 1024, the problem 512"),
        ({"global_batch": 8}, "global_batch: the files say 8, the problem 16"),
        ({"tied": True}, "tied: the files say true, the problem false"),
    ):
        with pytest.raises(InputError, match=message):
            import_plan(replace(read_back, says=says), job.problem)
    longer = replace(read_back.stages[0], layers=5)
    with pytest.raises(InputError, match="9 in all, the model has 8"):
        import_plan(
            replace(read_back, stages=(longer, read_back.stages[1])), job.problem
        )
    with pytest.raises(InputError, match="microbatches: is 3, expected a divisor"):
        import_plan(replace(read_back, microbatches=3), job.problem)


def test_what_no_plan_can_say_is_refused() -> None:
    read_back, job = two_stages()
    read_back = named(read_back, "hall0", "hall1")
    odd = replace(read_back.stages[0], strategy=Strategy(dp=3, cp=1, tp=1))
    with pytest.raises(
        InputError, match=r"no plan can express this: .* does not divide"
    ):
        import_plan(replace(read_back, stages=(odd, read_back.stages[1])), job.problem)
    large = replace(read_back.stages[0], strategy=Strategy(dp=2, cp=1, tp=8))
    with pytest.raises(InputError, match="needs 16 devices"):
        import_plan(
            replace(read_back, stages=(large, read_back.stages[1])), job.problem
        )


@pytest.mark.parametrize("memory_bytes", [60_000_000, 1_000_000])
def test_what_does_not_fit_has_a_price_all_the_same(memory_bytes: int) -> None:
    """The second limit is below what any strategy needs: the table has none."""
    read_back, job = two_stages()
    read_back = named(read_back, "hall0", "hall1")
    roomy = import_plan(read_back, job.problem)
    clusters = tuple(
        replace(cluster, memory_bytes=memory_bytes) for cluster in job.problem.clusters
    )
    tight = import_plan(read_back, replace(job.problem, clusters=clusters))
    assert not roomy.findings
    assert tight.findings
    assert tight.price.times == roomy.price.times
    assert tight.price.memory_bytes == roomy.price.memory_bytes
    assert max(tight.price.usable_bytes) <= memory_bytes


def test_pins_do_not_keep_a_configuration_from_being_priced() -> None:
    read_back, job = two_stages()
    read_back = named(read_back, "hall0", "hall1")
    pinned = replace(
        job.problem, pins=replace(job.problem.pins, order=("hall1", "hall0"))
    )
    imported = import_plan(read_back, pinned)
    assert any("pin order" in finding for finding in imported.findings)


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("1f1b", "1f1b"),
        ("free-1f1b", "free-1f1b"),
        ("virtual-1f1b", "1f1b"),
        ("gpipe", "1f1b"),
    ],
)
def test_the_problems_schedule_stays_where_it_does_the_same(
    schedule: ScheduleName, expected: str
) -> None:
    read_back, job = two_stages()
    read_back = named(read_back, "hall0", "hall1")
    training = replace(job.problem.training, schedule=schedule)
    imported = import_plan(read_back, replace(job.problem, training=training))
    assert imported.plan.schedule == expected
    assert [stage.warmup for stage in imported.plan.pipeline.stages] == [2, 1]
    # With one micro-batch every schedule is the same.
    once = import_plan(
        replace(read_back, microbatches=1), replace(job.problem, training=training)
    )
    assert once.plan.schedule == schedule


def test_warm_ups_of_no_schedule_are_autos() -> None:
    read_back, job = two_stages()
    read_back = named(read_back, "hall0", "hall1")
    free = "free-1f1b"
    for warmups, expected in (((2, 1), "1f1b"), ((3, 1), free), ((7, 2), free)):
        given = replace(
            read_back,
            stages=tuple(
                replace(stage, warmup=warmup)
                for stage, warmup in zip(read_back.stages, warmups, strict=True)
            ),
        )
        plan = import_plan(given, job.problem).plan
        assert plan.schedule == expected
        assert tuple(stage.warmup for stage in plan.pipeline.stages) == warmups
    some = replace(
        read_back, stages=(replace(read_back.stages[0], warmup=2), read_back.stages[1])
    )
    with pytest.raises(InputError, match="expected all or none"):
        import_plan(some, job.problem)


def test_principles_are_those_the_plan_keeps() -> None:
    job = draw_job(4)
    plan = job.plan
    first = job.stages[0]
    assert not principles_of(plan).relaxed

    def of(*stages: Stage) -> tuple[str, ...]:
        pipeline = replace(plan.pipeline, stages=stages)
        return principles_of(replace(plan, pipelines=(pipeline,))).relaxed

    other = replace(first, cluster="elsewhere")
    narrow = replace(first, strategy=Strategy(dp=1, cp=1, tp=1))
    wide = replace(first, strategy=Strategy(dp=1, cp=1, tp=2))
    assert of(first, other, first) == ("p3",)
    assert of(wide, narrow) == ("p4-falling-tp",)
    assert of(narrow, wide) == ("p4",)
    assert of(narrow, other, wide) == ("p3", "p4")
