"""The Pareto front of time and price, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.report.drawing.sheet import by_column, labelled
from hetopt.report.rounding import differences, large, rounded
from hetopt.report.rows import of_each
from hetopt.report.summary import FORMS, among, amount, branched, named_schedule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.report.drawing.sheet import Part, Sheet
    from hetopt.results.front import Front, FrontPoint


def front_report(front: Front, next_step: str, *, verbose: bool = False) -> list[Part]:
    """Return what ``hetopt plan --pareto`` prints.

    Parameters
    ----------
    next_step
        The line on what to do next.
    verbose
        Whether to add how the front was found.
    """
    parts: list[Part] = [headline(front), *_ends(front)]
    if front.points:
        parts += [next_step, "", points(front)]
    if verbose:
        pairs = (
            *branched(front),
            ("search time", f"{front.search_time_s:.1f} s"),
            ("solver", front.solver),
        )
        parts += ["", labelled(pairs)]
    return parts


def _ends(front: Front) -> Iterator[str]:
    """Yield a line from the fastest plan to the cheapest."""
    by_time = sorted(front.points, key=front.time_s)
    if by_time:
        yield " to ".join(
            f"{rounded(front.time_s(point))} s at {amount(point.cost.per_hour)} an hour"
            for point in by_time[:1] + by_time[1:][-1:]
        )


def points(front: Front) -> Sheet:
    """Return the table of plans."""
    found = front.points
    times_s = [front.time_s(point) for point in found]
    plans = [point.best.plan for point in found]
    columns: list[tuple[str, Sequence[str]]] = [
        ("price an hour", [amount(point.cost.per_hour) for point in found]),
        ("nodes", [*map(nodes_text, found)]),
        (f"{FORMS[front.objective]} s", [*map(rounded, times_s)]),
        ("against fastest", differences(times_s, min(times_s, default=None))),
        ("tokens/s", [large(point.tokens_per_s) for point in found]),
        (
            "cost a 1e12 tokens",
            [amount(point.cost.per_trillion_tokens) for point in found],
        ),
    ]
    if front.schedules:
        columns.append(("schedule", [*map(named_schedule, plans)]))
    columns += [
        ("stages", [of_each(plan, lambda own: len(own.stages)) for plan in plans]),
        ("micro-batches", [of_each(x, lambda own: own.microbatches) for x in plans]),
    ]
    return by_column(columns, left=("nodes", "schedule"))


def headline(front: Front) -> str:
    """Return the outcome in one line."""
    which = "".join(f" {each}," for each in among(front)).removesuffix(",")
    points = counted(len(front.points), "plan") + which
    form = FORMS[front.objective]
    if front.status == "optimal":
        return f"{points}, none beaten in {form} and price, and none is missing"
    if front.status == "infeasible":
        return f"no plan{which} fits any nodes that are permitted"
    return (
        f"{points}; {counted(front.open, 'choice')} of nodes may hold others that are "
        f"better in {form} or price"
    )


def nodes_text(point: FrontPoint) -> str:
    """Return the nodes to rent in a few words."""
    nodes = point.cost.nodes
    return ", ".join(f"{number} {name}" for name, number in nodes.items())
