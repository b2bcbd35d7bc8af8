"""How far coefficients may change before another plan is better, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.export.back.differences import SCHEDULE, changes
from hetopt.report.drawing.sheet import sheet
from hetopt.report.rounding import percent
from hetopt.report.summary import shape, share_line
from hetopt.report.whatif.table import change_text
from hetopt.results.crossing import MARGIN
from hetopt.whatif.moves import Move
from hetopt.whatif.stability import FACTORS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.plans.plan import Plan
    from hetopt.report.drawing.sheet import Part
    from hetopt.results.crossing import Crossing
    from hetopt.results.result import Objective


def stability_report(
    crossings: Sequence[Crossing], plan: Plan, *, objective: Objective, complete: bool
) -> list[Part]:
    """Return what ``hetopt plan --stability`` adds to the report.

    Parameters
    ----------
    plan
        The reported plan.
    objective
        What was minimised.
    complete
        Whether everything was searched.
    """
    parts: list[Part] = [
        "",
        f"how far each may move until another plan is better by more than {MARGIN:.0%}",
        sheet(
            ("what", "to", "the other saves", "the other plan"),
            (
                (
                    Move(kind=each.kind, clusters=each.clusters).words(),
                    *_cells(each, plan, objective=objective),
                )
                for each in crossings
            ),
            left=("what", "the other plan"),
        ),
    ]
    if not complete:
        parts.append("stopped before everything was searched")
    return parts


def _cells(
    crossing: Crossing, plan: Plan, *, objective: Objective
) -> tuple[str, str, str]:
    most = FACTORS[-1] if crossing.more else 1 / FACTORS[-1]
    proven = "" if crossing.proven else ", not proven"
    if crossing.factor is None:
        return f"beyond {most:.2f}x{proven}", "", "this one stays"
    factor, other = f"{crossing.factor:.2f}x{proven}", crossing.other
    if other is None:
        return factor, "", "no plan at all"
    how = "; ".join(_differences(plan, other.plan)) or "the same decisions"
    mine, its = crossing.plan_s, other.time_s(objective)
    if mine is None:
        return factor, "this one does not fit", how
    if objective == "cost":
        if crossing.plan_cost is None or crossing.other_cost is None:
            return factor, "this one is too slow", how
        mine, its = crossing.plan_cost, crossing.other_cost
    return factor, percent(1 - its / mine), how


def _differences(plan: Plan, other: Plan) -> Iterator[str]:
    """Yield in words how another plan differs."""
    several = len(other.pipelines) > 1
    if len(plan.pipelines) != len(other.pipelines):
        yield shape(other)
        if several:
            yield from map(share_line, range(len(other.pipelines)), other.pipelines)
        return
    both = zip(plan.pipelines, other.pipelines, strict=True)
    for number, (mine, its) in enumerate(both):
        found = changes(plan.alone(number), other.alone(number))
        if (mine.share, mine.mix) != (its.share, its.mix):
            yield share_line(number, its)
        for each in found:
            if number == 0 or each.what != SCHEDULE:
                words = change_text(each)
                yield f"pipeline {number}: {words}" if several else words
