"""What a timeline says is what the simulator and the price say."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from hetopt.report.timeline.timeline import Lane, TimelineEvent
from hetopt.report.timeline.trace import trace_json
from hetopt.schedule.run import simulate
from tests.report.timeline.making import GB, MS, balanced, price_of, timeline_of
from tests.schedule.pipelines import chunked, pipeline, random_pipeline
from tests.schedule.test_weights import split_pipeline

RANDOM = range(15)


@pytest.mark.parametrize("seed", RANDOM)
def test_every_event_is_there_when_the_simulator_has_it(seed: int) -> None:
    times = random_pipeline(Random(seed), max_stages=5, microbatches=6)
    run = simulate(times)
    timeline = timeline_of(times)
    assert timeline.end_s("modelled") == pytest.approx(run.makespan_ns * 1e-9)
    found = {
        (event.lane, event.activity, event.microbatch): event
        for event in timeline.events
    }
    assert len(found) == len(timeline.events)
    last = times.stages - 1
    for stage in range(times.stages):
        own = Lane(stage, "stage")
        for m in range(times.microbatches):
            forward = found.pop((own, "forward", m))
            assert forward.start_s == pytest.approx(run.starts_ns["F"][stage, m] * 1e-9)
            assert forward.end_s == pytest.approx(run.ends_ns["F"][stage, m] * 1e-9)
            backward = found.pop((own, "backward", m))
            assert backward.end_s == pytest.approx(run.ends_ns["B"][stage, m] * 1e-9)
            if stage < last and times.transfer_ns[stage]:
                sent = found.pop((Lane(stage, "downstream"), "send-forward", m))
                needed = run.starts_ns["F"][stage + 1, m] * 1e-9
                assert forward.end_s <= sent.start_s < sent.end_s <= needed + 1e-12
            if stage and times.transfer_ns[stage - 1]:
                sent = found.pop((Lane(stage, "upstream"), "send-backward", m))
                needed = run.starts_ns["B"][stage - 1, m] * 1e-9
                assert backward.end_s <= sent.start_s < sent.end_s <= needed + 1e-12
        if times.sync_ns[stage]:
            sync = found.pop((own, "sync", None))
            end = (run.ends_ns["B"][stage, -1] + times.sync_ns[stage]) * 1e-9
            assert sync.end_s == pytest.approx(end)
    assert found == {}


@pytest.mark.parametrize("seed", RANDOM)
def test_gradients_of_weights_have_events_of_their_own(seed: int) -> None:
    times = split_pipeline(Random(seed))
    run = simulate(times)
    timeline = timeline_of(times)
    assert timeline.end_s("modelled") == pytest.approx(run.makespan_ns * 1e-9)
    for stage in range(times.stages):
        own = [e for e in timeline.events if e.lane == Lane(stage, "stage")]
        assert all(a.end_s <= b.start_s + 1e-12 for a, b in pairwise(own))
        weights = [e for e in own if e.activity == "weight"]
        assert len(weights) == times.microbatches
        for event in weights:
            expected = run.starts_ns["W"][stage, event.microbatch] * 1e-9
            assert event.start_s == pytest.approx(expected)
            lasts = times.later_ns[stage] * 1e-9
            assert event.end_s - event.start_s == pytest.approx(lasts)


@pytest.mark.parametrize("seed", RANDOM)
def test_every_pass_of_several_chunks_waits_for_its_transfer(seed: int) -> None:
    p, q, v = 3, 6, 2
    times = chunked(Random(seed), p, q, v)
    run = simulate(times)
    timeline = timeline_of(times)
    assert timeline.end_s("modelled") == pytest.approx(run.makespan_ns * 1e-9)
    found: dict[Any, TimelineEvent] = {
        (*e.lane, e.activity, e.microbatch): e for e in timeline.events
    }
    for stage in range(p):
        assert (stage, "stage", "sync", None) in found
        for number in range(q * v):
            chunk = number // p % v
            for activity, kind, ends, step in (
                ("forward", "downstream", chunk == v - 1, 1),
                ("backward", "upstream", chunk == 0, -1),
            ):
                here = found[stage, "stage", activity, number]
                key: Any = (stage, kind, f"send-{activity}", number)
                rounds, to = divmod(stage + step, p)
                if rounds and ends:
                    assert key not in found
                    continue
                sent = found[key]
                needing = found[to, "stage", activity, number + rounds * p]
                assert here.end_s <= sent.start_s + 1e-12
                assert sent.end_s <= needing.start_s + 1e-12
    arrows = [e for e in json.loads(trace_json(timeline))["traceEvents"] if "bp" in e]
    assert len(arrows) == 2 * q * (p * v - 1)


@pytest.mark.parametrize("seed", RANDOM)
def test_memory_peaks_at_what_the_plan_needs(seed: int) -> None:
    times = random_pipeline(Random(seed), max_stages=5, microbatches=6)
    price = price_of(times)
    for stage, steps in enumerate(timeline_of(times).memory_steps()):
        assert max(held for _, held in steps) == price.memory_bytes[stage]
        assert steps[0][0] == 0
        assert steps[-1][1] == 20 * GB
        assert all(one[0] < other[0] for one, other in pairwise(steps))
        assert all(one[1] != other[1] for one, other in pairwise(steps))


@pytest.mark.parametrize("seed", RANDOM)
def test_nothing_overlaps_in_a_lane(seed: int) -> None:
    times = random_pipeline(Random(seed), max_stages=5, microbatches=6)
    for _, _, events in timeline_of(times).lanes():
        for one, other in pairwise(events):
            assert one.start_s <= one.end_s <= other.start_s


def test_a_transfer_is_cut_off_where_the_next_one_begins() -> None:
    """Of 5 ms only 2 occupy the link, which forwards of 2 ms keep busy."""
    times = pipeline(
        *([2 * MS, 2 * MS], [2 * MS, 2 * MS], [5 * MS]),
        microbatches=3,
        warmups=[3, 1],
        occupancy=[2 * MS],
    )
    timeline = timeline_of(times)
    whole = [e for e in timeline.events if e.activity == "send-forward"]
    assert [event.end_s - event.start_s for event in whole] == pytest.approx([5e-3] * 3)
    (drawn,) = [
        events for _, lane, events in timeline.lanes() if lane == (0, "downstream")
    ]
    lengths = [event.end_s - event.start_s for event in drawn]
    assert lengths == pytest.approx([2e-3, 2e-3, 5e-3])


def test_recomputation_comes_out_of_the_backward_pass() -> None:
    times = balanced(2, 4)
    plain, split = timeline_of(times), timeline_of(times, recompute_ns=9 * MS)
    unknown = timeline_of(times, recompute_ns=None)
    assert unknown.events == plain.events
    assert [stage.recompute_inside for stage in unknown.stages] == [True, True]
    assert not any(stage.recompute_inside for stage in split.stages)
    counts = Counter(event.activity for event in split.events)
    assert counts["recompute"] == counts["backward"] == 2 * 4
    before = {e[:3]: e for e in plain.events if e.activity == "backward"}
    again = {e[:3]: e for e in split.events if e.activity == "recompute"}
    for event in split.events:
        if event.activity == "backward":
            recompute = again[event.lane, "recompute", event.microbatch]
            whole = before[event[:3]]
            assert recompute.start_s == whole.start_s
            assert (
                recompute.end_s == event.start_s == pytest.approx(whole.start_s + 9e-3)
            )
            assert event.end_s == whole.end_s
