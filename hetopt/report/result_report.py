"""The report on a result whose problem and table are known: that of ``hetopt plan``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.cost.sources.accuracy import accuracies, latency_notes
from hetopt.cost.sources.coverage import coverage_notes
from hetopt.export.choosing import launcher_of
from hetopt.pricing.price import price
from hetopt.pricing.several import price_several
from hetopt.report.head import device_errors
from hetopt.report.plan_report import Told, plan_report
from hetopt.report.whatif.unused import unused_text
from hetopt.whatif.unused import unused_clusters

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem
    from hetopt.report.drawing.sheet import Part
    from hetopt.results.result import Result


def result_report(
    problem: Problem,
    table: CostTable,
    result: Result,
    *,
    following: Callable[[str | None], str],
    launcher: str | None = None,
    explain: str = "",
    own_table: bool = False,
    verbose: bool = False,
) -> list[Part]:
    """Return the report on a result; nothing without a plan.

    Parameters
    ----------
    following
        Returns the line on what to do next, for the launcher that runs the plan as it
        is, or None.
    launcher
        The launcher that the plan was searched for.
    explain
        The command that says what using more clusters would cost; empty for none.
    own_table
        Whether the table is the user's, of whose errors nothing is known.
    verbose
        See ``plan_report``.
    """
    best = result.best
    if best is None:
        return []
    if len(best.plan.pipelines) > 1 or problem.training.lengths is not None:
        prices = price_several(problem, best.plan).prices
    else:
        prices = (price(best.plan, table),)
    unused = [*unused_clusters(problem, table, result)]
    open_ = not own_table and any(each.more is None for each in unused)
    errors = {} if own_table else accuracies(problem, best.plan)
    notes = []
    if verbose and not own_table:
        notes += latency_notes(problem, best, result.alternatives)
        notes += coverage_notes(problem, table)
    told = Told(
        errors=device_errors(problem, errors),
        next=following(launcher_of(problem, best.plan, launcher)),
        unused={each.cluster: text for each in unused if (text := unused_text(each))},
        explain=explain if open_ else "",
        notes=notes,
    )
    return [
        *plan_report(
            result, best, problem=problem, prices=prices, told=told, verbose=verbose
        ),
        *_stability(result, best.plan),
    ]


def _stability(result: Result, plan: Plan) -> list[Part]:
    if result.stability is None:
        return []
    from hetopt.report.whatif.stability import stability_report

    return stability_report(
        result.stability,
        plan,
        objective=result.objective,
        complete=not result.interrupted,
    )
