"""The section of clusters and stages: units, memory and idle time, drawn to scale."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from hetopt.base.words import counted
from hetopt.pricing.balance import balance
from hetopt.report.page.colours import cluster_colour
from hetopt.report.page.markup import folded, table, tag, words
from hetopt.report.plan_report import BYTES_PER_GB, boundary_table, stage_table
from hetopt.report.rows import stage_rows
from hetopt.report.summary import named_schedule, offloads, shape
from hetopt.report.whatif.mixing import balance_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hetopt.report.page.contents import Contents, ReportedPlan
    from hetopt.report.rows import StageRow

#: With more stages no lines are drawn between them: a phone has too few pixels.
_DENSE = 48
#: Heights of the row of idle shares: the least that holds all of them.
_SCALES = (0.1, 0.25, 0.5, 1.0)
#: Rows of a table beyond which it is folded at first.
_MOST_ROWS = 24


class _Bar(NamedTuple):
    """The bar of a stage in one row.

    Attributes
    ----------
    frame, height
        Heights of the frame and of the bar in it, as shares of the row.
    text, more, about
        Text in the bar, more text if there is room, and the tooltip.
    """

    frame: float
    height: float
    text: str
    about: str
    more: str = ""


def stages(contents: Contents) -> str:
    """Return the section: every plan as a picture to scale, and as tables."""
    return contents.of_each(lambda plan: "".join((_picture(plan), *_tables(plan))))


def _picture(plan: ReportedPlan) -> str:
    """Return rows of one column per stage, with widths by its number of units."""
    rows = stage_rows(plan.problem.model, plan.plan, plan.price)
    colours = {
        cluster.name: cluster_colour(number)
        for number, cluster in enumerate(plan.problem.clusters)
    }
    most = max(row.usable_bytes for row in rows)
    idlest = max(row.idle_share for row in rows)
    scale = next(share for share in _SCALES if share >= idlest)
    whole = "the model" if plan.plan.chunks == 1 else "one chunk of the model"
    parts = (
        tag("div", *_hosts(rows, colours), class_="row hosts"),
        _caption(f"Stages, and their units of {whole} (width)"),
        _bars("units", rows, colours, map(_units, rows)),
        _caption(
            "Memory of a device in GB: needed (filled; "
            f"{_ends([row.memory_bytes / BYTES_PER_GB for row in rows], '.0f')}) of "
            "usable (framed)"
        ),
        _bars("memory", rows, colours, (_memory(row, most) for row in rows)),
        _caption(
            "Idle share of the iteration: "
            f"{_ends([row.idle_share for row in rows], '.0%')} (full height: "
            f"{scale:.0%})"
        ),
        _bars("idle", rows, colours, (_idle(row, scale) for row in rows)),
    )
    unused = [name for name in colours if name not in {row.cluster for row in rows}]
    notes = [f"schedule {named_schedule(plan.plan)}"]
    notes += [f"not used: {', '.join(unused)}"] if unused else []
    notes += offloads(own for own in plan.problem.clusters if own.name not in unused)
    return tag(
        "figure",
        tag(
            "div",
            *parts,
            class_="dense" if len(rows) > _DENSE else None,
            role="img",
            aria_label=f"{shape(plan.plan)}; the table of stages has every number",
        ),
        tag("figcaption", *_legend(rows, colours), words("span", "; ".join(notes))),
    )


def _ends(values: Sequence[float], form: str) -> str:
    """Return the least and the greatest value."""
    return " to ".join(dict.fromkeys(f"{end(values):{form}}" for end in (min, max)))


def _caption(text: str) -> str:
    return words("div", text, class_="caption")


def _hosts(rows: Sequence[StageRow], colours: Mapping[str, str]) -> Iterator[str]:
    """Yield the heading over the stages of each cluster."""
    for cluster, run in groupby(rows, key=lambda row: row.cluster):
        units = sum(row.end_unit - row.first_unit for row in run)
        style = f"flex-grow:{units};--c:{colours[cluster]}"
        yield words("div", cluster, style=style, title=cluster)


def _legend(rows: Sequence[StageRow], colours: Mapping[str, str]) -> Iterator[str]:
    """Yield each cluster's colour, with its number of stages and devices."""
    for cluster, colour in colours.items():
        own = [row for row in rows if row.cluster == cluster]
        if own:
            devices = counted(sum(row.devices for row in own), "device")
            about = f"{cluster}: {counted(len(own), 'stage')}, {devices}"
            yield tag(
                "span", tag("i", style=f"background:{colour}"), words("span", about)
            )


def _bars(
    name: str,
    rows: Sequence[StageRow],
    colours: Mapping[str, str],
    bars: Iterable[_Bar],
) -> str:
    """Return a row of bars, one for each stage."""
    columns = (
        tag(
            "div",
            tag("i", class_="frame", style=f"--h:{bar.frame:.4g}"),
            tag("i", class_="bar", style=f"--h:{min(bar.height, 1.0):.4g}"),
            tag("span", words("b", bar.text), words("small", bar.more)),
            style=f"flex-grow:{row.end_unit - row.first_unit};"
            f"--c:{colours[row.cluster]}",
            title=f"stage {row.stage}, {row.cluster}: {bar.about}",
        )
        for row, bar in zip(rows, bars, strict=True)
    )
    return tag("div", *columns, class_=f"row {name}")


def _units(row: StageRow) -> _Bar:
    units = counted(row.end_unit - row.first_unit, "unit")
    return _Bar(1.0, 1.0, str(row.stage), f"{units}: {row.contents}", units)


def _memory(row: StageRow, most: int) -> _Bar:
    need = row.memory_bytes / BYTES_PER_GB
    about = f"{need:.1f} of {row.usable_bytes / BYTES_PER_GB:.1f} GB"
    frame, height = row.usable_bytes / most, row.memory_bytes / most
    of = f"of {row.usable_bytes / BYTES_PER_GB:.0f}"
    return _Bar(frame, height, f"{need:.0f}", about, of)


def _idle(row: StageRow, scale: float) -> _Bar:
    share = row.idle_share
    return _Bar(1.0, share / scale, f"{share:.0%}", f"{share:.1%} idle")


def _tables(plan: ReportedPlan) -> Iterator[str]:
    number = len(plan.plan.pipeline.stages)
    model = plan.problem.model
    own = stage_table(plan.plan, model=model, price=plan.price, whole=True)
    if number > 1:
        even = balance(plan.problem, plan.plan, plan.price)
        yield words("p", balance_text(even))
    title = "Table of stages"
    yield folded(title, table([own], title), open_=number <= _MOST_ROWS)
    if number > 1:
        links = boundary_table(plan.plan, plan.price, problem=plan.problem)
        title = "Table of boundaries between stages"
        yield folded(title, table([links], title))
