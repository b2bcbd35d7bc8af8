"""Timelines as SVG: stages and links as lanes, and the memory of each stage below.

Colours are Okabe and Ito's, which differ for the colour-blind and in lightness as well.
The file has a background of its own, holds its words as text, and is the same for the
same timeline.
"""

from __future__ import annotations

import textwrap
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetopt.report.plan_report import BYTES_PER_GB
from hetopt.report.timeline import svg
from hetopt.report.timeline.timeline import Lane
from hetopt.report.timeline.windows import time_axis

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hetopt.report.timeline.timeline import Timeline, TimelineEvent
    from hetopt.report.timeline.windows import TimeAxis, Window

#: About so many events are drawn at most. With them, and up to 200 stages, a file has
#: less than a megabyte.
MOST_EVENTS = 25_000
#: With more events than this none has a number.
_MOST_NUMBERS = 1_500

_WIDTH, _MARGIN = 1200.0, 16.0
_LEFT, _RIGHT = 190.0, 1085.0
_TITLE, _TEXT, _LINE = 15.0, 11.0, 17.0
#: Bold letters are as wide as others of this size.
_BOLD = 1.15 * _TITLE
#: What fits a line of the heading, in letters.
_LETTERS = 170
_MOST_LINES = 4
#: From how many stages on: heights of a stage, of its link, of its memory, and of text.
_HEIGHTS = (
    (48, (8.0, 6.0, 12.0, 8.5)),
    (24, (11.0, 8.0, 14.0, 9.5)),
    (12, (15.0, 10.0, 18.0, 10.5)),
    (6, (20.0, 13.0, 24.0, 11.0)),
    (0, (26.0, 17.0, 36.0, 11.0)),
)
#: Wider events are set apart from the next one.
_APART = 3.0
#: No event is drawn narrower.
_THIN = 0.7
#: Numbers stand in events that leave so much room beside them.
_ROOM = 3.0

#: Class, colour and meaning of what lanes hold.
_KINDS: Mapping[str, tuple[str, str, str]] = {
    "forward": ("f", "#0072b2", "forward"),
    "recompute": ("r", "#f0e442", "recomputation"),
    "backward": ("b", "#e69f00", "backward"),
    "sync": ("g", "#cc79a7", "gradient synchronisation, optimizer"),
    "send-forward": ("s", "#56b4e9", "send activations"),
    "send-backward": ("t", "#d55e00", "send gradients"),
}
_IDLE = ("i", "#e8e8e8", "idle")
#: Links that carry nothing are lighter than stages that do nothing.
_FREE = ("l", "#f5f5f5", "link not used")
_BASE = ("w", "#8c8c8c", "weights, gradients, optimizer states, buffers")
_ACTIVATIONS = ("a", "#009e73", "activations in flight")

_STYLE = "".join(
    (
        "text{font-family:'DejaVu Sans',Verdana,Arial,sans-serif;fill:#1a1a1a}",
        ".e{text-anchor:end}.m{text-anchor:middle}",
        ".h{font-weight:bold}.q{fill:#fff;text-anchor:middle}",
        ".x{stroke:#1a1a1a;fill:none}.d{stroke-dasharray:4 3}",
        *(
            f".{name}{{fill:{colour}}}"
            for name, colour, _ in (*_KINDS.values(), _IDLE, _FREE, _BASE, _ACTIVATIONS)
        ),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sizes:
    """Heights in pixels, by how many stages there are."""

    stage: float
    link: float
    memory: float
    text: float


def picture(timeline: Timeline) -> str:
    """Return the picture as an SVG file."""
    axis = time_axis(timeline, left=_LEFT, right=_RIGHT, most_slices=MOST_EVENTS)
    sizes = _sizes(timeline)
    body: list[str] = []
    y = _heading(body, timeline, axis)
    y = _legend(body, _lane_legend(timeline), y)
    y = _window_names(body, axis, y)
    y = _lanes(body, timeline, axis, sizes, y)
    y = _time(body, axis, y) + _LINE
    y = _legend(body, (_BASE, _ACTIVATIONS), y, _memory_words())
    y = _memory(body, timeline, axis, sizes, y)
    height = _time(body, axis, y) + _MARGIN / 2
    size = {"width": _WIDTH, "height": height}
    parts = (
        svg.element("title", svg.plain(f"{timeline.problem}: {_times(timeline)}")),
        svg.element("style", _STYLE),
        svg.element("rect", **size, fill="#fff"),
        *body,
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


def _sizes(timeline: Timeline) -> _Sizes:
    stages = len(timeline.stages)
    heights = next(found for least, found in _HEIGHTS if stages > least)
    stage, link, memory, text = heights
    # By two sources a lane has two rows.
    rows = 1 + (len(timeline.sources) - 1) * 0.7
    return _Sizes(stage=stage * rows, link=link * rows, memory=memory, text=text)


def _times(timeline: Timeline) -> str:
    return "; ".join(
        f"{timeline.end_s(source):.4g} s per iteration, {source}"
        for source in timeline.sources
    )


def _heading(body: list[str], timeline: Timeline, axis: TimeAxis) -> float:
    """Draw what the picture is of; return where the next thing may begin."""
    y = _MARGIN + _TITLE
    times = _times(timeline)
    room = _WIDTH - 2 * _MARGIN - svg.width_of(times, _BOLD)
    title = f"{svg.fitted(timeline.problem, _BOLD, room)}: {times}"
    body.append(svg.text(title, _MARGIN, y, font_size=_TITLE, class_="h"))
    lines = list(timeline.plan)
    if timeline.sources == ("modelled",):
        lines.append("All times are a model's; no iteration was measured.")
    elif len(timeline.sources) > 1:
        lines.append(
            "Upper half of a lane: times of a model. Lower half: measured times. Memory is "
            "the model's."
        )
    if left_out := axis.left_out():
        stretches = " and ".join(
            f"{axis.text(start, finer=1)} to {axis.text(end, finer=1)} {axis.unit}"
            for start, end in left_out
        )
        lines.append(
            f"Not shown: {stretches}, as {timeline.microbatches} micro-batches are too "
            "many for one picture; a trace has all of them."
        )
    if any(stage.recompute_inside for stage in timeline.stages):
        lines.append(
            "Where a plan recomputes and the latency table has no times without, "
            "backward includes recomputation."
        )
    for line in lines:
        wrapped = textwrap.wrap(line, _LETTERS, max_lines=_MOST_LINES, placeholder=" …")
        for part in wrapped:
            y += _LINE
            shown = svg.fitted(part, _TEXT, _WIDTH - 2 * _MARGIN)
            body.append(svg.text(shown, _MARGIN, y, font_size=_TEXT))
    return y + _LINE / 2


def _lane_legend(timeline: Timeline) -> list[tuple[str, str, str]]:
    found = {event.activity for event in timeline.events}
    kinds = [kind for name, kind in _KINDS.items() if name in found]
    links = [_FREE] if len(timeline.stages) > 1 else []
    return [*kinds, _IDLE, *links]


def _legend(
    body: list[str], entries: Iterable[tuple[str, str, str]], y: float, after: str = ""
) -> float:
    """Draw what colours mean, in as many lines as that takes."""
    x, y = _MARGIN, y + _LINE
    for name, _, meaning in entries:
        width = svg.width_of(meaning, _TEXT) + 40
        if x + width > _WIDTH - _MARGIN:
            x, y = _MARGIN, y + _LINE
        swatch = svg.element(
            "rect", x=x, y=y - 10, width=14.0, height=11.0, class_=name
        )
        body += [swatch, svg.text(meaning, x + 19, y, font_size=_TEXT)]
        x += width
    if after:
        body.append(svg.text(after, x, y, font_size=_TEXT))
    return y + _LINE / 2


def _window_names(body: list[str], axis: TimeAxis, y: float) -> float:
    if len(axis.windows) == 1:
        return y
    for window in axis.windows:
        middle = (window.left + window.right) / 2
        name = svg.text(window.name, middle, y + 10, font_size=_TEXT, class_="m")
        body.append(name)
    return y + _LINE


def _lanes(
    body: list[str], timeline: Timeline, axis: TimeAxis, sizes: _Sizes, y: float
) -> float:
    """Draw the stages from the first to the last, and between two their link."""
    sources = timeline.sources
    idle = _idle_shares(timeline)
    tops: dict[Lane, tuple[float, float]] = {}
    for number, stage in enumerate(timeline.stages):
        tops[Lane(number, "stage")] = (y, sizes.stage)
        half = sizes.link / 2 - 0.5
        link = y + sizes.stage + 0.5
        tops[Lane(number, "downstream")] = (link, half)
        # Gradients go up the same link.
        tops[Lane(number + 1, "upstream")] = (link + half, half)
        base = y + sizes.stage / 2 + sizes.text * 0.35
        label = svg.fitted(
            f"{number}  {stage.cluster}  {stage.mesh}", sizes.text, _LEFT - 24
        )
        body += [
            svg.text(label, _LEFT - 8, base, font_size=sizes.text, class_="e"),
            svg.text(
                f"idle {idle[number]:.1%}", _RIGHT + 8, base, font_size=sizes.text
            ),
            _group(y, [_background(axis, sizes.stage, _IDLE)]),
        ]
        if number + 1 < len(timeline.stages):
            body.append(_group(link, [_background(axis, 2 * half, _FREE)]))
        y += sizes.stage + sizes.link + 1
    numbered = len(timeline.events) <= _MOST_NUMBERS
    for source, lane, events in timeline.lanes():
        top, height = tops[lane]
        height /= len(sources)
        top += height * sources.index(source)
        if len(sources) > 1:
            # What is modelled and what is measured do not touch.
            height -= 1
        size = min(sizes.text - 1, height - 3) if numbered else 0.0
        if lane.kind != "stage":
            size = 0.0
        body.append(_group(top, _row(events, axis, height, size)))
    return y - sizes.link


def _row(
    events: Sequence[TimelineEvent], axis: TimeAxis, height: float, size: float
) -> Iterator[str]:
    """Yield the paths of a lane, and the numbers of micro-batches in letters of a size.

    Parameters
    ----------
    size
        Numbers of less than 6 pixels are left out.
    """
    boxes: dict[str, list[tuple[float, float]]] = defaultdict(list)
    numbers = []
    for event, window in _shown(events, axis):
        left, right = window.x(event.start_s), window.x(event.end_s)
        width = right - left
        name = _KINDS[event.activity][0]
        boxes[name].append((left, max(width - (0.6 if width > _APART else 0), _THIN)))
        label = "" if event.microbatch is None else str(event.microbatch)
        if size >= 6 and width >= svg.width_of(label, size) + _ROOM:
            dark = "q" if name == "f" else "m"
            middle, base = (left + right) / 2, height / 2 + size * 0.36
            numbers.append(svg.text(label, middle, base, font_size=size, class_=dark))
    for name, found in boxes.items():
        yield svg.element("path", class_=name, d=svg.rectangles(found, height))
    yield from numbers


def _shown(
    events: Sequence[TimelineEvent], axis: TimeAxis
) -> Iterator[tuple[TimelineEvent, Window]]:
    """Yield every event with each window that it lies in."""
    for window in axis.windows:
        for event in events:
            if event.end_s > window.start_s and event.start_s < window.end_s:
                yield event, window


def _memory(
    body: list[str], timeline: Timeline, axis: TimeAxis, sizes: _Sizes, y: float
) -> float:
    """Draw what a device of each stage holds, of what it may."""
    for number, steps in enumerate(timeline.memory_steps()):
        stage = timeline.stages[number]
        most = max(held for _, held in steps)
        scale = (sizes.memory - 2) / max(most, stage.usable_bytes, 1)
        base = sizes.memory - stage.base_bytes * scale
        top = sizes.memory - stage.usable_bytes * scale
        drawn = [
            svg.element(
                "path",
                class_=_ACTIVATIONS[0],
                d=_stairs(steps, window, scale, sizes.memory),
            )
            for window in axis.windows
        ]
        for window in axis.windows:
            width = window.right - window.left
            line = f"M{svg.number(window.left)} {svg.number(top)}h{svg.number(width)}"
            size = {"width": width, "height": sizes.memory - base}
            drawn += [
                svg.element("rect", x=window.left, y=base, **size, class_=_BASE[0]),
                svg.element("path", class_="x d", d=line),
            ]
        background = _background(axis, sizes.memory, _FREE)
        text_y = sizes.memory / 2 + sizes.text * 0.35
        label = svg.fitted(f"{number}  {stage.cluster}", sizes.text, _LEFT - 24)
        held = (
            f"{most / BYTES_PER_GB:.1f} of {stage.usable_bytes / BYTES_PER_GB:.1f} GB"
        )
        words = [
            svg.text(label, _LEFT - 8, text_y, font_size=sizes.text, class_="e"),
            svg.text(held, _RIGHT + 8, text_y, font_size=sizes.text),
        ]
        body.append(_group(y, [background, *drawn, *words]))
        y += sizes.memory + 3
    return y


def _stairs(
    steps: Sequence[tuple[float, int]], window: Window, scale: float, bottom: float
) -> str:
    """Return the path around what is held within a window."""
    before = [held for time_s, held in steps if time_s <= window.start_s]
    level = bottom - before[-1] * scale
    parts = [f"M{svg.number(window.left)} {svg.number(bottom)}V{svg.number(level)}"]
    for time_s, held in steps:
        if window.start_s < time_s < window.end_s:
            x, level = svg.number(window.x(time_s)), bottom - held * scale
            parts.append(f"H{x}V{svg.number(level)}")
    return "".join(parts) + f"H{svg.number(window.right)}V{svg.number(bottom)}z"


def _memory_words() -> str:
    return "dashed: what is available; each row is one device of a stage"


def _time(body: list[str], axis: TimeAxis, y: float) -> float:
    """Draw the axis below lanes; return where the next thing may begin."""
    for window in axis.windows:
        x, width = svg.number(window.left), svg.number(window.right - window.left)
        ticks = window.ticks(axis.step_s)
        marks = "".join(
            f"M{svg.number(window.x(tick * axis.step_s))} {svg.number(y + 4)}v4"
            for tick in ticks
        )
        path = f"M{x} {svg.number(y + 4)}h{width}{marks}"
        body.append(svg.element("path", class_="x", d=path))
        for tick in ticks:
            time_s = tick * axis.step_s
            at = window.x(time_s), y + 20
            name = axis.text(time_s)
            body.append(svg.text(name, *at, font_size=_TEXT, class_="m"))
    unit = f"time, {axis.unit}"
    body.append(svg.text(unit, _LEFT - 20, y + 20, font_size=_TEXT, class_="e"))
    return y + 24


def _idle_shares(timeline: Timeline) -> list[float]:
    """Return for each stage in which share of the iteration it does nothing."""
    source = timeline.sources[0]
    end_s = timeline.end_s(source)
    busy = [0.0] * len(timeline.stages)
    for event in timeline.events:
        if event.source == source and event.lane.kind == "stage":
            busy[event.lane.stage] += event.end_s - event.start_s
    return [1 - each / end_s if end_s else 0.0 for each in busy]


def _background(axis: TimeAxis, height: float, kind: tuple[str, str, str]) -> str:
    boxes = [(window.left, window.right - window.left) for window in axis.windows]
    return svg.element("path", class_=kind[0], d=svg.rectangles(boxes, height))


def _group(y: float, parts: Iterable[str]) -> str:
    return svg.element("g", "".join(parts), transform=f"translate(0 {svg.number(y)})")
