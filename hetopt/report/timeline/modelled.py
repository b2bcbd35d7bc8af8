"""A simulated iteration as a timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.cost.table import TICK_S
from hetopt.report.rows import chain
from hetopt.report.summary import shape
from hetopt.report.timeline.timeline import Lane, Timeline, TimelineEvent, TimelineStage

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from hetopt.plans import Plan, Strategy
    from hetopt.pricing import Price
    from hetopt.report.timeline.timeline import Activity, LaneKind
    from hetopt.schedule.simulator import Simulation


def modelled_timeline(
    problem: str, plan: Plan, price: Price, run: Simulation
) -> Timeline:
    """Return everything that takes time in a simulated iteration.

    Parameters
    ----------
    problem
        Its name.
    price, run
        Of the plan.
    """
    stages = tuple(
        TimelineStage(
            cluster=stage.cluster,
            mesh=_mesh(stage.strategy),
            base_bytes=price.memory_bytes[i]
            - price.times.inflight[i] * price.activation_bytes[i],
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
    )


def _mesh(strategy: Strategy) -> str:
    mesh = f"({strategy.dp},{strategy.cp},{strategy.tp})"
    return mesh if strategy.recompute == "none" else f"{mesh}, {strategy.recompute}"


def _stage_events(price: Price, run: Simulation, stage: int) -> Iterator[TimelineEvent]:
    """Yield what a stage computes and sends; what takes no time is left out."""
    times = price.times
    lane = Lane(stage, "stage")
    forward, backward = run.forward_start_ns[stage], run.backward_start_ns[stage]
    recompute = price.recompute_ns[stage] or 0
    rest = times.backward_ns[stage] - recompute
    yield from _all(lane, "forward", forward, times.forward_ns[stage])
    if recompute:
        yield from _all(lane, "recompute", backward, recompute)
    yield from _all(lane, "backward", backward + recompute, rest)
    end = int(run.backward_end_ns[stage, -1])
    sync = times.sync_ns[stage]
    if sync:
        yield TimelineEvent(lane, "sync", None, end * TICK_S, (end + sync) * TICK_S)
    if stage + 1 < times.stages and times.transfer_ns[stage]:
        yield from _sent(run, stage, "downstream", times.transfer_ns[stage])
    if stage and times.transfer_ns[stage - 1]:
        yield from _sent(run, stage, "upstream", times.transfer_ns[stage - 1])


def _sent(
    run: Simulation, stage: int, kind: LaneKind, length_ns: int
) -> Iterator[TimelineEvent]:
    """Yield the transfers of a stage in one direction."""
    lane = Lane(stage, kind)
    if kind == "downstream":
        starts_ns = run.send_forward_start_ns[stage]
        yield from _all(lane, "send-forward", starts_ns, length_ns)
    else:
        starts_ns = run.send_backward_start_ns[stage]
        yield from _all(lane, "send-backward", starts_ns, length_ns)


def _all(
    lane: Lane, activity: Activity, starts_ns: NDArray[np.int64], length_ns: int
) -> Iterator[TimelineEvent]:
    """Yield one activity of every micro-batch."""
    for microbatch, start in enumerate(starts_ns.tolist()):
        end = start + length_ns
        yield TimelineEvent(lane, activity, microbatch, start * TICK_S, end * TICK_S)
