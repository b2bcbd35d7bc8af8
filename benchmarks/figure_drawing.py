"""Draws the papers' figures from campaigns and tables; computes no numbers.

Besides colours (Okabe and Ito), bars differ in hatching, lines in dashes and markers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from hetopt.planning.side_by_side import Entry, Improvement, Run
from hetopt.report.comparison.comparison import Comparison, Contest
from hetopt.report.comparison.plot import best_so_far
from hetopt.solvers.registry import SOLVERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.figure_runs import Campaign, Shot
    from benchmarks.figure_tables import Table

_FACES = ("#FFFFFF", "#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#0072B2", "#999999")
_HATCHES = ("", "//", "..", "xx", "\\\\", "", "--")


def traces(table: Table, campaign: Campaign) -> Figure:
    """Draw the best plan so far against time, one panel per setting."""
    settings = dict.fromkeys(
        shot.setting for shot in campaign.shots if ", " not in shot.setting
    )
    contests = tuple(
        Contest(
            problem=setting,
            digest="",
            schedule="virtual-1f1b",
            runs=tuple(
                _run(shot) for shot in campaign.shots if shot.setting == setting
            ),
        )
        for setting in settings
    )
    return best_so_far(
        Comparison(
            machine=campaign.machine,
            time_limit_s=campaign.limit_s,
            jobs=None,
            warm_up_s={},
            contests=contests,
        )
    )


def _run(shot: Shot) -> Run:
    entry = Entry(
        solver=shot.solver,
        every_cluster=shot.every_cluster,
        seed=shot.seed,
        principles=SOLVERS[shot.solver].space,
        time_limit_s=shot.limit_s,
        exploration=shot.exploration,
    )
    return Run(
        entry=entry,
        status="optimal" if shot.status == "optimal" else "feasible",
        trace=tuple(
            Improvement(elapsed_s=time_s, closed_form_s=value)
            for time_s, value in shot.trace
        ),
        closed_form_s=shot.closed_form_s,
        iteration_time_s=shot.iteration_time_s,
        search_time_s=shot.search_time_s,
        process_time_s=shot.process_time_s,
        failure=shot.failure,
    )


def bars(
    table: Table,
    *,
    group: str,
    series: str,
    value: str,
    published: str | None = None,
    digits: int = 2,
) -> Figure:
    """Draw a table as groups of bars, each with its number on it.

    Parameters
    ----------
    group, series, value, published
        Columns: the group of bars, the bar in the group, its height, and the paper's
        value, if that is a number.
    """
    columns = table.columns
    cells = [dict(zip(columns, row, strict=True)) for row in table.rows]
    groups = list(dict.fromkeys(str(cell[group]) for cell in cells))
    names = list(dict.fromkeys(str(cell[series]) for cell in cells))
    width = 0.8 / len(names)
    figure = Figure(figsize=(max(7.0, 0.62 * len(groups) * len(names) + 1.5), 4.5))
    figure.set_layout_engine("constrained")
    axis = figure.subplots()
    for number, name in enumerate(names):
        places, heights = [], []
        for cell in cells:
            height = cell[value]
            if str(cell[series]) == name and isinstance(height, int | float):
                at = groups.index(str(cell[group]))
                places.append(at + (number - (len(names) - 1) / 2) * width)
                heights.append(float(height))
        drawn = axis.bar(
            places,
            heights,
            width * 0.92,
            label=name,
            facecolor=_FACES[number % len(_FACES)],
            # Another hatch when faces repeat.
            hatch=_HATCHES[(number + number // len(_FACES)) % len(_HATCHES)],
            edgecolor="black",
            linewidth=0.7,
        )
        axis.bar_label(drawn, fmt=f"%.{digits}f", fontsize=7, padding=2)
    if published is not None:
        _mark(figure, cells, groups, group, published)
    axis.set_xticks(range(len(groups)), groups, fontsize=8)
    axis.set_ylabel(value)
    axis.set_title(table.title, fontsize=10)
    axis.margins(y=0.12)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    return figure


def _mark(
    figure: Figure,
    cells: Sequence[Mapping[str, object]],
    groups: Sequence[str],
    group: str,
    published: str,
) -> None:
    """Draw a line across a group of bars at the paper's number."""
    known = {
        str(cell[group]): number
        for cell in cells
        if isinstance(number := cell[published], int | float)
    }
    (axis,) = figure.axes
    for number, (name, height) in enumerate(known.items()):
        at = groups.index(name)
        axis.hlines(
            height,
            at - 0.45,
            at + 0.45,
            color="black",
            linestyle=(0, (4, 2)),
            linewidth=1.5,
            label="published" if number == 0 else "_",
        )


#: Figures that are drawn; tables are only written as CSV.
DRAWN: Mapping[str, Callable[[Table, Campaign], Figure]] = {
    "hetauto-fig7": lambda table, campaign: bars(
        table, group="experiment", series="solver", value="over uniform"
    ),
    "hetauto-fig8": traces,
    "hetauto-fig11": lambda table, campaign: bars(
        table, group="experiment", series="solver", value="over uniform"
    ),
    "hetauto-fig12": traces,
    "hetauto-fig1": lambda table, campaign: bars(
        table, group="clusters", series="schedule", value="simulated s"
    ),
    "h2-fig11": lambda table, campaign: bars(
        table,
        group="experiment",
        series="solver",
        value="ratio (our best plan of each chip alone)",
        published="published ratio",
    ),
}
