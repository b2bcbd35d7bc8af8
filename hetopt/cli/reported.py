"""The report of ``hetopt plan``, with what its options decide."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.report.plan_report import Told
    from hetopt.results.priced_plan import PricedPlan
    from hetopt.results.result import Result


def plan_text(
    problem: Problem, table: CostTable, result: Result, options: argparse.Namespace
) -> str:
    """Return the report on a result as text for standard output; empty without a plan.

    Parameters
    ----------
    options
        Those of ``hetopt plan``.
    """
    from hetopt.pricing.price import price
    from hetopt.pricing.several import price_several
    from hetopt.report.drawing.console import draw
    from hetopt.report.plan_report import plan_report

    best = result.best
    if best is None:
        return ""
    if len(best.plan.pipelines) > 1 or problem.training.lengths is not None:
        prices = price_several(problem, best.plan).prices
    else:
        prices = (price(best.plan, table),)
    parts = plan_report(
        result,
        best,
        problem=problem,
        prices=prices,
        told=_told(problem, table, result, best, options),
        verbose=options.verbose,
    )
    if result.stability is not None:
        from hetopt.report.whatif.stability import stability_report

        parts += stability_report(
            result.stability,
            best.plan,
            objective=result.objective,
            complete=not result.interrupted,
        )
    return draw(parts, sys.stdout)


def _told(
    problem: Problem,
    table: CostTable,
    result: Result,
    best: PricedPlan,
    options: argparse.Namespace,
) -> Told:
    """Return what the report says beside the result."""
    from hetopt.cost.sources.accuracy import accuracies, latency_notes
    from hetopt.cost.sources.coverage import coverage_notes
    from hetopt.export.choosing import launcher_of
    from hetopt.report.head import device_errors, next_command
    from hetopt.report.plan_report import Told
    from hetopt.report.whatif.reasons import unused_text
    from hetopt.whatif.unused import unused_clusters

    launcher = launcher_of(problem, best.plan, options.launcher)
    file = options.out or "plan.json"
    first = "" if options.out else f"plan with --out {file}, then "
    command = next_command(options.problem, file, launcher, options.table)
    given = options.table is not None
    plan = [] if options.out is None else [options.out]
    told = [*unused_clusters(problem, table, result)]
    notes = []
    if options.verbose and not given:
        notes += latency_notes(problem, best, result.alternatives)
        notes += coverage_notes(problem, table)
    open_ = not given and any(each.more is None for each in told)
    explain = shlex.join(["hetopt", "explain", options.problem, *plan])
    return Told(
        errors={} if given else device_errors(problem, accuracies(problem, best.plan)),
        next=f"next: {first}{command}",
        unused={each.cluster: text for each in told if (text := unused_text(each))},
        explain=explain if open_ else "",
        notes=notes,
    )
