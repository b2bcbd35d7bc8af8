"""Records as CSV."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Row = TypeVar("Row")


def csv_text(
    columns: Iterable[str],
    rows: Iterable[Row],
    also: Mapping[str, Callable[[Row], object]],
) -> str:
    """Return one line for each row, with unrounded numbers.

    Parameters
    ----------
    columns
        What each has of a row: the value of a field, or of a field of a record in it,
        if there is one: ``cost.per_hour``, which is then the column ``cost_per_hour``.
    also
        What other columns have, by their names.
    """
    names = tuple(columns)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(name.replace(".", "_") for name in names)
    for row in rows:
        values = [also[x](row) if x in also else _field(row, x) for x in names]
        writer.writerow(
            str(each).lower() if isinstance(each, bool) else each for each in values
        )
    return stream.getvalue()


def _field(row: object, path: str) -> object:
    for name in path.split("."):
        row = getattr(row, name, None)
    return row
