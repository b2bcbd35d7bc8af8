"""Elements of an SVG file as text, in as few bytes as drawings of many events need."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

if TYPE_CHECKING:
    from collections.abc import Iterable

#: What XML cannot hold, in whatever form.
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: Of a letter's height, how wide letters are: slim ones, most, and all but Latin ones.
_SLIM, _COMMON, _WIDE = 0.34, 0.61, 1.0
_SLIM_ONES = frozenset(" ,.:;'()-fijlrtI")
_LAST_LATIN = "\u024f"


def number(value: float) -> str:
    """Return a length to a tenth of a pixel."""
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
    """Return words that begin at x, unless a style says that they end there."""
    return element("text", plain(content), x=x, y=y, **attributes)


def plain(content: str) -> str:
    """Return text as XML can hold it."""
    return escape(_NO_XML.sub("\ufffd", content))


def rectangles(boxes: Iterable[tuple[float, float]], height: float) -> str:
    """Return the path of boxes of one height side by side, each by its left and width.

    They stand on y = 0 of the group that they are put in.
    """
    tall = number(height)
    return "".join(
        f"M{number(left)} 0h{number(width)}v{tall}h-{number(width)}z"
        for left, width in boxes
    )


def width_of(content: str, size: float) -> float:
    """Return about how wide a text of this size is."""
    return size * sum(map(_width, content))


def fitted(content: str, size: float, room: float) -> str:
    """Return a text, or what there is room for of its beginning, with an ellipsis."""
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
