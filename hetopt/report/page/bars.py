"""Bars below each other, with their names and values: a list for whoever reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hetopt.report.page.markup import percent, tag, words

if TYPE_CHECKING:
    from collections.abc import Sequence


class Bar(NamedTuple):
    """One bar.

    Attributes
    ----------
    value
        0 or more; None for no bar.
    sure
        Up to where it is proven: beyond, it is hatched. None for nowhere.
    text
        Said of it.
    """

    name: str
    value: float | None
    sure: float | None
    text: str


def bars(found: Sequence[Bar]) -> str:
    """Return bars from 0 on, the longest as wide as there is room."""
    most = max((bar.value for bar in found if bar.value is not None), default=0.0)
    return tag("ul", *(_row(bar, most or 1.0) for bar in found), class_="bars")


def _row(bar: Bar, most: float) -> str:
    value = bar.value or 0.0
    sure = min(bar.sure or 0.0, value)
    return tag(
        "li",
        words("span", bar.name, class_="name"),
        tag(
            "span",
            tag("i", class_="sure", style=f"width:{percent(sure / most)}"),
            tag("i", class_="unsure", style=f"width:{percent((value - sure) / most)}"),
            class_="track",
        ),
        words("span", bar.text, class_="value"),
    )
