"""The report of ``hetopt plan``, with what its options decide."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
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
    from hetopt.base.words import command_line
    from hetopt.report.drawing.console import draw
    from hetopt.report.head import next_command
    from hetopt.report.result_report import result_report

    if result.best is None:
        return ""
    file = options.out or "plan.json"
    first = "" if options.out else f"plan with --out {file}, then "

    def following(launcher: str | None) -> str:
        command = next_command(options.problem, file, launcher, options.table)
        return f"next: {first}{command}"

    plan = [] if options.out is None else [options.out]
    parts = result_report(
        problem,
        table,
        result,
        following=following,
        launcher=options.launcher,
        explain=command_line(["hetopt", "explain", options.problem, *plan]),
        own_table=options.table is not None,
        verbose=options.verbose,
    )
    return draw(parts, sys.stdout)
