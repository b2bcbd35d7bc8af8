"""Pictures: right places, words that do not cover each other, files that stay small."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from hetopt.report.timeline import svg
from hetopt.report.timeline.palette import ACTIVATIONS, ACTIVITIES, BASE, DARK, IDLE
from hetopt.report.timeline.picture import picture
from tests.report.timeline.making import (
    MS,
    balanced,
    measured_alone,
    timeline_of,
    with_measured,
)
from tests.schedule.pipelines import pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator
    from xml.etree.ElementTree import Element

    from hetopt.report.timeline.timeline import Timeline

SVG = "{http://www.w3.org/2000/svg}"
#: Where the lanes of a picture begin and end.
LEFT, RIGHT = 190, 1085

TIMELINES = {
    "one": timeline_of(balanced(1, 1)),
    "few": timeline_of(balanced(2, 4), recompute_ns=9 * MS),
    "unknown": timeline_of(balanced(2, 4), recompute_ns=None),
    "long": timeline_of(balanced(2, 512)),
    "deep": timeline_of(balanced(60, 4)),
    "both": with_measured(timeline_of(balanced(9, 8), recompute_ns=9 * MS)),
    "measured": measured_alone(timeline_of(balanced(3, 4))),
    "names": timeline_of(balanced(3, 4), name="x" * 999, cluster="y" * 999),
    "wide": timeline_of(balanced(3, 4), name="模型" * 99, cluster="集群" * 99),
}
EACH = pytest.mark.parametrize("timeline", TIMELINES.values(), ids=TIMELINES.keys())


def read(timeline: Timeline) -> Element:
    return ElementTree.fromstring(picture(timeline))


def words(root: Element) -> list[str]:
    return [text.text or "" for text in root.iter(f"{SVG}text")]


def boxes(root: Element) -> Iterator[tuple[str, float, float, float]]:
    """Yield class, height of the top, left and width of everything in lanes."""
    for group in root.iter(f"{SVG}g"):
        found = re.fullmatch(r"translate\(0 (.+)\)", group.attrib["transform"])
        assert found is not None
        for path in group.iter(f"{SVG}path"):
            each = re.findall(r"M([\d.]+) 0h([\d.]+)", path.attrib["d"])
            for left, width in each:
                kind = path.attrib["class"]
                yield kind, float(found[1]), float(left), float(width)


@EACH
def test_it_says_what_it_is_of(timeline: Timeline) -> None:
    root = read(timeline)
    title = root.find(f"{SVG}title")
    assert title is not None
    assert title.text is not None
    times = "; ".join(
        f"{timeline.end_s(source):.4g} s per iteration, {source}"
        for source in timeline.sources
    )
    assert title.text == f"{timeline.problem}: {times}"
    said = words(root)
    assert said[0].endswith(f": {times}")
    assert said[0][:3] == timeline.problem[:3]
    shape = f"{len(timeline.stages)} stage"
    assert said[1].startswith(shape)
    modelled, measured = (
        "modelled" in timeline.sources,
        "measured" in timeline.sources,
    )
    notes = {
        "All times are a model's; no iteration was measured.": not measured,
        "Upper half of a lane: times of a model. Lower half: measured times.": (
            modelled and measured
        ),
        "Memory is the model's, not measured.": measured,
    }
    assert {note: note in said for note in notes} == notes


@EACH
def test_words_lie_within_and_apart(timeline: Timeline) -> None:
    root = read(timeline)
    lines: dict[tuple[float, float], list[tuple[float, float]]] = {}
    parents = {child: parent for parent in root.iter() for child in parent}
    for text in root.iter(f"{SVG}text"):
        parent = parents[text]
        top = re.findall(r"translate\(0 (.+)\)", parent.attrib.get("transform", ""))
        size = float(text.attrib.get("font-size") or parent.attrib["font-size"])
        width = svg.width_of(text.text or "", size)
        x, kind = float(text.attrib["x"]), text.attrib.get("class", "")
        left = x - width * {"e": 1.0, "m": 0.5, "q": 0.5}.get(kind, 0.0)
        y = float(text.attrib["y"])
        line = (float(top[0]) if top else 0.0), y
        lines.setdefault(line, []).append((left, left + width))
    for found in lines.values():
        for (_, end), (following, _) in pairwise(sorted(found)):
            assert end <= following
        assert min(found)[0] >= 0
        assert max(end for _, end in found) <= 1200
    _, _, right, bottom = root.attrib["viewBox"].split()
    assert (root.attrib["width"], root.attrib["height"]) == (right, bottom)
    assert max(top + y for top, y in lines) <= float(bottom)
    background = root.find(f"{SVG}rect")
    assert background is not None
    assert background.attrib == {"width": right, "height": bottom, "fill": "#fff"}


def test_events_lie_where_their_times_are() -> None:
    timeline = TIMELINES["few"]
    (end_s,) = {timeline.end_s(source) for source in timeline.sources}
    found = list(boxes(read(timeline)))
    counts = Counter(kind for kind, *_ in found)
    for activity, paint in ACTIVITIES.items():
        drawn = sorted(
            (left, width) for kind, _, left, width in found if kind == paint.name
        )
        events = sorted(
            (event.start_s, event.end_s - event.start_s)
            for event in timeline.events
            if event.activity == activity
        )
        assert counts[paint.name] == len(events)
        # Gradients of weights run apart under other schedules.
        assert bool(events) == (activity != "weight")
        scale = (RIGHT - LEFT) / end_s
        for (left, width), (start_s, length_s) in zip(drawn, events, strict=True):
            assert left == pytest.approx(LEFT + start_s * scale, abs=0.1)
            # They are set apart by 0.6 pixels.
            assert width == pytest.approx(length_s * scale - 0.6, abs=0.1)


def test_thin_events_are_seen() -> None:
    slow = pipeline(
        [1, 10**9], [1, 10**9], [1], microbatches=2, warmups=[2, 1], sync=[0, 0]
    )
    found = list(boxes(read(timeline_of(slow))))
    for name in "fbst":
        widths = [width for kind, _, _, width in found if kind == name]
        assert min(widths) == 0.7
    tops = {kind: top for kind, top, _, _ in found}
    # Activations go down the same link as gradients come up, side by side.
    assert tops["s"] < tops["t"] < tops["s"] + 10


@pytest.mark.parametrize(
    ("name", "numbered"), [("few", True), ("both", True), ("long", False)]
)
def test_micro_batches_have_numbers_while_there_is_room(
    name: str, numbered: bool
) -> None:
    root = read(TIMELINES[name])
    numbers = [
        text.text
        for group in root.iter(f"{SVG}g")
        for text in group.iter(f"{SVG}text")
        if group.find(f"{SVG}path[@class='f']") is not None
    ]
    assert bool(numbers) == numbered
    if name == "few":
        # Forward, recomputation and backward on two stages.
        assert Counter(numbers) == {str(m): 6 for m in range(4)}


def test_of_many_micro_batches_some_are_left_out_and_it_is_said() -> None:
    timeline = TIMELINES["long"]
    root = read(timeline)
    said = words(root)
    (left_out,) = [each for each in said if each.startswith("Not shown: ")]
    assert "512 micro-batches are too many" in left_out
    assert "a trace has all of them" in left_out
    assert [each for each in said if each in ("beginning", "middle", "end")] == [
        "beginning",
        "middle",
        "end",
    ]
    forward = [left for kind, _, left, _ in boxes(root) if kind == "f"]
    assert 2 * 80 < len(forward) < 2 * 100
    whole = words(read(TIMELINES["few"]))
    assert not any("Not shown" in each or each == "middle" for each in whole)


def test_recomputation_of_unknown_length_is_said() -> None:
    unknown, few = words(read(TIMELINES["unknown"])), words(read(TIMELINES["few"]))
    note = "Where a plan recomputes and the latency table has no times without, "
    note += "backward includes recomputation."
    assert note in unknown
    assert note not in few
    assert "recomputation" in few
    assert "recomputation" not in unknown


def test_measured_events_stand_below_modelled_ones() -> None:
    timeline = TIMELINES["both"]
    found = [each for each in boxes(read(timeline)) if each[0] == "f"]
    tops = sorted({top for _, top, _, _ in found})
    assert len(tops) == 2 * 9
    heights = re.findall(r'class="f" d="M\S+ 0h[\d.]+v([\d.]+)h', picture(timeline))
    # They do not touch.
    assert max(map(float, heights)) == pytest.approx(tops[1] - tops[0] - 1)
    for upper, lower in zip(tops[::2], tops[1::2], strict=True):
        first, second = (
            [left for _, top, left, _ in found if top == row] for row in (upper, lower)
        )
        assert len(first) == len(second) == 8
        # They are 7% slower.
        for one, other in zip(first, second, strict=True):
            assert (other - LEFT) == pytest.approx((one - LEFT) * 1.07, abs=0.2)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("stages", "microbatches", "more"),
    [(2, 4, 1), (2, 512, 1), (60, 4, 1), (200, 300, 2)],
)
def test_files_stay_below_a_megabyte(stages: int, microbatches: int, more: int) -> None:
    times = balanced(stages, microbatches, more=more)
    drawn = picture(timeline_of(times, recompute_ns=9 * MS))
    assert len(drawn.encode()) < 1_000_000


def test_the_same_timeline_is_the_same_picture() -> None:
    times = balanced(3, 4)
    assert picture(timeline_of(times)) == picture(timeline_of(times))


def test_names_hold_what_xml_cannot() -> None:
    said = words(read(timeline_of(balanced(2, 2), name='<&"\x01\ud800\uffff>')))
    assert said[0].startswith('<&"\ufffd\ufffd\ufffd>: ')


def luminance(colour: str) -> float:
    """Return the relative luminance of WCAG 2."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4
        for each in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_what_follows_differs_in_lightness() -> None:
    lightness = [
        luminance(ACTIVITIES[name].colour) ** 0.5
        for name in ("forward", "backward", "recompute")
    ]
    lightness.append(luminance(IDLE.colour) ** 0.5)
    assert all(after - before > 0.02 for before, after in pairwise(lightness))
    assert luminance(BASE.colour) > 1.5 * luminance(ACTIVATIONS.colour)


@pytest.mark.parametrize("activity", ["forward", "recompute", "backward"])
def test_numbers_can_be_read_on_their_colours(activity: str) -> None:
    paint = next(paint for name, paint in ACTIVITIES.items() if name == activity)
    ink = "#ffffff" if activity in DARK else "#1a1a1a"
    low, high = sorted((luminance(paint.colour), luminance(ink)))
    assert (high + 0.05) / (low + 0.05) > 4.5
