"""Events of a timeline as compact data, for the page's script to draw.

Times are whole ticks. A list of numbers is written as differences from one to the next,
the first from 0, and ``5x3`` stands for three times 5, so that regular lists are short.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

from hetopt.cost.table.ticks import TICK_S
from hetopt.report.timeline.picture import MOST_EVENTS
from hetopt.report.timeline.windows import time_axis

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hetopt.report.timeline.timeline import Activity, Timeline, TimelineEvent

#: Bytes of an event that does not continue a regular sequence.
_BYTES_PER_EVENT = 24
#: Assumed width of the axis, by which windows are chosen if not all is embedded.
_WIDTH = 1000.0


def events_of(timeline: Timeline, most_bytes: int, end_s: float) -> dict[str, Any]:
    """Return the events of an iteration as plain JSON data.

    Parameters
    ----------
    most_bytes
        If they take more, only events in some windows are returned: at the beginning,
        in the middle and at the end.
    end_s
        End of the shown time.
    """
    about = {
        "tick_s": TICK_S,
        "end": _ticks(end_s),
        "clusters": [stage.cluster for stage in timeline.stages],
        "chunks": timeline.chunks,
        "folded": timeline.folded,
    }
    runs = list(_runs(timeline, ()))
    if sum(len(run["starts"]) + len(run["lengths"]) for run in runs) <= most_bytes:
        return {**about, "windows": [], "runs": runs}
    most = min(MOST_EVENTS, most_bytes // _BYTES_PER_EVENT)
    axis = time_axis(timeline, left=0.0, right=_WIDTH, most_events=most)
    windows = [(window.start_s, window.end_s) for window in axis.windows]
    return {
        **about,
        "windows": [[_ticks(start), _ticks(end)] for start, end in windows],
        "runs": list(_runs(timeline, windows)),
    }


def _runs(
    timeline: Timeline, windows: Sequence[tuple[float, float]]
) -> Iterator[dict[str, Any]]:
    """Yield each activity of each lane, only within the windows if there are any."""
    for _, lane, events in timeline.lanes():
        found: dict[Activity, list[TimelineEvent]] = defaultdict(list)
        for event in events:
            if not windows or any(
                event.end_s > start and event.start_s < end for start, end in windows
            ):
                found[event.activity].append(event)
        for activity, own in found.items():
            numbers = [event.microbatch for event in own]
            yield {
                "stage": lane.stage,
                "lane": lane.kind,
                "activity": activity,
                "starts": _differences(_ticks(event.start_s) for event in own),
                "lengths": _differences(
                    _ticks(event.end_s) - _ticks(event.start_s) for event in own
                ),
                "microbatches": None
                if None in numbers
                else _differences(number for number in numbers if number is not None),
            }


def _ticks(time_s: float) -> int:
    return round(time_s / TICK_S)


def _differences(numbers: Iterable[int]) -> str:
    steps = (after - before for before, after in pairwise((0, *numbers)))
    counted = ((step, len(list(run))) for step, run in groupby(steps))
    return " ".join(f"{step}x{n}" if n > 1 else f"{step}" for step, n in counted)
