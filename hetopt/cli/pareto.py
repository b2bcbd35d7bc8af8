"""``hetopt plan --pareto``: the Pareto-optimal plans in time and price."""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING

from hetopt.cli.exit_codes import NO_PLAN, STOPPED
from hetopt.cli.output import complain, emit
from hetopt.cli.searching import searching

if TYPE_CHECKING:
    import argparse

    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.principles import Principles
    from hetopt.results.result import Objective
    from hetopt.results.spending import Spending


def run_front(
    problem: Problem,
    table: CostTable,
    spending: Spending,
    options: argparse.Namespace,
    principles: Principles,
) -> int:
    """Find the front, check it, and report it; return the exit code."""
    from hetopt.base.files import write_bytes, write_text
    from hetopt.planning.plan import ensure_front_holds, search_front
    from hetopt.report.drawing.console import draw
    from hetopt.report.front.table import front_report

    objective: Objective = options.objective or "closed"
    with searching(problem, table, options, principles, objective) as request:
        front = search_front(
            request,
            solver=options.solver,
            objective=objective,
            spending=spending,
        )
    ensure_front_holds(problem, table, front)
    text = json.dumps(front.to_json(), indent=2, allow_nan=False)
    command = shlex.join(["hetopt", "plan", options.problem, "--budget"])
    step = f"next: {command} with the price an hour of one of these plans"
    parts = front_report(front, step, verbose=options.verbose)
    emit(text if options.json else draw(parts, sys.stdout))
    if options.out is not None:
        write_text(options.out, text + "\n")
    if options.svg is not None:
        from hetopt.report.drawing import plots
        from hetopt.report.front.plot import front_figure

        write_bytes(options.svg, plots.svg(front_figure(front, problem.name)))
    if front.points:
        return 0
    complain("no plan" if front.status == "infeasible" else "stopped without a plan")
    return NO_PLAN if front.status == "infeasible" else STOPPED
