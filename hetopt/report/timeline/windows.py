"""The parts of an iteration that a picture shows, and the positions of times in it.

All of it if that is readable; else its beginning, middle and end, on one scale, so that
lengths can be compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor, log10
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hetopt.report.timeline.timeline import Timeline

#: Up to this many micro-batches all are shown; else the time of ``_SHOWN`` of them, but
#: at most a share at which beginning, middle and end do not overlap.
_MOST_WHOLE = 150
_SHOWN = 90
_MOST_SHARE = 0.75
#: Least and largest share of the shown time for the beginning, and for the end.
_LEAST, _MOST = 0.2, 0.4
#: Pixels between two windows.
_GAP = 18.0
#: Least pixels between two labelled times.
_TICK_ROOM = 75.0
#: Units of time: the least iteration time for which each is used, name, and number in
#: a second.
_UNITS = ((1.0, "s", 1.0), (1e-3, "ms", 1e3), (0.0, "µs", 1e6))


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One part of the time, drawn from ``left`` to ``right`` in pixels."""

    name: str
    start_s: float
    end_s: float
    left: float
    right: float

    def x(self, time_s: float) -> float:
        """Return the position of a time; times outside are at the edges."""
        inside = min(max(time_s, self.start_s), self.end_s)
        scale = (self.right - self.left) / (self.end_s - self.start_s)
        return self.left + (inside - self.start_s) * scale

    def ticks_s(self, step_s: float) -> list[float]:
        """Return the multiples of a step within the window."""
        first, last = ceil(self.start_s / step_s), floor(self.end_s / step_s)
        return [tick * step_s for tick in range(first, last + 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeAxis:
    """The windows of an iteration, from left to right.

    Attributes
    ----------
    step_s
        Seconds between two labelled times.
    unit
        Unit of labels; a second has ``per_s`` of it.
    """

    windows: tuple[Window, ...]
    step_s: float
    unit: str
    per_s: float

    def text(self, time_s: float, *, finer: int = 0) -> str:
        """Return a time in the unit, with ``finer`` more digits than the step."""
        digits = max(0, ceil(-log10(self.step_s * self.per_s) - 1e-9)) + finer
        return f"{time_s * self.per_s:.{digits}f}"

    def left_out(self) -> list[tuple[float, float]]:
        """Return the times between windows: start and end, in seconds."""
        return [
            (before.end_s, after.start_s) for before, after in pairwise(self.windows)
        ]


def time_axis(
    timeline: Timeline, *, left: float, right: float, most_events: int
) -> TimeAxis:
    """Choose the windows between two positions.

    Parameters
    ----------
    left, right
        Start and end of the axis, in pixels.
    most_events
        About the most events that may be shown.
    """
    # The least value avoids a division by 0 for an iteration of length 0.
    end_s = max(*map(timeline.end_s, timeline.sources), 1e-9)
    per_microbatch = len(timeline.events) / timeline.microbatches
    room = int(most_events / per_microbatch)
    if timeline.microbatches <= min(_MOST_WHOLE, room):
        parts = [("", 0.0, end_s)]
    else:
        share = max(1, min(_SHOWN, room)) / timeline.microbatches
        share = min(share, _MOST_SHARE)
        parts = _stretches(timeline, end_s, share * end_s)
    seconds = sum(end - start for _, start, end in parts)
    scale = (right - left - _GAP * (len(parts) - 1)) / seconds
    windows = []
    for name, start, end in parts:
        width = (end - start) * scale
        windows.append(
            Window(name=name, start_s=start, end_s=end, left=left, right=left + width)
        )
        left += width + _GAP
    longest = max(end - start for _, start, end in parts)
    unit, per_s = next((name, size) for least, name, size in _UNITS if end_s >= least)
    return TimeAxis(
        windows=tuple(windows),
        step_s=_round_step(min(_TICK_ROOM / scale, longest / 2)),
        unit=unit,
        per_s=per_s,
    )


def _stretches(
    timeline: Timeline, end_s: float, shown_s: float
) -> list[tuple[str, float, float]]:
    """Return beginning, middle and end of an iteration: name, start and end of each.

    If there is room, the beginning lasts until the end of the first stage's first
    backward pass, and the end begins after its last forward pass.
    """
    first = [event for event in timeline.events if event.lane == (0, "stage")]
    backward = [event.end_s for event in first if event.activity == "backward"]
    forward = [event.end_s for event in first if event.activity == "forward"]
    warm_s = min(backward, default=0.0)
    drain_s = end_s - max(forward, default=0.0)
    head, tail = (
        min(max(wanted, _LEAST * shown_s), _MOST * shown_s)
        for wanted in (warm_s, drain_s)
    )
    rest = shown_s - head - tail
    middle = (end_s - rest) / 2
    return [
        ("beginning", 0.0, head),
        ("middle", middle, middle + rest),
        ("end", end_s - tail, end_s),
    ]


def _round_step(least: float) -> float:
    """Return the smallest 1, 2 or 5 times a power of ten from ``least`` on."""
    power = 10.0 ** floor(log10(least))
    return next(
        factor * power for factor in (1, 2, 5, 10) if factor * power >= least * 0.999
    )
