"""The format of all files of measured times: header lines, then one CSV table.

# key: value
column,column
cell,cell
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: Most digits of a whole number in a file; no size or count has more.
MOST_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvText:
    """A file's header and cells as text.

    Attributes
    ----------
    header
        Values by key, in the file's order.
    rows
        Line number, and cells by column.
    """

    header: Mapping[str, str]
    rows: tuple[tuple[int, Mapping[str, str]], ...]


def parse_csv_text(
    text: str,
    name: str,
    *,
    columns: Sequence[str],
    required: Sequence[str],
    known_values: Mapping[str, Sequence[str]],
    optional_columns: Sequence[str] = (),
) -> CsvText:
    """Return header and cells.

    Parameters
    ----------
    name
        Name of the file in error messages.
    columns, optional_columns
        Columns that the table must have, and may have; others are ignored.
    required
        Keys that the header must have.
    known_values
        Permitted values of some keys.

    Raises
    ------
    InputError
        A line is malformed; the message has file, line and column or key.
    """
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    first = next(
        (n for n, line in enumerate(lines) if not line.startswith("#")), len(lines)
    )
    header = _parse_header(lines[:first], name, required, known_values)
    if first == len(lines) or not lines[first].strip():
        raise InputError("the table's line of column names is missing", file=name)
    given = [column.strip() for column in lines[first].split(",")]
    for column in (*columns, *optional_columns):
        if given.count(column) > 1 or (column in columns and column not in given):
            problem = "is missing" if column not in given else "occurs twice"
            raise InputError(
                f"this column {problem}", file=name, line=first + 1, field=column
            )
    read = [c for c in (*columns, *optional_columns) if c in given]
    rows = []
    for number, line in enumerate(lines[first + 1 :], start=first + 2):
        if line.strip():
            cells = _cells(given, line, name, number)
            rows.append((number, {column: cells[column] for column in read}))
    return CsvText(header=header, rows=tuple(rows))


def csv_text(
    header: Mapping[str, str],
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
) -> str:
    """Return the text of a file, with each header value on one line."""
    lines = [f"# {key}: {' '.join(value.split())}\n" for key, value in header.items()]
    lines.append(",".join(columns) + "\n")
    return "".join(lines) + "".join(map(csv_line, rows))


def csv_line(cells: Sequence[object]) -> str:
    """Return one line of the table; None is an empty cell, a bool 1 or 0."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(
        "" if cell is None else int(cell) if isinstance(cell, bool) else cell
        for cell in cells
    )
    return text.getvalue()


def append_rows(path: str, rows: Iterable[Sequence[object]]) -> None:
    """Append rows of cells to a file, in one write.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    try:
        with open(path, "ab", buffering=0) as file:
            file.write("".join(map(csv_line, rows)).encode())
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot be written: {reason}", file=path) from error


def whole_number(column: str, text: str) -> int:
    """Return a cell's whole number; a ValueError is ``column: what is wrong``."""
    if not (text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS):
        msg = f"{column}: {text!r} is not a whole number"
        raise ValueError(msg)
    return int(text)


def header_of(text: str) -> dict[str, str]:
    """Return a file's header without parsing its table; lines are not validated."""
    found = {}
    for line in text.removeprefix("\ufeff").splitlines():
        if not line.startswith("#"):
            break
        key, _, value = line[1:].partition(":")
        found[key.strip()] = value.strip()
    return found


def _parse_header(
    lines: Sequence[str],
    name: str,
    required: Sequence[str],
    known_values: Mapping[str, Sequence[str]],
) -> Mapping[str, str]:
    header: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        key, colon, value = line[1:].partition(":")
        key, value = key.strip(), value.strip()
        if not colon or not key:
            raise InputError(
                "is not a header line, expected '# key: value'", file=name, line=number
            )
        if key in header:
            raise InputError("occurs twice", file=name, line=number, field=key)
        known = known_values.get(key)
        if known is not None and value not in known:
            raise InputError(
                f"{value!r}, expected {', '.join(known)}",
                file=name,
                line=number,
                field=key,
            )
        header[key] = value
    for key in required:
        if not header.get(key):
            msg = f"the header lacks it, expected a line '# {key}: ...'"
            raise InputError(msg, file=name, field=key)
    return MappingProxyType(header)


def _cells(
    columns: Sequence[str], line: str, name: str, number: int
) -> Mapping[str, str]:
    try:
        cells = next(csv.reader([line]), [])
    except csv.Error as error:
        raise InputError(f"is not CSV: {error}", file=name, line=number) from error
    if len(cells) != len(columns):
        msg = f"has {counted(len(cells), 'cell')}, expected {len(columns)}"
        raise InputError(msg, file=name, line=number)
    return dict(zip(columns, (cell.strip() for cell in cells), strict=True))
