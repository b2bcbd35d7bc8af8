"""Best plan so far against time, one step line per solver.

Lines differ in colour, dash and marker, so that they can be told apart in black and
white and by the colour-blind. The colours are Okabe and Ito's without yellow, and
indigo and wine of Tol's scheme "muted" (P. Tol, Colour Schemes, SRON/EPS/TN/09-002).
Both runs of a solver, with and without every cluster, have its colour.
"""

from __future__ import annotations

from itertools import cycle
from math import isclose
from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter

from hetopt.planning.side_by_side import EVERY_CLUSTER
from hetopt.report.comparison.comparison import MARK, Comparison, Contest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from matplotlib.axes import Axes

    from hetopt.planning.side_by_side import Run
    from hetopt.report.comparison.comparison import Reference

    #: Offset of a dash pattern, and lengths of its dashes and gaps.
    _Dash = tuple[int, tuple[int, ...]]

_COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
    "#332288",
    "#882255",
)
#: Marks on lines and their faces in the legend, by what they mean.
_BETTER, _PROVEN, _OPEN = "better plan", "end with a proof", "end without a proof"
_MARKS = {_BETTER: ("o", "white"), _PROVEN: ("o", "0.35"), _OPEN: ("|", "0.35")}
_DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (6, 1.5, 1, 1.5)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h", "*")
_OPTIMUM_DASHES = ((0, (8, 3)), (0, (2, 2)), (0, (8, 2, 2, 2)))
_COLUMNS = 3
#: Earliest time on the log axis; earlier ones are drawn there.
_LEAST_S = 1e-3
#: Markers per line and decade, few enough not to overlap.
_PER_DECADE = 4
#: With a larger ratio of its ends only powers of ten of an axis are labelled.
_MANY_TIMES = 30
#: Margin below and above the final plans, as a share of their range.
_ROOM = 0.06
#: Most entries of the legend in one row.
_ABREAST = 3


def best_so_far(comparison: Comparison) -> Figure:
    """Draw one panel per problem."""
    contests = comparison.contests
    columns = min(_COLUMNS, len(contests))
    count = -(-len(contests) // columns)
    figure = Figure(figsize=(max(5.0 * columns, 8.0), 4.0 * count + 1.5))
    figure.set_layout_engine("constrained")
    axes = list(figure.subplots(count, columns, squeeze=False).flat)
    names = solvers_of(contests)
    dashes = _dashes(contests)
    handles: dict[str, Line2D] = {}
    for axis, contest in zip(axes, contests, strict=False):
        draw_contest(axis, contest, names, dashes, handles)
    for axis in axes[len(contests) :]:
        axis.set_axis_off()
    # What marks mean is at the end.
    handles = dict(sorted(handles.items(), key=lambda each: each[0] in _MARKS))
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=min(_ABREAST, len(handles)),
        frameon=False,
    )
    return figure


def solvers_of(contests: Iterable[Contest]) -> list[str]:
    """Return the labels of all lines, so that panels use the same styles."""
    labels = (label(run) for contest in contests for run in contest.runs)
    return list(dict.fromkeys(labels))


def label(run: Run) -> str:
    """Return the legend's label of a run, the same for all seeds."""
    entry = run.entry
    name = entry.solver + (MARK if entry.principles.relaxed else "")
    if entry.every_cluster:
        name += EVERY_CLUSTER
    if entry.exploration is not None:
        name += f", λ = {entry.exploration:g}"
    return name


def _dashes(contests: Iterable[Contest]) -> dict[str, _Dash]:
    """Return the dashes of references by their labels, the same in all panels."""
    labels = dict.fromkeys(
        known.label for contest in contests for known in _references(contest)
    )
    return dict(zip(labels, cycle(_OPTIMUM_DASHES), strict=False))


def draw_contest(
    axis: Axes,
    contest: Contest,
    names: Sequence[str],
    dashes: Mapping[str, _Dash],
    handles: dict[str, Line2D],
) -> None:
    """Draw the runs on one problem, and add new labels to the legend."""
    references = _references(contest)
    for known in references:
        line = axis.axhline(
            known.value_s,
            color="0.35",
            linewidth=1.2,
            linestyle=dashes[known.label],
            zorder=1,
        )
        handles.setdefault(known.label, line)
    ends = [known.value_s for known in references]
    for run in contest.runs:
        if run.trace:
            _draw_run(axis, run, names, handles)
            ends.append(run.trace[-1].closed_form_s)
    axis.set_xscale("log")
    plain = FuncFormatter(lambda value, _: f"{value:g}")
    axis.xaxis.set_major_formatter(plain)
    low, high = axis.get_xlim()
    few = high / low < _MANY_TIMES
    axis.xaxis.set_minor_formatter(plain if few else NullFormatter())
    axis.set_xlabel("time since the search began, s")
    axis.set_ylabel("best plan so far, s per iteration (closed form)")
    axis.set_title(_title(contest), fontsize=10)
    if ends:
        room = max(max(ends) - min(ends), min(ends) * 0.02)
        axis.set_ylim(min(ends) - _ROOM * room, max(ends) + 4 * _ROOM * room)
    axis.grid(visible=True, which="major", color="0.9", linewidth=0.6)
    axis.set_axisbelow(True)


def _draw_run(
    axis: Axes, run: Run, names: Sequence[str], handles: dict[str, Line2D]
) -> None:
    number = names.index(label(run))
    solvers = list(dict.fromkeys(each.replace(EVERY_CLUSTER, "") for each in names))
    times = [max(each.elapsed_s, _LEAST_S) for each in run.trace]
    values = [each.closed_form_s for each in run.trace]
    ended = max(run.search_time_s or times[-1], times[-1])
    place = solvers.index(label(run).replace(EVERY_CLUSTER, ""))
    colour = _COLOURS[place % len(_COLOURS)]
    marker = _MARKERS[number % len(_MARKERS)]
    (line,) = axis.plot(
        [*times, ended],
        [*values, values[-1]],
        drawstyle="steps-post",
        color=colour,
        linestyle=_DASHES[number % len(_DASHES)],
        linewidth=1.4,
        # Open markers: better plans. At the end filled: with a proof; a bar: without.
        marker=marker,
        markersize=5,
        markerfacecolor="white",
        markevery=_spread(times),
        zorder=3,
    )
    proven = run.status == "optimal"
    axis.plot(
        [ended],
        [values[-1]],
        color=colour,
        marker=marker if proven else "|",
        markersize=8,
        linestyle="none",
        zorder=4,
    )
    handles.setdefault(label(run), line)
    for what in (_BETTER, _PROVEN if proven else _OPEN):
        mark, face = _MARKS[what]
        drawn = Line2D([], [], color="0.35", marker=mark, mfc=face, linestyle="none")
        handles.setdefault(what, drawn)


def _spread(times: Sequence[float]) -> list[int]:
    """Return the indices of improvements with markers: few per decade, and the last."""
    chosen: list[int] = []
    last = 0.0
    for index, time_s in enumerate(times):
        if not chosen or time_s >= last * 10 ** (1 / _PER_DECADE):
            chosen.append(index)
            last = time_s
    return sorted({*chosen, len(times) - 1})


def _references(contest: Contest) -> list[Reference]:
    """Return the references to draw, only one of those with equal values."""
    drawn: list[Reference] = []
    # Of equal values keep a proven one, and that of the narrowest space.
    for known in sorted(
        contest.references().values(),
        key=lambda known: (not known.proven, len(known.space.principles.relaxed)),
    ):
        if not any(isclose(known.value_s, each.value_s) for each in drawn):
            drawn.append(known)
    return drawn


def _title(contest: Contest) -> str:
    known = [f"{each.label} {each.value_s:.4f} s" for each in _references(contest)]
    return "\n".join([f"{contest.problem} ({contest.schedule})", *known])
