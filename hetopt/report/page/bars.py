"""Horizontal bars with names and values, as an HTML list."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hetopt.report.page.markup import percent, tag, words

if TYPE_CHECKING:
    from collections.abc import Sequence


class Span(NamedTuple):
    """A part of a bar, in the style of its kind, from one value to another."""

    kind: str
    start: float
    end: float


class Bar(NamedTuple):
    """One bar: its name, its value as text, and its parts; no parts draw no bar."""

    name: str
    text: str
    spans: tuple[Span, ...]


def bars(found: Sequence[Bar], low: float = 0.0, unit: str = "") -> str:
    """Return bars on one scale.

    Parameters
    ----------
    low
        Start of the scale; if not 0, both its ends are labelled, with the unit.
    """
    high = max((span.end for bar in found for span in bar.spans), default=0.0)
    scale = (high - low) or 1.0
    rows = [
        _row(
            bar.name,
            bar.text,
            *(
                tag(
                    "i",
                    class_=span.kind,
                    style=f"left:{percent((span.start - low) / scale)};"
                    f"width:{percent((span.end - span.start) / scale)}",
                )
                for span in bar.spans
            ),
        )
        for bar in found
    ]
    if low:
        ends = (words("small", f"{end:.4g} {unit}") for end in (low, high))
        rows.append(_row("", "", *ends))
    return tag("ul", *rows, class_="bars")


def _row(name: str, text: str, *parts: str) -> str:
    return tag(
        "li",
        words("span", name, class_="name"),
        tag("span", *parts, class_="track"),
        words("span", text, class_="value"),
    )
