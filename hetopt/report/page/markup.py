"""Pieces of HTML that several sections use; all text in them is escaped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.report.drawing.html import html
from hetopt.report.timeline.svg import element, plain

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hetopt.report.drawing.sheet import Part


def tag(name: str, *parts: str, **attributes: object) -> str:
    """Return an element with markup in it, with an end tag even if it is empty."""
    return element(name, "".join(parts), **attributes)


def words(name: str, text: str, **attributes: object) -> str:
    """Return an element with text in it."""
    return element(name, plain(text), **attributes)


def table(parts: Iterable[Part], about: str) -> str:
    """Return tables that scroll horizontally if they are too wide."""
    return tag(
        "div", html(parts), class_="wide", tabindex="0", role="group", aria_label=about
    )


def folded(summary: str, *parts: str, open_: bool = False) -> str:
    """Return parts that are folded under a summary, and unfolded in print."""
    head = words("summary", summary)
    return tag("details", head, *parts, open="" if open_ else None) + "\n"


def percent(share: float) -> str:
    """Return a share as a percentage in a style."""
    return f"{100 * share:.3f}".rstrip("0").rstrip(".") + "%"
