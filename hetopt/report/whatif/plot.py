"""Variants of a problem as bars: their times, and their costs.

Proven and unproven parts differ in lightness and hatching, not only in colour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from hetopt.report.summary import FORMS, amount

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes

    from hetopt.report.whatif.table import Row
    from hetopt.results.result import Objective

_PROVEN, _OPEN, _COST = "#0072B2", "#9ecae1", "#E69F00"
#: Length of the axis relative to the longest bar, with room for its text.
_ROOM = 1.35
#: Most labelled amounts of money on the axis.
_TICKS = 4
#: Characters of a change that are shown.
_MOST = 48


def whatif_figure(found: Sequence[Row], objective: Objective, title: str) -> Figure:
    """Draw a bar per variant; with prices, another for the cost of training.

    If a variant's plan is not proven optimal, the part between its lower bound and its
    plan is lighter and hatched.
    """
    priced = any(
        row.cost is not None and row.cost.per_hour is not None for row in found
    )
    columns = 2 if priced else 1
    figure = Figure(figsize=(5.5 * columns + 2, 0.42 * len(found) + 1.6))
    figure.set_layout_engine("constrained")
    figure.suptitle(title, fontsize=11)
    axes = list(figure.subplots(1, columns, sharey=True, squeeze=False).flat)
    _draw_times(axes[0], found)
    axes[0].set_xlabel(f"s per iteration ({FORMS[objective]})")
    axes[0].set_yticks(range(len(found)), [_short(row.change) for row in found])
    # The first row, the unchanged problem, is at the top.
    axes[0].invert_yaxis()
    if priced:
        costs = [row.cost.per_trillion_tokens if row.cost else None for row in found]
        axes[1].barh(
            range(len(found)), [each or 0.0 for each in costs], color=_COST, height=0.62
        )
        _label(axes[1], costs, lambda index: amount(costs[index]))
        axes[1].xaxis.set_major_locator(MaxNLocator(_TICKS))
        plain = FuncFormatter(lambda cost, _: f"{cost:,.10g}")
        axes[1].xaxis.set_major_formatter(plain)
        axes[1].set_xlabel("cost of a trillion tokens")
    return figure


def _draw_times(axis: Axes, found: Sequence[Row]) -> None:
    times = [row.time_s for row in found]
    for place, row in enumerate(found):
        if row.time_s is None:
            continue
        proven = row.status == "optimal"
        bound = row.time_s if proven else row.lower_bound_s or 0.0
        axis.barh(place, bound, color=_PROVEN, height=0.62)
        if not proven:
            axis.barh(
                place,
                row.time_s - bound,
                left=bound,
                color=_OPEN,
                edgecolor=_PROVEN,
                hatch="///",
                height=0.62,
            )
    _label(axis, times, lambda index: _text(found[index]))


def _label(
    axis: Axes, values: Sequence[float | None], text: Callable[[int], str]
) -> None:
    """Write the value of every bar beside it."""
    longest = max((each for each in values if each is not None), default=1.0)
    for place, value in enumerate(values):
        axis.annotate(
            text(place),
            (value or 0.0, place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    axis.set_xlim(0, (longest or 1.0) * _ROOM)
    axis.spines[["top", "right"]].set_visible(False)


def _text(row: Row) -> str:
    if row.time_s is None:
        return "no plan"
    proven = "" if row.status == "optimal" else ", not proven"
    if row.against_base is None:
        return f"{row.time_s:.4g}{proven}"
    return f"{row.time_s:.4g} ({row.against_base:+.1%}{proven})"


def _short(text: str) -> str:
    return text if len(text) <= _MOST else f"{text[: _MOST - 3]}..."
