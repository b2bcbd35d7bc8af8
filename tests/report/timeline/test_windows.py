"""Which stretches of an iteration are shown, and how times are named."""

from __future__ import annotations

from itertools import pairwise

import pytest

from hetopt.report.timeline.windows import TimeAxis, time_axis
from tests.report.timeline.making import MS, balanced, timeline_of
from tests.schedule.pipelines import pipeline


def axis_of(stages: int, microbatches: int, most_events: int = 25_000) -> TimeAxis:
    timeline = timeline_of(balanced(stages, microbatches))
    return time_axis(timeline, left=100.0, right=1100.0, most_events=most_events)


@pytest.mark.parametrize("microbatches", [1, 4, 150])
def test_all_of_a_short_iteration_is_shown(microbatches: int) -> None:
    (window,) = axis_of(3, microbatches).windows
    end_s = timeline_of(balanced(3, microbatches)).end_s("modelled")
    assert (window.start_s, window.end_s) == (0, end_s)
    assert (window.left, window.right) == (100, 1100)
    assert window.x(end_s / 4) == pytest.approx(350)
    # What lies outside is drawn at the edge.
    assert (window.x(-1), window.x(2 * end_s)) == (100, 1100)


@pytest.mark.parametrize(
    ("stages", "microbatches", "most_events"),
    [
        (3, 151, 25_000),
        (60, 512, 25_000),
        (3, 100, 500),
        (20, 5, 100),
        (3, 5, 43),
        (3, 1, 1),
    ],
)
def test_of_a_long_one_the_beginning_the_middle_and_the_end(
    stages: int, microbatches: int, most_events: int
) -> None:
    axis = axis_of(stages, microbatches, most_events)
    end_s = timeline_of(balanced(stages, microbatches)).end_s("modelled")
    first, middle, last = axis.windows
    assert first.start_s == 0
    assert last.end_s == pytest.approx(end_s)
    assert middle.start_s + middle.end_s == pytest.approx(end_s)
    assert axis.left_out() == [
        (first.end_s, middle.start_s),
        (middle.end_s, last.start_s),
    ]
    assert all(start < end for start, end in axis.left_out())
    assert [first.left, last.right] == pytest.approx([100, 1100])
    for one, other in pairwise(axis.windows):
        assert other.left - one.right == pytest.approx(18)
    scales = [(w.right - w.left) / (w.end_s - w.start_s) for w in axis.windows]
    assert scales == pytest.approx([scales[0]] * 3)


def test_warm_up_and_the_last_backward_passes_are_shown_whole() -> None:
    timeline = timeline_of(balanced(12, 512))
    first, _, last = axis_of(12, 512).windows
    own = [event for event in timeline.events if event.lane == (0, "stage")]
    assert first.end_s >= min(e.end_s for e in own if e.activity == "backward")
    assert last.start_s <= max(e.end_s for e in own if e.activity == "forward")


@pytest.mark.parametrize(
    ("unit_ns", "unit"),
    [(1, "µs"), (MS // 100, "µs"), (MS // 10, "ms"), (MS, "ms"), (10**12, "s")],
)
def test_times_are_named_in_a_unit_that_fits(unit_ns: int, unit: str) -> None:
    times = pipeline(
        [3 * unit_ns], [7 * unit_ns], microbatches=7, warmups=[1], sync=[0]
    )
    timeline = timeline_of(times)
    axis = time_axis(timeline, left=0.0, right=900.0, most_events=100)
    (window,) = axis.windows
    assert axis.unit == unit
    ticks_s = window.ticks_s(axis.step_s)
    assert 3 <= len(ticks_s) <= 13
    places = [window.x(time_s) for time_s in ticks_s]
    assert all(after - before > 74 for before, after in pairwise(places))
    names = [axis.text(time_s) for time_s in ticks_s]
    assert len(set(names)) == len(names)
    for name, time_s in zip(names, ticks_s, strict=True):
        assert float(name) == pytest.approx(time_s * axis.per_s, rel=1e-9, abs=1e-9)


def test_an_iteration_of_no_length_has_an_axis() -> None:
    times = pipeline([0], [0], microbatches=1, warmups=[1])
    axis = time_axis(timeline_of(times), left=0.0, right=9.0, most_events=9)
    (window,) = axis.windows
    assert window.x(0.0) == 0
