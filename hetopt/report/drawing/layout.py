"""Fits a table to a width: narrower text, fewer columns, or several lines an entry.

Numbers are never broken. In a table that is too wide, text is first broken at spaces,
then optional columns are left out, and then every entry takes two lines or more, each
with a part of the columns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from rich.cells import cell_len

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.report.drawing.sheet import Column, Sheet

#: Characters between two columns of a table.
GAP = 2
#: Least length of the lines that text is broken into, if possible.
_SHORT = 16
#: A piece of a heading: a word, or a part of one that ends in a (soft) hyphen.
_PIECE = re.compile("[^\\s\u00ad-]+[-\u00ad]?|-")
_SOFT = "\u00ad"

#: The numbers of the columns in each line of an entry; None is an empty place.
Places = tuple[tuple[int | None, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SheetLayout:
    """The places of a table's columns.

    Attributes
    ----------
    lines
        Columns by line; all lines have equally many places.
    widths
        Widths of the places.
    """

    lines: Places
    widths: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Need:
    """The width that a column needs.

    Attributes
    ----------
    least, whole
        Widths at which no word, and no line, is broken.
    text
        Whether it has words.
    number
        Width at which no number is broken; 0 for a column of text.
    """

    least: int
    whole: int
    text: bool
    number: int


def layout(table: Sheet, width: int) -> SheetLayout:
    """Return the simplest layout that fits ``width``."""
    needs = [
        _need(column, [row[number] for row in table.rows])
        for number, column in enumerate(table.columns)
    ]
    every = range(len(table.columns))
    kept = [number for number in every if not table.columns[number].optional]
    first, *others = kept
    candidates: list[Places] = [(tuple(every),), (tuple(kept),)]
    candidates += [_stacked(first, others, count) for count in range(2, len(others))]
    for lines in candidates:
        at_least = [place.least for place in _places(lines, needs)]
        if _total(at_least) <= width:
            widths = _widened(_places(lines, needs), at_least, width)
            return SheetLayout(lines=lines, widths=widths)
    lines = _stacked(first, others, max(len(others), 1))
    return SheetLayout(lines=lines, widths=_squeezed(_places(lines, needs), width))


def heading(name: str, width: int) -> list[str]:
    """Return a heading as lines, broken at spaces and hyphens where necessary."""
    lines: list[str] = []
    after = ""
    for found in _PIECE.finditer(name):
        piece = found.group()
        glue = " " if name[found.start() - 1 : found.start()].isspace() else ""
        joined = f"{after.removesuffix(_SOFT)}{glue}{piece}"
        if after and cell_len(_shown(joined)) <= width:
            lines[-1] = _shown(joined)
            after = joined
        else:
            lines.append(_shown(piece))
            after = piece
    return lines


def _shown(text: str) -> str:
    """Return a line of a heading; a word continued below ends in a hyphen."""
    return f"{text[:-1]}-" if text.endswith(_SOFT) else text


def _need(column: Column, cells: Sequence[str]) -> _Need:
    name = column.name.replace(_SOFT, "")
    pieces = (cell_len(_shown(piece)) for piece in _PIECE.findall(column.name))
    whole = max(map(cell_len, cells), default=0)
    least = whole
    if column.text and not column.optional:
        words = chain.from_iterable(cell.split() for cell in cells)
        least = max(min(whole, _SHORT), *map(cell_len, words), 0)
    return _Need(
        least=max(least, *pieces, 0),
        whole=max(whole, cell_len(name)),
        text=column.text,
        number=0 if column.text else least,
    )


def _stacked(first: int, others: Sequence[int], count: int) -> Places:
    """Distribute all columns but the first over ``count`` lines, in their order."""
    places = -(-len(others) // count)
    lines: list[tuple[int | None, ...]] = []
    for start in range(0, len(others), places):
        line = others[start : start + places]
        lines.append((None if start else first, *line, *[None] * (places - len(line))))
    return tuple(lines)


def _places(lines: Places, needs: Sequence[_Need]) -> list[_Need]:
    """Return the width that every place needs for all of its columns."""
    found = []
    for place in zip(*lines, strict=True):
        own = [needs[number] for number in place if number is not None]
        found.append(
            _Need(
                least=max(need.least for need in own),
                whole=max(need.whole for need in own),
                text=any(need.text for need in own),
                number=max(need.number for need in own),
            )
        )
    return found


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _widened(
    places: Sequence[_Need], at_least: Sequence[int], width: int
) -> tuple[int, ...]:
    """Distribute the remaining width: to columns of text first, then to the others."""
    widths = list(at_least)
    left = width - _total(widths)
    for number in sorted(
        range(len(places)), key=lambda number: not places[number].text
    ):
        more = min(left, places[number].whole - widths[number])
        widths[number] += more
        left -= more
    return tuple(widths)


def _squeezed(places: Sequence[_Need], width: int) -> tuple[int, ...]:
    """Return widths at which long words may be broken, but no number is."""
    widths = [max(min(place.least, _SHORT), place.number) for place in places]
    left = max(width - _total(widths), 0)
    widths[-1] += min(left, places[-1].whole - widths[-1])
    return tuple(widths)
