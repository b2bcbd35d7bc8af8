"""Timelines of pipelines that no problem has."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from hetopt.plans.plan import Pipeline, Plan, Stage
from hetopt.plans.strategy import Strategy
from hetopt.pricing.price import Price
from hetopt.report.timeline.modelled import modelled_timeline
from hetopt.schedule.run import simulate
from tests.schedule.pipelines import pipeline

if TYPE_CHECKING:
    from hetopt.problem.training.choices import Recompute
    from hetopt.report.timeline.timeline import Timeline
    from hetopt.schedule.times import PipelineTimes

GB = 1_000_000_000
MS = 1_000_000


def balanced(stages: int, microbatches: int, *, more: int = 1) -> PipelineTimes:
    """Stages of 10 ms forward and 20 to 30 ms backward, links of 3 ms."""
    random = Random(0)
    return pipeline(
        [10 * MS] * stages,
        [random.randint(20, 30) * MS for _ in range(stages)],
        [3 * MS] * (stages - 1),
        microbatches=microbatches,
        warmups=[1 + more * after for after in reversed(range(stages))],
        sync=[15 * MS] * stages,
    )


def price_of(times: PipelineTimes, recompute_ns: int | None = 0) -> Price:
    """Stages of 20 GB and half a GB for every micro-batch in flight."""
    stages = times.stages
    run = simulate(times)
    return Price(
        times=times,
        closed_form_s=1.0,
        iteration_time_s=run.makespan_ns * 1e-9,
        idle_share=run.idle_share,
        memory_bytes=tuple(20 * GB + held * GB // 2 for held in times.inflight),
        usable_bytes=(75 * GB,) * stages,
        activation_bytes=(GB // 2,) * stages,
        recompute_ns=(recompute_ns,) * stages,
    )


def plan_of(times: PipelineTimes, cluster: str, recompute: Recompute = "none") -> Plan:
    """Four stages on every cluster."""
    stages = tuple(
        Stage(
            cluster=f"{cluster}{number // 4}",
            first_unit=number,
            end_unit=number + 1,
            strategy=Strategy(dp=8, cp=1, tp=4, recompute=recompute),
            warmup=warmup,
        )
        for number, warmup in enumerate(times.warmups)
    )
    return Plan(
        schedule=times.schedule,
        pipelines=(Pipeline(microbatches=times.microbatches, stages=stages),),
        problem_digest="0" * 64,
        table_digest="f" * 64,
        chunks=1 if times.chunks is None else times.chunks.count,
    )


def timeline_of(
    times: PipelineTimes,
    *,
    recompute_ns: int | None = 0,
    name: str = "some-problem",
    cluster: str = "cluster",
) -> Timeline:
    plan = plan_of(times, cluster, "none" if recompute_ns == 0 else "full")
    price = price_of(times, recompute_ns)
    return modelled_timeline(name, plan, price, simulate(times))


def with_measured(timeline: Timeline, slower: float = 1.07) -> Timeline:
    """Add a measured iteration, which does not tell recomputation apart."""
    measured = [
        event._replace(
            source="measured",
            start_s=event.start_s * slower,
            end_s=event.end_s * slower,
        )
        for event in timeline.events
        if event.activity != "recompute"
    ]
    return replace(timeline, events=(*measured, *timeline.events))


def measured_alone(timeline: Timeline) -> Timeline:
    """Return what ``with_measured`` adds."""
    events = with_measured(timeline).events
    return replace(timeline, events=tuple(e for e in events if e.source == "measured"))
