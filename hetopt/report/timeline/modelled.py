"""A simulated iteration as a timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.table.ticks import TICK_S
from hetopt.report.rows import chain
from hetopt.report.summary import shape
from hetopt.report.timeline.timeline import Lane, Timeline, TimelineEvent, TimelineStage
from hetopt.schedule.chunks import chunk_and_microbatch
from hetopt.schedule.events import BACKWARD, FORWARD
from hetopt.schedule.folding import sends_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hetopt.plans.plan import Plan
    from hetopt.plans.strategy import Strategy
    from hetopt.pricing.price import Price
    from hetopt.report.timeline.timeline import Activity, LaneKind
    from hetopt.schedule.simulator import Simulation
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
    forward, backward = run.forward_start_ns[stage], run.backward_start_ns[stage]
    ends = run.backward_end_ns[stage]
    again = backward + (price.recompute_ns[stage] or 0)
    yield from _all(lane, "forward", forward, run.forward_end_ns[stage])
    if price.recompute_ns[stage]:
        yield from _all(lane, "recompute", backward, again)
    yield from _all(lane, "backward", again, ends)
    if run.weight_start_ns is not None:
        weights = run.weight_start_ns[stage]
        later = np.array(times.weights_ns(stage))
        ends = weights + np.resize(later, len(weights))
        yield from _all(lane, "weight", weights, ends)
    end, sync = int(ends.max()), times.sync_ns[stage]
    if sync:
        yield TimelineEvent(lane, "sync", None, end * TICK_S, (end + sync) * TICK_S)
    for kind in ("downstream", "upstream"):
        if times.fold is None:
            yield from _sent(times, run, stage, kind)
        else:
            yield from _sent_folded(times, run, stage, kind)


def _sent(
    times: PipelineTimes, run: Simulation, stage: int, kind: LaneKind
) -> Iterator[TimelineEvent]:
    """Yield the transfers of a stage in one direction."""
    onward = kind == "downstream"
    boundary = stage if onward else (stage - 1) % times.stages
    if (
        boundary >= len(times.every_transfer_ns)
        or not times.every_transfer_ns[boundary]
    ):
        return
    sent = run.send_forward_start_ns if onward else run.send_backward_start_ns
    starts = sent[stage]
    events = _all(
        Lane(stage, kind),
        "send-forward" if onward else "send-backward",
        starts,
        starts + times.every_transfer_ns[boundary],
    )
    if times.chunks is None or boundary < times.stages - 1:
        yield from events
        return
    # The last chunk's result is the loss, and the first chunk's gradient is not sent.
    left_out = times.chunks.count - 1 if onward else 0
    for number, event in enumerate(events):
        chunk, _ = chunk_and_microbatch(number, times.stages, times.chunks.count)
        if chunk != left_out:
            yield event


def _sent_folded(
    times: PipelineTimes, run: Simulation, stage: int, kind: LaneKind
) -> Iterator[TimelineEvent]:
    """Yield the transfers of both chunks of a folded stage in one direction."""
    to = stage + (1 if kind == "downstream" else -1)
    if not 0 <= to < times.stages:
        return
    took = times.every_transfer_ns[min(stage, to)]
    sent: list[tuple[int, Activity, NDArray[np.int64]]] = [
        (FORWARD, "send-forward", run.send_forward_start_ns[stage]),
        (BACKWARD, "send-backward", run.send_backward_start_ns[stage]),
    ]
    for passes, activity, starts in sent:
        for number, event in enumerate(
            _all(Lane(stage, kind), activity, starts, starts + took)
        ):
            if took and sends_to(passes, stage, number, times.stages) == (to, number):
                yield event


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
