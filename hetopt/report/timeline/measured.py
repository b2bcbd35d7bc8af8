"""A measured iteration, in the same timeline as the simulated one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.report.timeline.timeline import Lane, TimelineEvent
from hetopt.schedule.orders import FOLDED_CHUNKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hetopt.report.timeline.timeline import Activity, Timeline
    from hetopt.running.records import Iteration, Span


def with_measured(timeline: Timeline, iteration: Iteration) -> Timeline:
    """Return the timeline with the events of a measured iteration added."""
    events = *timeline.events, *_events(iteration, timeline.folded)
    return replace(timeline, events=events)


def _events(iteration: Iteration, folded: bool) -> Iterator[TimelineEvent]:
    for stage, span in enumerate(iteration.sync):
        lane = Lane(stage, "stage")
        yield from _all(lane, "forward", enumerate(iteration.forward[stage]))
        yield from _all(lane, "backward", enumerate(iteration.backward[stage]))
        yield from _all(lane, "weight", enumerate(iteration.weight[stage]))
        yield TimelineEvent(lane, "sync", None, span.start_s, span.end_s, "measured")
    stages = len(iteration.sync)
    for boundary in range(len(iteration.sent_forward)):
        down = Lane(boundary, "downstream")
        up = Lane((boundary + 1) % stages, "upstream")
        both: tuple[tuple[Activity, dict[int, Span], tuple[Lane, Lane]], ...] = (
            ("send-forward", iteration.sent_forward[boundary], (down, up)),
            ("send-backward", iteration.sent_backward[boundary], (up, down)),
        )
        for activity, sent, lanes in both:
            for number, span in sent.items():
                # The second chunk of a folded stage is on the way back.
                lane = lanes[folded and number % FOLDED_CHUNKS]
                yield from _all(lane, activity, [(number, span)])


def _all(
    lane: Lane, activity: Activity, spans: Iterable[tuple[int, Span]]
) -> Iterator[TimelineEvent]:
    for microbatch, (start_s, end_s, _) in spans:
        yield TimelineEvent(lane, activity, microbatch, start_s, end_s, "measured")
