"""Rows of a picture over its time axis: a lane's events, and a device's memory.

Each row begins at y = 0 of its group.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from hetopt.report.timeline import svg
from hetopt.report.timeline.palette import ACTIVATIONS, ACTIVITIES, BASE, DARK, FREE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hetopt.report.timeline.palette import Paint
    from hetopt.report.timeline.timeline import TimelineEvent, TimelineStage
    from hetopt.report.timeline.windows import TimeAxis, Window

#: Width beyond which a gap is left after an event, and the largest such gap.
_WIDE, _APART = 1.5, 0.6
#: Least width of an event.
_THIN = 0.7
#: Least size of numbers, and the room that they need beside them.
_SMALLEST, _ROOM = 6.0, 1.0


def background(axis: TimeAxis, height: float, paint: Paint) -> str:
    """Return a row in one colour."""
    boxes = [(window.left, window.right - window.left) for window in axis.windows]
    return svg.element("path", class_=paint.name, d=svg.rectangles(boxes, height))


def activities(
    events: Sequence[TimelineEvent],
    axis: TimeAxis,
    height: float,
    size: float,
    named: Callable[[int], str],
) -> Iterator[str]:
    """Yield the events of a lane, and the numbers of their micro-batches.

    Parameters
    ----------
    size
        Size of the numbers; they are left out if it is less than 6, and in events that
        are too narrow.
    named
        Returns the label of a number.
    """
    boxes: dict[str, list[tuple[float, float]]] = defaultdict(list)
    numbers = []
    for event, window in _shown(events, axis):
        left, right = window.x(event.start_s), window.x(event.end_s)
        width = right - left
        apart = min(_APART, width / 4) if width > _WIDE else 0.0
        box = left, max(width - apart, _THIN)
        boxes[ACTIVITIES[event.activity].name].append(box)
        label = "" if event.microbatch is None else named(event.microbatch)
        if not label or size < _SMALLEST:
            continue
        if width >= svg.width_of(label, size) + _ROOM:
            colour = "q" if event.activity in DARK else "m"
            at = (left + right) / 2, height / 2 + size * 0.36
            numbers.append(svg.text(label, *at, font_size=size, class_=colour))
    for name, found in boxes.items():
        yield svg.element("path", class_=name, d=svg.rectangles(found, height))
    yield from numbers


def _shown(
    events: Sequence[TimelineEvent], axis: TimeAxis
) -> Iterator[tuple[TimelineEvent, Window]]:
    """Yield every event with each window that it overlaps."""
    for window in axis.windows:
        for event in events:
            if event.end_s > window.start_s and event.start_s < window.end_s:
                yield event, window


def memory(
    stage: TimelineStage,
    steps: Sequence[tuple[float, int]],
    axis: TimeAxis,
    height: float,
) -> Iterator[str]:
    """Yield the memory of a stage's device over time, and a line at its limit."""
    scale = (height - 2) / max(stage.usable_bytes, *(held for _, held in steps), 1)
    yield background(axis, height, FREE)
    base = stage.base_bytes * scale
    limit = svg.number(height - stage.usable_bytes * scale)
    for window in axis.windows:
        stairs = _stairs(steps, window, scale, height)
        yield svg.element("path", class_=ACTIVATIONS.name, d=stairs)
        width = window.right - window.left
        size = {"width": width, "height": base}
        yield svg.element(
            "rect", x=window.left, y=height - base, **size, class_=BASE.name
        )
        line = f"M{svg.number(window.left)} {limit}h{svg.number(width)}"
        yield svg.element("path", class_="x d", d=line)


def _stairs(
    steps: Sequence[tuple[float, int]], window: Window, scale: float, bottom: float
) -> str:
    """Return the path around the held memory within a window."""
    before = [held for time_s, held in steps if time_s <= window.start_s]
    level = svg.number(bottom - before[-1] * scale)
    parts = [f"M{svg.number(window.left)} {svg.number(bottom)}V{level}"]
    for time_s, held in steps:
        if window.start_s < time_s < window.end_s:
            level = svg.number(bottom - held * scale)
            parts.append(f"H{svg.number(window.x(time_s))}V{level}")
    return "".join(parts) + f"H{svg.number(window.right)}V{svg.number(bottom)}z"
