"""Records as CSV."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Row = TypeVar("Row")


def csv_text(
    columns: Mapping[str, Callable[[Row], object]], rows: Iterable[Row]
) -> str:
    """Return one line for each row, with unrounded numbers.

    Parameters
    ----------
    columns
        What each column has, by its name.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        values = [value(row) for value in columns.values()]
        writer.writerow(
            str(each).lower() if isinstance(each, bool) else each for each in values
        )
    return stream.getvalue()
