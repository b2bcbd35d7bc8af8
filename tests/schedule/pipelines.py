"""Pipelines to test with, and the longest path through an explicit event graph."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from hetopt.problem.training.choices import INTERLEAVED, SCHEDULES
from hetopt.schedule.schedules import rule_of
from hetopt.schedule.times import Chunks, PipelineTimes
from hetopt.schedule.warmup import warmup_counts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from hetopt.problem.training.choices import ScheduleName

#: What an edge of the event graph is: (event, event it waits for, delay).
Event = tuple[str, int, int]
Edge = tuple[Event, Event, int]


def pipeline(
    forward: Sequence[int],
    backward: Sequence[int],
    transfer: Sequence[int] = (),
    *,
    microbatches: int,
    warmups: Sequence[int],
    occupancy: Sequence[int] | None = None,
    sync: Sequence[int] | None = None,
    schedule: ScheduleName = "1f1b",
) -> PipelineTimes:
    return PipelineTimes(
        schedule=schedule,
        microbatches=microbatches,
        forward_ns=tuple(forward),
        backward_ns=tuple(backward),
        transfer_ns=tuple(transfer),
        occupancy_ns=tuple(transfer if occupancy is None else occupancy),
        sync_ns=tuple(sync if sync is not None else [0] * len(forward)),
        warmups=tuple(warmups),
    )


@st.composite
def pipelines(
    draw: st.DrawFn, max_stages: int = 5, max_microbatches: int = 8
) -> PipelineTimes:
    """Any pipeline that does not deadlock: named schedules and other warm-ups."""
    stages = draw(st.integers(1, max_stages))
    microbatches = draw(st.integers(1, max_microbatches))
    per_stage = st.lists(st.integers(0, 20), min_size=stages, max_size=stages)
    forward, backward, sync = draw(per_stage), draw(per_stage), draw(per_stage)
    transfer = [draw(st.integers(0, 25)) for _ in range(stages - 1)]
    named = [
        name
        for name in SCHEDULES
        if not (
            rule_of(name).blocking or rule_of(name).interleaved or rule_of(name).splits
        )
    ]
    schedule = draw(st.sampled_from(named))
    if draw(st.booleans()):
        warmups = warmup_counts(
            schedule,
            microbatches=microbatches,
            crosses=[draw(st.booleans()) for _ in transfer],
            round_trip_ns=[f + b for f, b in zip(forward, backward, strict=True)],
            transfer_ns=transfer,
        )
    else:
        falling = sorted(
            (draw(st.integers(1, 12)) for _ in range(stages)), reverse=True
        )
        warmups = tuple(falling)
    return pipeline(
        forward,
        backward,
        transfer,
        microbatches=microbatches,
        warmups=warmups,
        occupancy=[draw(st.integers(0, kappa)) for kappa in transfer],
        sync=sync,
        schedule=schedule,
    )


def random_pipeline(
    random: Random, *, max_stages: int, microbatches: int
) -> PipelineTimes:
    """A pipeline with a steady state, balanced or not, under falling warm-ups."""
    stages = random.randint(1, max_stages)
    spread = random.choice((0, 3, 40))
    forward = [random.randint(60 - spread, 60 + spread) for _ in range(stages)]
    backward = [random.randint(90 - spread, 90 + spread) for _ in range(stages)]
    transfer = [random.randint(0, random.choice((5, 80, 300))) for _ in forward[1:]]
    warmups = [random.randint(1, 3)]
    for _ in transfer:
        warmups.append(warmups[-1] + random.randint(0, 3))
    return pipeline(
        forward,
        backward,
        transfer,
        microbatches=microbatches,
        warmups=warmups[::-1],
        occupancy=[random.randint(0, kappa) for kappa in transfer],
        sync=[random.randint(0, 50) for _ in forward],
    )


def stage_order(warmup: int, microbatches: int) -> list[tuple[str, int]]:
    """What a stage runs, in order, read off MODEL.md section 4."""
    order = [("F", m) for m in range(min(warmup, microbatches))]
    for m in range(microbatches):
        order.append(("B", m))
        if warmup + m < microbatches:
            order.append(("F", warmup + m))
    return order


def event_graph(times: PipelineTimes) -> list[Edge]:
    """Every wait of the schedule as an edge between *starts* of events.

    F and B compute; S and G send activations and gradients from a stage; "end" is
    the end of everything.
    """
    edges: list[Edge] = []
    duration = {"F": times.forward_ns, "B": times.backward_ns}
    last = len(times.forward_ns) - 1
    for stage, warmup in enumerate(times.warmups):
        order = stage_order(warmup, times.microbatches)
        for (kind, m), (next_kind, n) in pairwise(order):
            edges.append(
                ((next_kind, stage, n), (kind, stage, m), duration[kind][stage])
            )
        for m in range(times.microbatches):
            if stage < last:
                edges.append((("S", stage, m), ("F", stage, m), duration["F"][stage]))
                edges.append(
                    (("F", stage + 1, m), ("S", stage, m), times.transfer_ns[stage])
                )
            if stage > 0:
                edges.append((("G", stage, m), ("B", stage, m), duration["B"][stage]))
                kappa = times.transfer_ns[stage - 1]
                edges.append((("B", stage - 1, m), ("G", stage, m), kappa))
            if m + 1 < times.microbatches:
                if stage < last:
                    omega = times.occupancy_ns[stage]
                    edges.append((("S", stage, m + 1), ("S", stage, m), omega))
                if stage > 0:
                    omega = times.occupancy_ns[stage - 1]
                    edges.append((("G", stage, m + 1), ("G", stage, m), omega))
        final = ("B", stage, times.microbatches - 1)
        edges.append(
            (("end", 0, 0), final, duration["B"][stage] + times.sync_ns[stage])
        )
    return edges


def longest_paths(edges: Sequence[Edge]) -> dict[Event, int]:
    """Earliest start of every event, by relaxing all edges until nothing moves.

    Raises
    ------
    ValueError
        If that never ends: the events wait for each other in a circle.
    """
    start: dict[Event, int] = {}
    for event, before, _ in edges:
        start[event] = start[before] = 0
    waits: dict[Event, set[Event]] = {event: set() for event in start}
    for event, before, _ in edges:
        waits[event].add(before)
    done: set[Event] = set()
    while len(done) < len(start):
        ready = {e for e in start if e not in done and waits[e] <= done}
        if not ready:
            msg = "deadlock"
            raise ValueError(msg)
        done |= ready
    moved = True
    while moved:
        moved = False
        for event, before, delay in edges:
            if start[before] + delay > start[event]:
                start[event] = start[before] + delay
                moved = True
    return start


def chunked(
    random: Random, stages: int, microbatches: int, chunks: int
) -> PipelineTimes:
    """Draw a pipeline of several chunks a stage, whose links are free in between.

    Embedding and head take 7 and 9, and 11 and 13 ms.
    """
    ms = 1_000_000
    ends = [(7 * ms, 9 * ms), (11 * ms, 13 * ms)]
    forward, backward = (
        [random.randint(2, 90) * ms for _ in range(stages)] for _ in range(2)
    )
    for stage, (more, more_back) in zip((0, -1), ends, strict=True):
        forward[stage] += more // chunks
        backward[stage] += more_back // chunks
    *transfer, way_back = (random.randint(1, 40) * ms for _ in range(stages))
    return PipelineTimes(
        schedule=INTERLEAVED,
        microbatches=microbatches,
        forward_ns=tuple(forward),
        backward_ns=tuple(backward),
        transfer_ns=tuple(transfer),
        occupancy_ns=tuple(transfer),
        sync_ns=(3 * ms,) * stages,
        warmups=warmup_counts(
            INTERLEAVED,
            microbatches=microbatches,
            crosses=[False] * (stages - 1),
            round_trip_ns=[1] * stages,
            transfer_ns=[0] * (stages - 1),
            chunks=chunks,
        ),
        chunks=Chunks(
            count=chunks,
            way_back_ns=way_back,
            way_back_occupancy_ns=way_back,
            lead_ns=ends[0],
            trail_ns=ends[1],
        ),
    )
