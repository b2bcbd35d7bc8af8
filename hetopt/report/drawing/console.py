"""Draws the parts of a report as text, with rich."""

from __future__ import annotations

import io
import os
import shutil
from typing import IO, TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hetopt.report.drawing.layout import blocks, heading, layout
from hetopt.report.drawing.sheet import Lines, Sheet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import JustifyMethod, RenderableType

    from hetopt.report.drawing.sheet import Part

#: Width of output to a file or a pipe: wide enough that no row is broken.
PIPE_WIDTH = 200


def is_terminal(stream: IO[str] | None) -> bool:
    """Whether ``stream`` is an open terminal, and not a dumb one."""
    return (
        stream is not None
        and not stream.closed
        and stream.isatty()
        and os.environ.get("TERM") not in ("dumb", "unknown")
    )


def width_of(stream: IO[str] | None) -> int:
    """Return the width of ``stream`` in characters."""
    if is_terminal(stream):
        return max(shutil.get_terminal_size().columns, 40)
    return PIPE_WIDTH


def draw(
    parts: Iterable[Part], stream: IO[str] | None, *, coloured: bool = True
) -> str:
    """Return ``parts`` as text that suits ``stream``.

    Parameters
    ----------
    coloured
        Whether a terminal gets colours and bold letters.
    """
    width = width_of(stream)
    terminal = is_terminal(stream)
    styled = terminal and coloured
    console = Console(
        file=io.StringIO(),
        force_terminal=styled,
        color_system="standard" if styled else None,
        no_color=not styled or "NO_COLOR" in os.environ or None,
        width=width,
        emoji=False,
        highlight=False,
        markup=False,
    )
    with console.capture() as capture:
        for part in parts:
            # For a terminal break long lines at words; for a pipe do not break them.
            soft = isinstance(part, str) and not terminal
            console.print(_renderable(part, width), soft_wrap=soft)
    lines = capture.get().split("\n")
    return "\n".join(line.rstrip() for line in lines)


def _renderable(part: Part, width: int) -> RenderableType:
    match part:
        case Sheet():
            return _drawn(part, width)
        case Lines():
            return _labelled(part)
        case _:
            return part


def _drawn(table: Sheet, width: int) -> Table | str:
    """Return a table in the layout that fits ``width``, or its rows as blocks."""
    placed = layout(table, width)
    if placed is None:
        return "\n".join(blocks(table, width))
    drawn = Table(
        box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False
    )
    for at, room in zip(placed.columns, placed.widths, strict=True):
        column = table.columns[at]
        side: JustifyMethod = "left" if column.text else "right"
        head = Text("\n".join(heading(column.name, room)), justify=side)
        drawn.add_column(head, justify=side, width=room, overflow="fold")
    for row in table.rows:
        drawn.add_row(*(row[at] for at in placed.columns))
    return drawn


def _labelled(lines: Lines) -> Table:
    """Return lines as two columns without a head."""
    drawn = Table(box=None, show_header=False, pad_edge=False)
    drawn.add_column(no_wrap=True, style="bold")
    drawn.add_column(overflow="fold")
    for label, text in lines.pairs:
        drawn.add_row(label, text)
    return drawn
