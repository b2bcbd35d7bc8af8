"""Elements of an SVG file as text, compact since drawings have many events."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Characters that XML cannot contain, not even escaped.
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: Widths of letters relative to their size: slim ones, other Latin ones, all others.
_SLIM, _COMMON, _WIDE = 0.34, 0.61, 1.0
_SLIM_ONES = frozenset(" ,.:;'()-fijlrtI")
_LAST_LATIN = "\u024f"


def number(value: float) -> str:
    """Return a length rounded to a tenth of a pixel."""
    text = f"{value:.1f}"
    return text.removesuffix(".0") if text != "-0.0" else "0"


def element(name: str, content: str | None = None, /, **attributes: object) -> str:
    """Return an element with markup in it; underscores of attributes become hyphens."""
    parts = "".join(
        f" {key.rstrip('_').replace('_', '-')}={quoteattr(_written(value))}"
        for key, value in attributes.items()
        if value is not None
    )
    if content is None:
        return f"<{name}{parts}/>"
    return f"<{name}{parts}>{content}</{name}>"


def text(content: str, x: float, y: float, **attributes: object) -> str:
    """Return a text that begins at x, unless its class aligns it otherwise."""
    return element("text", plain(content), x=x, y=y, **attributes)


def plain(content: str) -> str:
    """Return text escaped for XML."""
    return escape(_NO_XML.sub("\ufffd", content))


def rectangles(boxes: Iterable[tuple[float, float]], height: float) -> str:
    """Return the path of boxes of one height, given by left edge and width.

    Their top is at y = 0 of their group.
    """
    tall = number(height)
    return "".join(
        f"M{number(left)} 0h{number(width)}v{tall}h-{number(width)}z"
        for left, width in boxes
    )


def width_of(content: str, size: float) -> float:
    """Return the approximate width of a text of this size."""
    return size * sum(map(_width, content))


def fitted(content: str, size: float, room: float) -> str:
    """Return a text, shortened with an ellipsis if it does not fit."""
    if width_of(content, size) <= room:
        return content
    while content and width_of(content + "…", size) > room:
        content = content[:-1]
    return content.rstrip() + "…"


def _width(letter: str) -> float:
    if letter in _SLIM_ONES:
        return _SLIM
    return _COMMON if letter <= _LAST_LATIN else _WIDE


def _written(value: object) -> str:
    return number(value) if isinstance(value, float) else str(value)
