"""The Pareto front of time and price, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.report.drawing.sheet import labelled, sheet
from hetopt.report.rounding import differences, large, rounded
from hetopt.report.summary import FORMS, amount, fleets

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    parts: list[Part] = [headline(front), *_ends(front), next_step, "", points(front)]
    if verbose:
        searched = fleets(front.spent, front.search_time_s)
        pairs = (("choices of nodes", searched), ("solver", front.solver))
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
    times_s = [front.time_s(point) for point in front.points]
    apart = differences(times_s, min(times_s, default=None))
    return sheet(
        (
            "price an hour",
            "nodes",
            f"{FORMS[front.objective]} s",
            "against fastest",
            "tokens/s",
            "cost a 1e12 tokens",
            "stages",
            "micro-batches",
        ),
        map(_cells, front.points, times_s, apart),
        left=("nodes",),
    )


def headline(front: Front) -> str:
    """Return the outcome in one line."""
    points = counted(len(front.points), "plan")
    form = FORMS[front.objective]
    if front.status == "optimal":
        return f"{points}, none beaten in {form} and price, and none is missing"
    if front.status == "infeasible":
        return "no plan fits any nodes that are permitted"
    return (
        f"{points}; {counted(front.open, 'choice')} of nodes may hold others that are "
        f"better in {form} or price"
    )


def nodes_text(point: FrontPoint) -> str:
    """Return the nodes to rent in a few words."""
    nodes = point.cost.nodes
    return ", ".join(f"{number} {name}" for name, number in nodes.items())


def _cells(point: FrontPoint, time_s: float, against_fastest: str) -> list[str]:
    pipeline = point.best.plan.pipeline
    return [
        amount(point.cost.per_hour),
        nodes_text(point),
        rounded(time_s),
        against_fastest,
        large(point.tokens_per_s),
        amount(point.cost.per_trillion_tokens),
        str(len(pipeline.stages)),
        str(pipeline.microbatches),
    ]
