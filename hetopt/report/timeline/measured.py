"""A measured iteration, over the simulated one in the same timeline."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.report.timeline.timeline import Lane, TimelineEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hetopt.report.timeline.timeline import Activity, Timeline
    from hetopt.running.records import Iteration, Span


def with_measured(timeline: Timeline, iteration: Iteration) -> Timeline:
    """Return the timeline with what was measured beside what is in it."""
    events = *timeline.events, *_events(iteration)
    return replace(timeline, events=events)


def _events(iteration: Iteration) -> Iterator[TimelineEvent]:
    for stage, span in enumerate(iteration.sync):
        lane = Lane(stage, "stage")
        yield from _all(lane, "forward", enumerate(iteration.forward[stage]))
        yield from _all(lane, "backward", enumerate(iteration.backward[stage]))
        yield TimelineEvent(lane, "sync", None, span.start_s, span.end_s, "measured")
    stages = len(iteration.sync)
    for number, spans in enumerate(iteration.sent_forward):
        yield from _all(Lane(number, "downstream"), "send-forward", spans.items())
    for number, spans in enumerate(iteration.sent_backward, start=1):
        lane = Lane(number % stages, "upstream")
        yield from _all(lane, "send-backward", spans.items())


def _all(
    lane: Lane, activity: Activity, spans: Iterable[tuple[int, Span]]
) -> Iterator[TimelineEvent]:
    for microbatch, (start_s, end_s, _) in spans:
        yield TimelineEvent(lane, activity, microbatch, start_s, end_s, "measured")
