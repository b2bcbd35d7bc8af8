"""The front of time against price as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from hetopt.report.front.table import headline, nodes_text
from hetopt.report.summary import FORMS

if TYPE_CHECKING:
    from hetopt.results.front import Front

_POINT, _LINE = "#0072B2", "#9ecae1"
#: With more points, only every n-th is labelled with its nodes.
_MOST_LABELS = 16


def front_figure(front: Front, title: str) -> Figure:
    """Draw every plan of the front by its price and time.

    The line goes in steps, since there is no plan between two points.
    """
    prices = [point.cost.per_hour or 0.0 for point in front.points]
    times = [front.time_s(point) for point in front.points]
    figure = Figure(figsize=(8, 5), layout="constrained")
    figure.suptitle(title, fontsize=11)
    axis = figure.subplots()
    axis.step(prices, times, where="post", color=_LINE, linewidth=1.2, zorder=1)
    axis.scatter(prices, times, color=_POINT, s=28, zorder=2)
    skipped = -(-len(prices) // _MOST_LABELS) if prices else 1
    places = zip(prices, times, front.points, strict=True)
    for number, (price, time_s, point) in enumerate(places):
        if number % skipped:
            continue
        axis.annotate(
            nodes_text(point),
            (price, time_s),
            xytext=(5, 5),
            textcoords="offset points",
            fontsize=8,
        )
    axis.set_xlabel("price per hour")
    axis.set_ylabel(f"s per iteration ({FORMS[front.objective]})")
    axis.set_xlim(left=0)
    axis.set_ylim(bottom=0)
    axis.margins(0.12)
    axis.set_title(headline(front), fontsize=9)
    axis.spines[["top", "right"]].set_visible(False)
    return figure
