"""The counterpart of a paper's figure: rows, and remarks on the differences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.figure_runs import Campaign, Shot

Cell = str | int | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One figure's counterpart.

    Attributes
    ----------
    name
        Name of its files.
    title
        Paper, figure, and content.
    campaign
        Name of the campaign with its runs.
    remarks
        Differences from the paper, with their causes.
    """

    name: str
    title: str
    campaign: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    remarks: tuple[str, ...]


MODELLED = (
    "All latencies are modelled, from measured operators where an accelerator has "
    "them; no whole iteration of these problems was measured."
)


def above_optimum(shot: Shot, optimum: Shot | None) -> float | None:
    """Return the share by which a plan is above a proven optimum."""
    if optimum is None or optimum.status != "optimal" or shot.closed_form_s is None:
        return None
    return shot.closed_form_s / (optimum.closed_form_s or shot.closed_form_s) - 1


def shown(value: Cell) -> str:
    """Return a cell as text for people."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value)


def markdown(table: Table, campaign: Campaign, pictures: Sequence[str]) -> str:
    """Return a figure's section."""
    parts = [f"## {table.title}", ""]
    parts += [f"![{table.title}]({name})" for name in pictures]
    parts += ["", f"| {' | '.join(table.columns)} |", f"|{'---|' * len(table.columns)}"]
    parts += [f"| {' | '.join(shown(cell) for cell in row)} |" for row in table.rows]
    parts += ["", *(f"- {remark}" for remark in table.remarks)]
    parts += [f"- Made on {campaign.machine}; {campaign.limit_s:g} s per search.", ""]
    return "\n".join(parts)
