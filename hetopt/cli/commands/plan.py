"""Find the best plan, with proof of how good it is."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hetopt.cli.again import asked_of, repeat
from hetopt.cli.asking import named, search_of
from hetopt.cli.exit_codes import NO_PLAN, STOPPED
from hetopt.cli.inputs import load_table
from hetopt.cli.output import complain, emit
from hetopt.cli.paths import ensure_outputs, holds_plan
from hetopt.cli.plan_options import add_plan_options
from hetopt.cli.reported import plan_text
from hetopt.cli.searching import searching
from hetopt.cli.warned import note, warn
from hetopt.errors import InputError
from hetopt.export.registry import launcher
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.params import RaceParams
from hetopt.solvers.refusals import ensure_packs

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from hetopt.cost.table.table import CostTable
    from hetopt.planning.asked import Search
    from hetopt.problem.problem import Problem
    from hetopt.results.front import Front
    from hetopt.results.result import Objective, Result
    from hetopt.solvers.search.over import Over
    from hetopt.solvers.search.search import TreeSearch

#: Exit code by status; a status with a plan is 0.
EXIT_CODES = {"optimal": 0, "feasible": 0, "infeasible": 1, "unknown": 3}


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    add_plan_options(command)


def run(options: argparse.Namespace) -> int:
    """Search, check the result, and report it."""
    from hetopt.planning.plan import ensure_holds

    repeat(options)
    ensure_outputs(
        (options.out, options.certificate, options.journal, options.svg),
        (options.table,),
        problems=(options.problem,),
        plans=True,
    )
    asked = search_of(options)
    try:
        problem, over = asked.over()
        table = load_table(problem, options.table)
        ensure_packs(problem, table, asked.principles)
    except InputError as error:
        raise named(error, options) from None
    if asked.measure == "front":
        return _run_front(problem, table, asked, over, options)
    result, tree = _search(problem, table, asked, over, options)
    result = replace(result, asked=asked_of(options))
    whole, costs = problem, table
    problem, table = result.problem or problem, result.table or table
    ensure_holds(problem, table, result)
    if options.stability and result.best is not None:
        result = _moved(whole, costs, result, asked, over, options)
    return _conclude(problem, table, result, tree, asked.target, options)


def _run_front(
    problem: Problem,
    table: CostTable,
    asked: Search,
    over: Over,
    options: argparse.Namespace,
) -> int:
    """Find the front, check it, and report it; return the exit code."""
    from hetopt.planning.plan import ensure_front_holds, search_front

    aim = _aim(problem, table, asked, over, options)
    with searching(problem, table, options, asked, over, aim) as request:
        front = search_front(request, solver=options.solver, objective=aim, over=over)
    front = replace(front, asked=asked_of(options))
    ensure_front_holds(problem, table, front)
    _report_front(problem, front, options)
    if front.points:
        return 0
    complain("no plan" if front.status == "infeasible" else "stopped without a plan")
    return NO_PLAN if front.status == "infeasible" else STOPPED


def _report_front(problem: Problem, front: Front, options: argparse.Namespace) -> None:
    from hetopt.base.files import write_bytes, write_text
    from hetopt.report.drawing.console import draw
    from hetopt.report.front.table import front_report

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


def _conclude(
    problem: Problem,
    table: CostTable,
    result: Result,
    tree: TreeSearch,
    target: str | None,
    options: argparse.Namespace,
) -> int:
    """Report the result, of plans for a launcher if any; return the exit code."""
    failures = list(_deliver(problem, table, result, tree, options))
    warn(problem, options.problem, table, result, own_table=options.table is not None)
    if target is not None and result.best is not None:
        note(problem, [result.best.plan], launcher(target))
    if result.best is None:
        from hetopt.report.summary import headline

        complain(headline(result))
    if failures:
        complain(*(str(error) for error in failures[:-1]))
        raise failures[-1]
    return EXIT_CODES[result.status]


def _deliver(
    problem: Problem,
    table: CostTable,
    result: Result,
    tree: TreeSearch,
    options: argparse.Namespace,
) -> Iterator[InputError]:
    """Print and write as much as possible; yield the errors.

    Printing comes first, so that a plan that took hours is not lost to a full disk.
    """
    text = json.dumps(result.to_json(), indent=2, allow_nan=False)

    def show() -> None:
        if options.json:
            emit(text)
        elif result.best is not None:
            emit(plan_text(problem, table, result, options))

    def certificate() -> str:
        from hetopt.solvers.certificate.tree import certificate_of

        return certificate_of(tree, problem, table, result)

    acts = (
        show,
        partial(_write, result, options.out, lambda: text + "\n"),
        partial(_write, result, options.certificate, certificate),
    )
    for act in acts:
        try:
            act()
        except InputError as error:
            yield error
    if result.journal_failure is not None:
        yield result.journal_failure


def _write(result: Result, path: str | None, text: Callable[[], str]) -> None:
    """Write a file, unless that replaces a plan by a result without one."""
    from hetopt.base.files import write_text

    if path is None:
        return
    if result.best is None and holds_plan(path):
        complain(f"{path}: kept: it holds a plan, and this search ended without one")
        return
    write_text(path, text())


def _search(
    problem: Problem,
    table: CostTable,
    asked: Search,
    over: Over,
    options: argparse.Namespace,
) -> tuple[Result, TreeSearch]:
    from hetopt.planning.plan import found_by, tree_of, with_cost_of_limits

    objective = asked.time
    free = rule_of(problem.training.schedule).free
    other = options.certificate is not None or options.stability
    if objective is None and other and not free:
        # For the closed form, independent programs can confirm the certificate, and
        # planning the many variants of a problem takes little time.
        objective, asked = "closed", replace(asked, time="closed")
    aim = _aim(problem, table, asked, over, options)
    with searching(problem, table, options, asked, over, aim) as request:
        tree = tree_of(request, solver=options.solver, objective=objective, over=over)
        result = found_by(tree)
        if over.launcher is not None:
            result = with_cost_of_limits(result, asked, request)
    return result, tree


def _aim(
    problem: Problem,
    table: CostTable,
    asked: Search,
    over: Over,
    options: argparse.Namespace,
) -> Objective:
    """Return the time that is minimised."""
    from hetopt.planning.objective import decided

    return decided(
        asked.time,
        problem,
        table,
        RaceParams(principles=asked.principles),
        solver=options.solver,
        several=over.branches,
    )


def _moved(
    problem: Problem,
    table: CostTable,
    result: Result,
    asked: Search,
    over: Over,
    options: argparse.Namespace,
) -> Result:
    """Return the result with how far coefficients may change.

    Parameters
    ----------
    problem, table
        Those that were searched, whatever the plan's schedule.
    """
    from hetopt.report.drawing.console import is_terminal
    from hetopt.whatif.stability import Stability

    if result.best is None:
        return result
    told = complain if is_terminal(sys.stderr) else lambda line: None
    aim: Objective = "closed" if result.objective == "cost" else result.objective
    with searching(problem, table, options, asked, over, aim) as request:
        stability = Stability(
            request,
            result.best.plan,
            solver=options.solver,
            objective=aim,
            over=over,
        )
    crossings = tuple(stability.crossings(told))
    return replace(
        result,
        stability=crossings,
        interrupted=result.interrupted or stability.interrupted,
    )
