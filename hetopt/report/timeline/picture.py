"""Timelines as SVG: stages and links as lanes, and the memory of each stage below.

The file has its own background, contains its words as text, and is always the same for
the same timeline.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, NamedTuple

from hetopt.base.words import counted
from hetopt.report.plan_report import BYTES_PER_GB
from hetopt.report.timeline import svg
from hetopt.report.timeline.drawn_rows import activities, background, memory
from hetopt.report.timeline.palette import (
    ACTIVATIONS,
    ACTIVITIES,
    BASE,
    FREE,
    IDLE,
    STYLE,
)
from hetopt.report.timeline.timeline import Lane
from hetopt.report.timeline.windows import time_axis

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hetopt.report.timeline.palette import Paint
    from hetopt.report.timeline.timeline import Timeline

#: About the most events that are drawn. With these and up to 200 stages, a file has
#: less than a megabyte.
MOST_EVENTS = 25_000
#: With more events none is numbered.
_MOST_NUMBERS = 1_500

_WIDTH, _MARGIN = 1200.0, 16.0
#: Start and end of lanes; names are before them, shares and sizes after them.
_LEFT, _RIGHT = 190.0, 1085.0
_TEXT, _LINE = 11.0, 17.0
#: Size of the title, and the regular size as wide as its bold letters.
_TITLE, _BOLD = 15.0, 17.0
#: Letters in a line of the heading, and most lines of one item.
_LETTERS, _MOST_LINES = 170, 4
_MEMORY = "dashed: what is available; each row is one device of a stage"


class _Sizes(NamedTuple):
    """Heights of a stage, of its link and of its memory, and of letters; in pixels."""

    stage: float
    link: float
    memory: float
    text: float


#: Sizes with more stages than each number.
_SIZES = (
    (48, _Sizes(8.0, 6.0, 12.0, 8.5)),
    (24, _Sizes(11.0, 8.0, 14.0, 9.5)),
    (12, _Sizes(15.0, 10.0, 18.0, 10.5)),
    (6, _Sizes(20.0, 13.0, 24.0, 11.0)),
    (0, _Sizes(26.0, 17.0, 36.0, 11.0)),
)


def picture(timeline: Timeline, most_events: int = MOST_EVENTS) -> str:
    """Return the picture as an SVG file, with at most about ``most_events`` events."""
    return _Picture(timeline, most_events).text()


class _Picture:
    """The picture, drawn from the top down to ``_y``."""

    def __init__(self, timeline: Timeline, most_events: int) -> None:
        self._timeline = timeline
        self._axis = time_axis(
            timeline, left=_LEFT, right=_RIGHT, most_events=most_events
        )
        self._sizes = _sizes(timeline)
        self._parts: list[str] = []
        self._y = _MARGIN
        self._draw_heading()
        self._draw_legend(self._lane_paints())
        self._draw_window_names()
        self._draw_lanes()
        self._draw_times()
        self._y += _LINE
        self._draw_legend((BASE, ACTIVATIONS), _MEMORY)
        self._draw_memory()
        self._draw_times()

    def text(self) -> str:
        """Return the file."""
        timeline = self._timeline
        height = self._y + _MARGIN / 2
        size = {"width": _WIDTH, "height": height}
        parts = (
            svg.element("title", svg.plain(f"{timeline.problem}: {_times(timeline)}")),
            svg.element("style", STYLE),
            svg.element("rect", **size, fill="#fff"),
            *self._parts,
        )
        whole = svg.element(
            "svg",
            "\n" + "\n".join(parts) + "\n",
            xmlns="http://www.w3.org/2000/svg",
            role="img",
            viewBox=f"0 0 {svg.number(_WIDTH)} {svg.number(height)}",
            **size,
        )
        return whole + "\n"

    def _draw_heading(self) -> None:
        """Draw the title, and the lines below it."""
        times = _times(self._timeline)
        room = _WIDTH - 2 * _MARGIN
        left = room - svg.width_of(f": {times}", _BOLD)
        title = f"{svg.fitted(self._timeline.problem, _BOLD, left)}: {times}"
        self._y += _TITLE
        self._parts.append(
            svg.text(title, _MARGIN, self._y, font_size=_TITLE, class_="h")
        )
        for about in self._about():
            lines = textwrap.wrap(
                about,
                _LETTERS,
                max_lines=_MOST_LINES,
                placeholder=" …",
                break_on_hyphens=False,
            )
            for line in lines:
                self._y += _LINE
                shown = svg.fitted(line, _TEXT, room)
                self._parts.append(svg.text(shown, _MARGIN, self._y, font_size=_TEXT))
        self._y += _LINE / 2

    def _about(self) -> Iterator[str]:
        """Yield the texts below the title: the plan, and notes."""
        timeline, axis = self._timeline, self._axis
        yield from timeline.plan
        if timeline.sources == ("modelled",):
            yield "All times are a model's; no iteration was measured."
        elif len(timeline.sources) > 1:
            yield "Upper half of a lane: times of a model. Lower half: measured times."
        if timeline.chunks > 1:
            yield (
                "Numbers are chunk:micro-batch, both from 0; below the last stage is "
                "its link back to the first."
            )
        if timeline.folded:
            yield "Numbers are chunk:micro-batch, both from 0; chunk 1 is the way back."
        if "measured" in timeline.sources:
            yield "Memory is the model's, not measured."
        if left_out := axis.left_out():
            stretches = " and ".join(
                f"{axis.text(start, finer=1)} to {axis.text(end, finer=1)} {axis.unit}"
                for start, end in left_out
            )
            yield (
                f"Not shown: {stretches}, as "
                f"{counted(timeline.microbatches, 'micro-batch', 'es')} are too many "
                "for one picture; a trace has all of them."
            )
        if any(stage.recompute_inside for stage in timeline.stages):
            yield (
                "Where a plan recomputes and the latency table has no times without, "
                "backward includes recomputation."
            )

    def _lane_paints(self) -> list[Paint]:
        found = {event.activity for event in self._timeline.events}
        paints = [paint for name, paint in ACTIVITIES.items() if name in found]
        links = [FREE] if len(self._timeline.stages) > 1 else []
        return [*paints, IDLE, *links]

    def _draw_legend(self, paints: Iterable[Paint], after: str = "") -> None:
        """Draw the meaning of colours, in as many lines as necessary."""
        x = _MARGIN
        self._y += _LINE
        for paint in paints:
            width = svg.width_of(paint.meaning, _TEXT) + 40
            if x + width > _WIDTH - _MARGIN:
                x = _MARGIN
                self._y += _LINE
            box = {"x": x, "y": self._y - 10, "width": 14.0, "height": 11.0}
            self._parts += [
                svg.element("rect", **box, class_=paint.name),
                svg.text(paint.meaning, x + 19, self._y, font_size=_TEXT),
            ]
            x += width
        if after:
            self._parts.append(svg.text(after, x, self._y, font_size=_TEXT))
        self._y += _LINE / 2

    def _draw_window_names(self) -> None:
        if len(self._axis.windows) == 1:
            return
        for window in self._axis.windows:
            at = (window.left + window.right) / 2, self._y + 10
            self._parts.append(svg.text(window.name, *at, font_size=_TEXT, class_="m"))
        self._y += _LINE

    def _draw_lanes(self) -> None:
        """Draw the stages from the first to the last, each with its link below."""
        sizes, stages = self._sizes, self._timeline.stages
        idle = _idle_shares(self._timeline)
        places: dict[Lane, tuple[float, float]] = {}
        half = sizes.link / 2 - 0.5
        for number, stage in enumerate(stages):
            row = background(self._axis, sizes.stage, IDLE)
            places[Lane(number, "stage")] = self._y, sizes.stage
            value = f"idle {idle[number]:.1%}"
            self._draw_row([row], sizes.stage, (number, stage.mesh), value)
            after = (number + 1) % len(stages)
            if after or self._timeline.chunks > 1:
                link = self._y + 0.5
                # One link has activations downstream, gradients upstream.
                places[Lane(number, "downstream")] = link, half
                places[Lane(after, "upstream")] = link + half, half
                self._parts.append(
                    _group(link, [background(self._axis, 2 * half, FREE)])
                )
                self._y += sizes.link + 1
        self._draw_activities(places)

    def _draw_activities(self, places: dict[Lane, tuple[float, float]]) -> None:
        """Draw the events of all lanes; ``places`` are top and height of each lane."""
        timeline = self._timeline
        sources = timeline.sources
        numbered = len(timeline.events) <= _MOST_NUMBERS
        for source, lane, events in timeline.lanes():
            top, height = places[lane]
            height /= len(sources)
            top += height * sources.index(source)
            if len(sources) > 1:
                # Leave a gap between modelled and measured events.
                height -= 1
            size = min(self._sizes.text - 1, height - 3)
            if lane.kind != "stage" or not numbered:
                size = 0.0
            row = activities(events, self._axis, height, size, timeline.label)
            self._parts.append(_group(top, row))

    def _draw_memory(self) -> None:
        """Draw the memory of a device of each stage over time, with its limit."""
        height = self._sizes.memory
        for number, steps in enumerate(self._timeline.memory_steps()):
            stage = self._timeline.stages[number]
            most_gb = max(held for _, held in steps) / BYTES_PER_GB
            held = f"{most_gb:.1f} of {stage.usable_bytes / BYTES_PER_GB:.1f} GB"
            row = memory(stage, steps, self._axis, height)
            self._draw_row(row, height, (number, ""), held)
            self._y += 3

    def _draw_row(
        self, parts: Iterable[str], height: float, about: tuple[int, str], value: str
    ) -> None:
        """Draw a row, with the stage and a text before it and a value after it."""
        size = self._sizes.text
        number, rest = about
        before, after = f"{number} ", f" {rest}" if rest else ""
        room = _LEFT - 24 - svg.width_of(before + after, size)
        cluster = svg.fitted(self._timeline.stages[number].cluster, size, room)
        y = height / 2 + size * 0.35
        words = (
            svg.text(
                before + cluster + after, _LEFT - 8, y, font_size=size, class_="e"
            ),
            svg.text(value, _RIGHT + 8, y, font_size=size),
        )
        self._parts.append(_group(self._y, [*parts, *words]))
        self._y += height

    def _draw_times(self) -> None:
        """Draw the time axis."""
        axis = self._axis
        words = [svg.text(f"time, {axis.unit}", _LEFT - 20, 20.0, class_="e")]
        lines = []
        for window in axis.windows:
            width = svg.number(window.right - window.left)
            lines.append(f"M{svg.number(window.left)} 4h{width}")
            for time_s in window.ticks_s(axis.step_s):
                x = window.x(time_s)
                lines.append(f"M{svg.number(x)} 4v4")
                words.append(svg.text(axis.text(time_s), x, 20.0, class_="m"))
        line = svg.element("path", class_="x", d="".join(lines))
        self._parts.append(_group(self._y, [line, *words], font_size=_TEXT))
        self._y += 24


def _sizes(timeline: Timeline) -> _Sizes:
    stages = len(timeline.stages)
    sizes = next(found for least, found in _SIZES if stages > least)
    # With two sources a lane has two rows.
    rows = 1 + (len(timeline.sources) - 1) * 0.7
    return sizes._replace(stage=sizes.stage * rows, link=sizes.link * rows)


def _times(timeline: Timeline) -> str:
    return "; ".join(
        f"{timeline.end_s(source):.4g} s per iteration, {source}"
        for source in timeline.sources
    )


def _idle_shares(timeline: Timeline) -> list[float]:
    """Return the share of the iteration in which each stage is idle."""
    source = timeline.sources[0]
    end_s = timeline.end_s(source)
    busy = [0.0] * len(timeline.stages)
    for event in timeline.events:
        if event.source == source and event.lane.kind == "stage":
            busy[event.lane.stage] += event.end_s - event.start_s
    return [1 - each / end_s if end_s else 0.0 for each in busy]


def _group(y: float, parts: Iterable[str], **attributes: object) -> str:
    place = f"translate(0 {svg.number(y)})"
    return svg.element("g", "".join(parts), transform=place, **attributes)
