"""Say what limits a plan, or how yours differs from the best."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hetopt.base import interruption
from hetopt.cli.asking import search_of
from hetopt.cli.commands.import_ import read_folder
from hetopt.cli.flag import Flag, Retired, as_json, writes
from hetopt.cli.flags import JOBS, PLAN, PROBLEM, READ_FROM, TABLE, TIME_LIMIT
from hetopt.cli.inputs import load_problem, load_table
from hetopt.cli.output import report, told
from hetopt.cli.paths import ensure_files
from hetopt.cli.planned import load_reported
from hetopt.cli.preparing import prepare
from hetopt.cli.searching import searching
from hetopt.errors import InputError
from hetopt.solvers.kernels import kernels_for
from hetopt.solvers.refusals import ensure_plans

if TYPE_CHECKING:
    import argparse

    from hetopt.cost.table.table import CostTable
    from hetopt.planning.asked import Search
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Objective, Time


#: What this command takes.
TAKES = (
    PROBLEM,
    PLAN.but(f"{PLAN.text}; default: the best is searched", nargs="?"),
    Retired("--plan", "is gone: write hetopt explain PROBLEM PLAN"),
    Flag(
        "--mine",
        "a folder with the files of a training runtime, to put beside the best plan; "
        "without it: what limits the plan, and what would save time",
        "DIR",
        role="reads",
    ),
    READ_FROM,
    TABLE,
    TIME_LIMIT.but(
        "stop each search after this many seconds with the best plan so far"
    ),
    JOBS.but("workers of the search (default: one per core)"),
    writes("--out", "write what --json prints, which `hetopt report --explain` shows"),
    as_json("comparison"),
)


def run(options: argparse.Namespace) -> int:
    """Search or read the best plan; explain it, or how the user's plan differs."""
    ensure_files(options)
    if options.mine is None:
        return _run_alone(options)
    from hetopt.export.back.explaining import explain
    from hetopt.report.explanation import explained, explanation_report

    ours = None
    if options.plan is None:
        problem = load_problem(options.problem)
        table = load_table(problem, options.table)
    else:
        problem, table, (ours, *_), _ = load_reported(
            options.problem, options.plan, options.table
        )
    given = options.table is not None
    # Before the search, so that errors in the folder are reported at once.
    mine = read_folder(
        problem, options.mine, options.form, partial(_reread, table) if given else None
    )
    if ours is None:
        ours = _search(_asked(options, problem), table)
    found = explain(mine, ours, table, problem, table_given=given)
    report(
        explained(found).to_json(),
        explanation_report(problem.model, found),
        as_json=options.json,
        out=options.out,
    )
    return 0


# One statement for each thing that is asked.
def _run_alone(options: argparse.Namespace) -> int:
    """Report what limits a plan, what more resources would save, and each cluster."""
    from hetopt.pricing.price import price
    from hetopt.report.whatif.mixing import UNLIMITED
    from hetopt.report.whatif.reasons import reasons_of, reasons_report
    from hetopt.report.whatif.table import rows
    from hetopt.whatif.mixing import mixing
    from hetopt.whatif.reasons import questions
    from hetopt.whatif.solving import Solving
    from hetopt.whatif.variants import BASE, Variant

    for flag, given in (("--from", options.form), ("--table", options.table)):
        if given is not None:
            msg = "is about the files of --mine: leave it out, or name a folder"
            if flag == "--table":
                msg = (
                    "applies only to this problem, but variants of it are solved, too: "
                    "leave it out"
                )
            raise InputError(msg, field=flag)
    objective: Time = "closed"
    result = None
    if options.plan is None:
        problem = load_problem(options.problem)
        table = load_table(problem, None)
        how = _asked(options, problem)
        plan = _search(how, table)
    else:
        problem, table, (plan, *_), result = load_reported(
            options.problem, options.plan, None
        )
        how = _asked(options, problem)
        if result is not None and result.objective == "simulated":
            objective = "simulated"
    ensure_plans("auto", problem.training.schedule)
    _prepare(problem, objective, options.jobs)
    asked = list(questions(problem, plan))
    variants = [
        Variant(change=BASE, problem=problem),
        *(each.variant for each in asked),
    ]
    interruption.hold()
    tell = told()
    base, *answers = rows(variants, Solving(variants, how, tell).answers())
    priced, pairs = price(plan, table), list(zip(asked, answers, strict=True))
    how = replace(how, time=objective)
    mixed = mixing(problem, plan, priced, how, lambda line: tell(f"alone: {line}"))
    parts = reasons_report(problem, plan, priced, base, pairs, mixed)
    if mixed and result and (result.launch or result.relaxed):
        parts.append(UNLIMITED)
    data = reasons_of(plan, priced, base, pairs, mixed).to_json()
    report(data, parts, as_json=options.json, out=options.out)
    return 0


def _prepare(problem: Problem, objective: Objective, jobs: int | None) -> None:
    """Compile what the searches need."""
    used = [problem.training.schedule]
    prepare(
        kernels_for("auto", objective=objective, schedules=used, limited=True), jobs
    )


def _reread(table: CostTable, scheduled: Problem) -> CostTable:
    """Return a table as that of its problem under another schedule.

    The costs are the same; a table names one schedule so that plans can be checked.
    """
    from hetopt.problem.digest import problem_digest

    return replace(
        table,
        schedule=scheduled.training.schedule,
        warmup_epsilon=scheduled.training.epsilon,
        problem_digest=problem_digest(scheduled),
    )


def _asked(options: argparse.Namespace, problem: Problem) -> Search:
    """Return a search for the least time in closed form, of plans for any launcher."""
    from hetopt.planning.asked import NO_LAUNCHER

    return search_of(options, problem=problem, time="closed", launcher=NO_LAUNCHER)


def _search(asked: Search, table: CostTable) -> Plan:
    """Return the best plan of a table.

    Raises
    ------
    InfeasibleError
        There is none, or none was found in time.
    """
    from hetopt.errors import InfeasibleError
    from hetopt.planning.posed import Posed, ensure_holds, found_by

    posed = Posed.of(replace(asked, table=table))
    with searching(posed) as request:
        result = found_by(posed.tree(request))
    ensure_holds(posed.problem, table, result)
    if result.best is None:
        raise InfeasibleError(result.reason or "the search was stopped")
    return result.best.plan
