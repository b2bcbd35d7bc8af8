"""Elements as text."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from hetopt.report.timeline import svg


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.04, "0"),
        (1.0, "1"),
        (1.26, "1.3"),
        (1200.0, "1200"),
        (-2.5, "-2.5"),
    ],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert svg.number(value) == text


def test_attributes_and_words_are_escaped() -> None:
    text = svg.text('a < b & "c"', 1.0, 2.25, font_size=9.0, class_="m", title='"&<')
    element = ElementTree.fromstring(text)
    assert element.text == 'a < b & "c"'
    assert element.attrib == {
        **{"x": "1", "y": "2.2", "font-size": "9", "class": "m", "title": '"&<'}
    }


def test_boxes_of_a_row_are_one_path() -> None:
    path = svg.rectangles([(1.0, 2.5), (10.0, 3.0)], 7.0)
    assert path == "M1 0h2.5v7h-2.5zM10 0h3v7h-3z"


def test_what_does_not_fit_ends_in_an_ellipsis() -> None:
    assert svg.fitted("short", 10.0, 100.0) == "short"
    shown = svg.fitted("a long name of something", 10.0, 60.0)
    assert shown.endswith("…")
    assert "a long name".startswith(shown[:-1])
    assert svg.width_of(shown, 10.0) <= 60
    assert svg.fitted("x" * 1000, 10.0, 1.0) == "…"
    # Letters that are not Latin take more room.
    assert svg.width_of("集群", 10.0) > svg.width_of("ab", 10.0)
