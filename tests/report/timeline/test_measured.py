"""A measured iteration stands under the simulated one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from hetopt.report.timeline.measured import with_measured
from hetopt.report.timeline.picture import picture
from hetopt.report.timeline.trace import trace_json
from hetopt.running.records import iterations_of
from tests.report.timeline.making import balanced, timeline_of
from tests.running.making import ranks_of

if TYPE_CHECKING:
    from hetopt.report.timeline.timeline import Timeline


@pytest.fixture
def both() -> Timeline:
    times = balanced(3, 4)
    (iteration,) = iterations_of(ranks_of(times))
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
    sources = [each["cat"] for each in trace["traceEvents"] if each["ph"] == "X"]
    assert sources.count("measured") == sources.count("modelled") > 0
