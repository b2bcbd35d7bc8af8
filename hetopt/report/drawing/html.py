"""Draws tables and labelled lines as HTML, for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from hetopt.report.drawing.sheet import Lines, Sheet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hetopt.report.drawing.sheet import Part

_SOFT_HYPHEN = "\u00ad"
_LEFT, _RIGHT = ' style="text-align: left"', ' style="text-align: right"'


def html(parts: Iterable[Part]) -> str:
    """Return the parts of a report as HTML; everything in them is escaped."""
    return "\n".join(map(_part, parts))


def _part(part: Part) -> str:
    match part:
        case Sheet():
            return _table(part)
        case Lines():
            rows = (
                f'<tr><th scope="row"{_LEFT}>{escape(label)}</th>'
                f"<td{_LEFT}>{escape(text)}</td></tr>"
                for label, text in part.pairs
            )
            return f"<table>\n{_joined(rows)}</table>"
        case _:
            return f"<p>{escape(part)}</p>" if part else ""


def _table(table: Sheet) -> str:
    align = [_LEFT if column.text else _RIGHT for column in table.columns]
    names = [column.name.replace(_SOFT_HYPHEN, "") for column in table.columns]
    head = "".join(
        f'<th scope="col"{side}>{escape(name)}</th>'
        for side, name in zip(align, names, strict=True)
    )
    rows = (
        "<tr>{}</tr>".format(
            "".join(
                f"<td{side}>{escape(cell)}</td>"
                for side, cell in zip(align, row, strict=True)
            )
        )
        for row in table.rows
    )
    return (
        f"<table>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{_joined(rows)}</tbody>\n</table>"
    )


def _joined(rows: Iterable[str]) -> str:
    return "".join(f"{row}\n" for row in rows)
