"""The section of time against price, from files of `hetopt plan --pareto --out`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.report.front.table import headline, points
from hetopt.report.page.markup import folded, table, words
from hetopt.report.page.plot import plot
from hetopt.report.summary import FORMS, amount
from hetopt.report.timeline.svg import element

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.report.page.contents import Contents
    from hetopt.results.front import Front


def front(contents: Contents) -> str:
    """Return the section: a picture and a table of every front."""
    parts = (part for name, own in contents.fronts for part in _parts(name, own))
    return "".join(parts)


def _parts(name: str, own: Front) -> Iterator[str]:
    said = headline(own)
    yield words("p", f"{said[0].upper()}{said[1:]}.")
    if own.points:
        yield _picture(own)
    title = f"Table of {name}"
    yield folded(title, table([points(own)], title), open_=True)


def _picture(own: Front) -> str:
    """Draw the best time at each price, in steps: between points there is no plan."""
    prices = [point.cost.per_hour or 0.0 for point in own.points]
    times = [own.time_s(point) for point in own.points]
    most, longest = max(prices) * 1.05 or 1.0, max(times) * 1.05
    path = ""
    for price, time_s in zip(prices, times, strict=True):
        x, y = f"{100 * price / most:.2f}", f"{100 * (1 - time_s / longest):.2f}"
        path += f"H{x}V{y}" if path else f"M{x} {y}"
    # A line of length 0 with round ends: a dot that is not stretched with the picture.
    dots = "".join(
        f"M{100 * price / most:.2f} {100 * (1 - time_s / longest):.2f}h0"
        for price, time_s in zip(prices, times, strict=True)
    )
    about = f"seconds an iteration ({FORMS[own.objective]}) at each price per hour"
    return plot(
        [
            element("path", class_="incumbent", d=f"{path}H100"),
            element("path", class_="dots", d=dots),
        ],
        upright=(f"{longest:.4g} s", "0 s"),
        along=("0 an hour", f"{amount(most)} an hour"),
        about=about,
        said=f"{about[0].upper()}{about[1:]}: a dot is a plan.",
    )
