"""Put a configuration beside the best plan, and say what makes the difference."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hetopt import interruption
from hetopt.cli.clock import left_s
from hetopt.cli.commands.import_ import add_from, read_folder
from hetopt.cli.inputs import (
    add_problem,
    add_table,
    load_problem,
    load_table,
    seconds,
    whole,
    workers,
)
from hetopt.cli.output import emit
from hetopt.cli.planned import load_made
from hetopt.deadline import Deadline

if TYPE_CHECKING:
    import argparse

    from hetopt.cost.table import CostTable
    from hetopt.plans import Plan
    from hetopt.problem.problem import Problem


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    add_problem(command)
    command.add_argument(
        "--mine",
        metavar="DIR",
        required=True,
        help="a folder with the files of a training runtime",
    )
    add_from(command)
    command.add_argument(
        "--plan",
        metavar="PLAN",
        help="a file that `hetopt plan --out` wrote; default: the best is searched",
    )
    add_table(command)
    command.add_argument(
        "--time-limit",
        type=seconds,
        metavar="S",
        help="stop the search after this many seconds with the best plan so far",
    )
    command.add_argument(
        "--jobs",
        type=whole(1),
        metavar="N",
        help="workers of the search (default: one per core)",
    )
    command.add_argument(
        "--json", action="store_true", help="print the comparison as JSON, nothing else"
    )


def run(options: argparse.Namespace) -> int:
    """Import, find or read our plan, take the difference apart, and report it."""
    from hetopt.export.back.explaining import explain
    from hetopt.report.console import draw
    from hetopt.report.explanation import explanation_report, explanation_to_json

    ours = None
    if options.plan is None:
        problem = load_problem(options.problem)
        table = load_table(problem, options.table)
    else:
        problem, table, (ours, *_) = load_made(
            options.problem, options.plan, options.table
        )
    given = options.table is not None
    # Before the search: what is wrong with the folder is said at once.
    mine = read_folder(
        problem, options.mine, options.form, partial(_reread, table) if given else None
    )
    if ours is None:
        ours = _search(problem, table, options)
    told = explain(mine, ours, table, problem, table_given=given)
    if options.json:
        emit(json.dumps(explanation_to_json(told), indent=2, allow_nan=False))
    else:
        emit(draw(explanation_report(problem.model, told), sys.stdout))
    return 0


def _reread(table: CostTable, scheduled: Problem) -> CostTable:
    """Return a table as one of its problem under another schedule.

    Its costs are the same; a table is of one schedule so that plans can be checked.
    """
    from hetopt.problem.digest import problem_digest

    return replace(
        table,
        schedule=scheduled.training.schedule,
        problem_digest=problem_digest(scheduled),
    )


def _search(problem: Problem, table: CostTable, options: argparse.Namespace) -> Plan:
    """Return the best plan.

    Raises
    ------
    InfeasibleError
        There is none, or none was found in time.
    """
    from hetopt.errors import InfeasibleError
    from hetopt.report.progress import ProgressBar
    from hetopt.solvers.loading import load
    from hetopt.solvers.params import RaceParams
    from hetopt.solvers.request import Request

    interruption.hold()
    with ProgressBar(sys.stderr) as bar:
        request = Request(
            problem=problem,
            table=table,
            params=RaceParams(jobs=workers(options.jobs), on_progress=bar.update),
            deadline=Deadline.after(left_s(options.time_limit)),
        )
        result = load("auto")(request)
    if result.best is None:
        raise InfeasibleError(result.reason or "the search was stopped")
    best: Plan = result.best.plan
    return best
