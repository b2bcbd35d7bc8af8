"""What a script draws is what the timeline holds."""

from __future__ import annotations

from typing import Any

import pytest

from hetopt.cost.table.ticks import TICK_S
from hetopt.report.page.events import events_of
from hetopt.report.timeline.timeline import Timeline
from tests.report.timeline.making import balanced, timeline_of

ENOUGH = 10**9


def numbers(text: str) -> list[int]:
    """Read a list as the script does."""
    found: list[int] = []
    value = 0
    for part in text.split():
        step, _, times = part.partition("x")
        for _ in range(int(times or 1)):
            value += int(step)
            found.append(value)
    return found


def read(data: dict[str, Any]) -> set[tuple[object, ...]]:
    events: set[tuple[object, ...]] = set()
    for run in data["runs"]:
        starts, lengths = numbers(run["starts"]), numbers(run["lengths"])
        own = run["microbatches"]
        labels = [None] * len(starts) if own is None else numbers(own)
        for start, length, label in zip(starts, lengths, labels, strict=True):
            place = run["stage"], run["lane"], run["activity"], label
            events.add((*place, start, start + length))
    return events


def expected(timeline: Timeline) -> set[tuple[object, ...]]:
    return {
        (
            *(event.lane.stage, event.lane.kind, event.activity, event.microbatch),
            *(round(event.start_s / TICK_S), round(event.end_s / TICK_S)),
        )
        for _, _, events in timeline.lanes()
        for event in events
    }


@pytest.mark.parametrize("recompute_ns", [0, 4_000_000])
def test_every_event_is_there(recompute_ns: int) -> None:
    timeline = timeline_of(balanced(5, 17), recompute_ns=recompute_ns)
    data = events_of(timeline, ENOUGH, 1.0)
    assert data["windows"] == []
    assert read(data) == expected(timeline)


def test_what_is_regular_is_short() -> None:
    few, many = (
        events_of(timeline_of(balanced(1, count)), ENOUGH, 1.0) for count in (50, 5000)
    )
    for one, other in zip(few["runs"], many["runs"], strict=True):
        assert len(other["starts"]) <= len(one["starts"]) + 4


def test_of_too_many_events_those_in_windows_are_there() -> None:
    timeline = timeline_of(balanced(4, 300))
    data = events_of(timeline, 2000, 1.0)
    assert len(data["windows"]) == 3
    found = read(data)
    assert found == {
        event
        for event in expected(timeline)
        if any(event[5] > start and event[4] < end for start, end in data["windows"])
    }
    assert 0 < len(found) < len(expected(timeline)) / 2
