"""The Pareto front of time and price, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.report.drawing.sheet import labelled, sheet
from hetopt.report.summary import FORMS, amount, fleets

if TYPE_CHECKING:
    from hetopt.report.drawing.sheet import Part
    from hetopt.results.front import Front, FrontPoint


def front_report(front: Front) -> list[Part]:
    """Return what ``hetopt plan --pareto`` prints."""
    return [
        sheet(
            (
                "price an hour",
                "nodes",
                "closed form s",
                "simulated s",
                "tokens/s",
                "cost a 1e12 tokens",
                "p",
                "q",
            ),
            map(_cells, front.points),
            left=("nodes",),
        ),
        labelled(
            (
                ("status", f"{front.status}: {headline(front)}"),
                ("choices of nodes", fleets(front.spent, front.search_time_s)),
                ("solver", front.solver),
            )
        ),
        "to get one of these plans: hetopt plan with --budget and its price an hour",
    ]


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


def _cells(point: FrontPoint) -> list[str]:
    cost, best = point.cost, point.best
    pipeline = best.plan.pipeline
    return [
        amount(cost.per_hour),
        nodes_text(point),
        f"{best.closed_form_s:.4f}",
        f"{best.iteration_time_s:.4f}",
        f"{point.tokens_per_s:,.0f}",
        amount(cost.per_trillion_tokens),
        str(len(pipeline.stages)),
        str(pipeline.microbatches),
    ]
