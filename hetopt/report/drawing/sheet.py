"""Parts of reports: tables and labelled lines, as plain text.

``hetopt.report.drawing.console`` draws them for a terminal of some width,
``hetopt.report.drawing.html`` for a notebook.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a table.

    Attributes
    ----------
    name
        Its heading; in a narrow column it breaks at spaces and after hyphens.
    text
        Whether cells are words, aligned to the left, which may be broken at spaces.
        Other cells are never broken.
    optional
        Whether it may be left out if the table does not fit the width.
    """

    name: str
    text: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A table.

    Attributes
    ----------
    columns
        The first one identifies the row.
    rows
        Each with one cell per column.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Lines:
    """Texts with a label before each."""

    pairs: tuple[tuple[str, str], ...]


#: One part of a report; a string is one line or several.
Part = str | Sheet | Lines


def sheet(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    left: Sequence[str] = (),
    optional: Sequence[str] = (),
) -> Sheet:
    """Return a table of these rows.

    Parameters
    ----------
    left
        Columns of words.
    optional
        Columns that may be left out.
    """
    return Sheet(
        columns=tuple(
            Column(name=name, text=name in left, optional=name in optional)
            for name in columns
        ),
        rows=tuple(tuple(str(cell) for cell in row) for row in rows),
    )


def by_column(
    columns: Sequence[tuple[str, Iterable[Any]]],
    *,
    left: Sequence[str] = (),
    optional: Sequence[str] = (),
) -> Sheet:
    """Return a table of columns, each with its name and its cells; see ``sheet``."""
    rows = zip(*(cells for _, cells in columns), strict=True)
    return sheet([name for name, _ in columns], rows, left=left, optional=optional)


def labelled(pairs: Iterable[tuple[str, str]]) -> Lines:
    """Return texts with a label before each."""
    return Lines(tuple(pairs))
