"""Fits a table to a width: narrower text, fewer columns, or a block of lines a row.

Numbers are never broken. In a table that is too wide, text is first broken at spaces,
then optional columns are left out. If that is not enough, every row becomes a block of
lines in which each cell follows the name of its column.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain
from textwrap import wrap
from typing import TYPE_CHECKING

from rich.cells import cell_len

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.report.drawing.sheet import Column, Sheet

#: Characters between two columns of a table, or between two cells of a block.
GAP = 2
#: Least length of the lines that text is broken into, if possible.
_SHORT = 16
#: A piece of a heading: a word, or a part of one that ends in a (soft) hyphen.
_PIECE = re.compile("[^\\s\u00ad-]+[-\u00ad]?|-")
_SOFT = "\u00ad"


@dataclass(frozen=True, slots=True, kw_only=True)
class SheetLayout:
    """The columns of a table that are shown, and their widths."""

    columns: tuple[int, ...]
    widths: tuple[int, ...]


def layout(table: Sheet, width: int) -> SheetLayout | None:
    """Return the simplest layout that fits ``width``; None if no table does."""
    cells = [[row[at] for row in table.rows] for at in range(len(table.columns))]
    every = [*zip(table.columns, cells, strict=True)]
    kept = [*range(len(every))]
    optional = [at for at in kept if table.columns[at].optional]
    while True:
        least = [_least(*every[at]) for at in kept]
        if _total(least) <= width:
            widths = _widened([every[at] for at in kept], least, width)
            return SheetLayout(columns=tuple(kept), widths=widths)
        if not optional:
            return None
        kept.remove(optional.pop())


def blocks(table: Sheet, width: int) -> Iterator[str]:
    """Yield the lines of a table as one block for each row."""
    names = [column.name.replace(_SOFT, "") for column in table.columns]
    indent = " " * GAP
    for row in table.rows:
        line = ""
        for name, cell in zip(names, row, strict=True):
            pair = f"{name} {cell}".strip()
            if line and cell_len(line) + GAP + cell_len(pair) <= width:
                line += indent + pair
                continue
            if line:
                yield line
                pair = indent + pair
            *full, line = _wrapped(pair, width)
            yield from full
        yield line


def _wrapped(pair: str, width: int) -> list[str]:
    """Return a cell with its name as lines, broken at spaces where possible."""
    indent = " " * 2 * GAP
    return wrap(pair, width, subsequent_indent=indent, break_on_hyphens=False) or [""]


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


def _least(column: Column, cells: Sequence[str]) -> int:
    """Return the width at which no number and no word of a column is broken."""
    pieces = (cell_len(_shown(piece)) for piece in _PIECE.findall(column.name))
    least = max(map(cell_len, cells), default=0)
    if column.text and not column.optional:
        words = chain.from_iterable(cell.split() for cell in cells)
        least = max(min(least, _SHORT), *map(cell_len, words), 0)
    return max(least, *pieces, 0)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _widened(
    columns: Sequence[tuple[Column, Sequence[str]]], least: Sequence[int], width: int
) -> tuple[int, ...]:
    """Distribute the remaining width: to columns of text first, then to the others."""
    widths = list(least)
    left = width - _total(widths)
    for at in sorted(range(len(columns)), key=lambda at: not columns[at][0].text):
        column, cells = columns[at]
        name = cell_len(column.name.replace(_SOFT, ""))
        more = min(left, max(name, *map(cell_len, cells), 0) - widths[at])
        widths[at] += more
        left -= more
    return tuple(widths)
