"""Contrasts of the page's colours, as WCAG 2.2 counts them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from hetopt.report.page.colours import DARK, LIGHT, variables
from hetopt.report.timeline.palette import ACTIVITIES
from hetopt.report.timeline.palette import DARK as WITH_WHITE

BOTH = pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
#: What the style mixes clusters' colours with paper for, under text.
UNDER_TEXT = (0.16,)


def channels(colour: str) -> list[float]:
    return [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]


def luminance(rgb: list[float]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: list[float], other: list[float]) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_measure_is_right() -> None:
    assert contrast([0.0] * 3, [1.0] * 3) == pytest.approx(21)
    assert contrast(channels("#767676"), channels("#ffffff")) == pytest.approx(
        4.54, abs=0.01
    )


@BOTH
def test_text_is_readable(colours: Mapping[str, str]) -> None:
    for text in ("ink", "muted", "accent"):
        for ground in ("paper", "surface"):
            found = contrast(channels(colours[text]), channels(colours[ground]))
            assert found >= 4.5, (text, ground)


@BOTH
def test_clusters_are_seen_and_text_on_them_is_readable(
    colours: Mapping[str, str],
) -> None:
    paper, ink = channels(colours["paper"]), channels(colours["ink"])
    for name, value in colours.items():
        if not name.startswith("cluster-"):
            continue
        for ground in ("paper", "surface"):
            own = contrast(channels(value), channels(colours[ground]))
            assert own >= 3, (name, ground)
        for share in UNDER_TEXT:
            mixed = [
                share * c + (1 - share) * p
                for c, p in zip(channels(value), paper, strict=True)
            ]
            assert contrast(ink, mixed) >= 4.5, (name, share)


def test_numbers_on_activities_are_readable() -> None:
    for name, paint in ACTIVITIES.items():
        number = "#ffffff" if name in WITH_WHITE else "#15191e"
        assert contrast(channels(number), channels(paint.colour)) >= 4.5, name


def test_both_forms_name_the_same_colours() -> None:
    assert {*LIGHT} == {*DARK}
    for name in LIGHT:
        assert variables().count(f"--{name}:") == 2
