"""A measured iteration stands under the simulated one."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from hetopt.report.timeline.measured import with_measured
from hetopt.report.timeline.picture import picture
from hetopt.report.timeline.trace import trace_json
from hetopt.running.records import iterations_of
from tests.report.timeline.making import balanced, timeline_of
from tests.running.making import ranks_of
from tests.schedule.pipelines import chunked
from tests.schedule.test_folding import folded_pipeline
from tests.schedule.test_weights import split_pipeline

if TYPE_CHECKING:
    from hetopt.report.timeline.timeline import Timeline


@pytest.fixture(params=["one chunk", "two chunks", "zb-h1", "zb-v"])
def both(request: pytest.FixtureRequest) -> Timeline:
    times = balanced(3, 4)
    if request.param == "two chunks":
        times = chunked(Random(0), 3, 6, 2)
    if request.param.startswith("zb"):
        make = split_pipeline if request.param == "zb-h1" else folded_pipeline
        times = make(Random(5), stages=3)
        times = replace(times, occupancy_ns=times.transfer_ns, sync_ns=(9,) * 3)
    chunks = 1 if times.chunks is None else times.chunks.count
    folded = times.fold is not None
    (iteration,) = iterations_of(ranks_of(times), chunks, folded=folded)
    return with_measured(timeline_of(times), iteration)


def test_what_went_as_simulated_has_the_same_events(both: Timeline) -> None:
    assert both.sources == ("modelled", "measured")
    modelled, measured = (
        {
            (event.lane, event.activity, event.microbatch): event
            for event in both.events
            if event.source == source
        }
        for source in both.sources
    )
    assert {*modelled} == {*measured}
    for key, event in modelled.items():
        assert measured[key].start_s == pytest.approx(event.start_s, abs=1e-6)
        assert measured[key].end_s == pytest.approx(event.end_s, abs=1e-6)
    assert both.end_s("measured") == pytest.approx(both.end_s("modelled"))


def test_both_are_drawn(both: Timeline) -> None:
    text = picture(both)
    assert "Upper half of a lane: times of a model. Lower half: measured times." in text
    assert "s per iteration, measured" in text
    trace = json.loads(trace_json(both))
    if both.chunks > 1:
        assert "Numbers are chunk:micro-batch" in text
        names = [each["name"] for each in trace["traceEvents"]]
        assert {"forward 0:0", "forward 1:5", "backward 1:0"} <= {*names}
        of = {"chunk": 1, "microbatch": 5}
        assert of in [each.get("args") for each in trace["traceEvents"]]
    sources = [each["cat"] for each in trace["traceEvents"] if each["ph"] == "X"]
    assert sources.count("measured") == sources.count("modelled") > 0
