"""A simulated iteration as a timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.cost.table.ticks import TICK_S
from hetopt.report.rows import chain
from hetopt.report.summary import shape
from hetopt.report.timeline.timeline import Lane, Timeline, TimelineEvent, TimelineStage

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from hetopt.plans.plan import Plan
    from hetopt.plans.strategy import Strategy
    from hetopt.pricing.price import Price
    from hetopt.report.timeline.timeline import Activity
    from hetopt.schedule.run import Simulation
    from hetopt.schedule.times import PipelineTimes


def modelled_timeline(
    problem: str, plan: Plan, price: Price, run: Simulation
) -> Timeline:
    """Return the timeline of a simulated iteration.

    Parameters
    ----------
    problem
        The problem's name.
    price, run
        Price and simulation of the plan.
    """
    stages = tuple(
        TimelineStage(
            cluster=stage.cluster,
            mesh=_mesh(stage.strategy),
            # If stages hold chunks, this includes the units at the model's ends.
            base_bytes=price.memory_bytes[i]
            - price.times.passes_held[i] * price.activation_bytes[i],
            activation_bytes=price.activation_bytes[i],
            usable_bytes=price.usable_bytes[i],
            recompute_inside=price.recompute_ns[i] is None,
        )
        for i, stage in enumerate(plan.pipeline.stages)
    )
    events = [
        event
        for stage in range(len(stages))
        for event in _stage_events(price, run, stage)
    ]
    return Timeline(
        problem=problem,
        plan=(shape(plan), chain(plan)),
        problem_digest=plan.problem_digest,
        table_digest=plan.table_digest,
        microbatches=plan.pipeline.microbatches,
        stages=stages,
        events=tuple(events),
        chunks=plan.chunks,
        folded=price.times.fold is not None,
    )


def _mesh(strategy: Strategy) -> str:
    mesh = f"({strategy.dp},{strategy.cp},{strategy.tp})"
    if strategy.has_expert_degrees:
        mesh += f" experts ({strategy.ep},{strategy.etp})"
    return mesh if strategy.recompute == "none" else f"{mesh}, {strategy.recompute}"


def _stage_events(price: Price, run: Simulation, stage: int) -> Iterator[TimelineEvent]:
    """Yield a stage's passes, synchronisation and transfers that take time."""
    times = price.times
    lane = Lane(stage, "stage")
    starts, ends = (
        {kind: rows[stage] for kind, rows in each.items()}
        for each in (run.starts_ns, run.ends_ns)
    )
    again = starts["B"] + (price.recompute_ns[stage] or 0)
    yield from _all(lane, "forward", starts["F"], ends["F"])
    if price.recompute_ns[stage]:
        yield from _all(lane, "recompute", starts["B"], again)
    yield from _all(lane, "backward", again, ends["B"])
    if "W" in starts:
        yield from _all(lane, "weight", starts["W"], ends["W"])
    end, sync = run.last_end_ns[stage], times.sync_ns[stage]
    if sync:
        yield TimelineEvent(lane, "sync", None, end * TICK_S, (end + sync) * TICK_S)
    yield from _sent(times, run, stage)


def _sent(times: PipelineTimes, run: Simulation, stage: int) -> Iterator[TimelineEvent]:
    """Yield the transfers of a stage in both directions."""
    orders = times.orders
    activities: dict[str, Activity] = {"F": "send-forward", "B": "send-backward"}
    for kind, activity in activities.items():
        for number, start in enumerate(run.sent_ns[kind][stage].tolist()):
            target = orders.target(kind, stage, number)
            if target is None or target[0] == stage:
                continue
            down = orders.goes_down(kind, number)
            lane = Lane(stage, "downstream" if down else "upstream")
            boundary = (stage if down else stage - 1) % times.stages
            end = start + times.every_transfer_ns[boundary]
            if end > start:
                yield TimelineEvent(
                    lane, activity, number, start * TICK_S, end * TICK_S
                )


def _all(
    lane: Lane,
    activity: Activity,
    starts_ns: NDArray[np.int64],
    ends_ns: NDArray[np.int64],
) -> Iterator[TimelineEvent]:
    """Yield one event of an activity for every micro-batch, or pass."""
    both = zip(starts_ns.tolist(), ends_ns.tolist(), strict=True)
    for microbatch, (start, end) in enumerate(both):
        yield TimelineEvent(lane, activity, microbatch, start * TICK_S, end * TICK_S)
