"""A picture of curves in a frame; its text has the same size on any screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.report.page.markup import tag, words
from hetopt.report.timeline.svg import element

if TYPE_CHECKING:
    from collections.abc import Sequence


def plot(
    curves: Sequence[str],
    *,
    upright: tuple[str, str],
    along: tuple[str, str],
    about: str,
    said: str,
) -> str:
    """Return a figure.

    Parameters
    ----------
    curves
        Markup in a square of 100 by 100, from the top left corner.
    upright, along
        Labels at the ends of the axes: high and low, left and right.
    about, said
        The alternative text of the picture, and its caption.
    """
    drawn = element(
        "svg",
        "".join(curves),
        viewBox="0 0 100 100",
        preserveAspectRatio="none",
        aria_hidden="true",
    )
    frame = tag(
        "div",
        tag("div", *(words("span", text) for text in upright)),
        tag("div", drawn),
        tag("div"),
        tag("div", *(words("span", text) for text in along)),
        class_="plot",
        role="img",
        aria_label=about,
    )
    return tag("figure", frame, words("figcaption", said))
