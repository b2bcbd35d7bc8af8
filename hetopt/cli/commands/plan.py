"""Find the best plan, with proof of how good it is."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hetopt.cli.fitting import fit, fit_pipelines, fit_spending
from hetopt.cli.inputs import (
    load_problem,
    load_table,
    one_chunk_count,
    principles_of,
    schedule_of,
)
from hetopt.cli.output import complain, emit
from hetopt.cli.paths import ensure_outputs, holds_plan
from hetopt.cli.plan_options import add_plan_options
from hetopt.cli.reported import plan_text
from hetopt.cli.searching import searching
from hetopt.cli.warned import note, warn
from hetopt.errors import InputError
from hetopt.export.registry import launcher, limits_of
from hetopt.results.per_schedule import BEST
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.params import RaceParams
from hetopt.solvers.refusals import ensure_packs, ensure_plans
from hetopt.solvers.registry import solver

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.principles import Principles
    from hetopt.results.result import Result
    from hetopt.results.spending import Spending
    from hetopt.solvers.request import Solve

#: Exit code by status; a status with a plan is 0.
EXIT_CODES = {"optimal": 0, "feasible": 0, "infeasible": 1, "unknown": 3}


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    add_plan_options(command)


def run(options: argparse.Namespace) -> int:
    """Search, check the result, and report it."""
    from hetopt.planning.plan import ensure_holds
    from hetopt.planning.refusals import ensure_searchable

    ensure_outputs(
        (options.out, options.certificate, options.journal, options.svg),
        (options.table,),
        problems=(options.problem,),
        plans=True,
    )
    solver(options.solver)
    principles = principles_of(options.relax)
    ensure_searchable(
        options.solver,
        options.objective,
        principles,
        journal=options.journal is not None,
    )
    fit(options, principles)
    spending = fit_spending(options)
    if options.schedule == BEST:
        from hetopt.cli.schedules import search_schedules

        found = search_schedules(options, principles)
        ensure_holds(found.problem, found.table, found.result)
        return _conclude(found.problem, found.table, found.result, options)
    asked = load_problem(
        options.problem,
        schedule_of(options),
        one_chunk_count(options),
        lengths=True,
    )
    problem = asked
    if options.launcher is not None:
        from hetopt.export.planning.limits import fitted

        problem = fitted(limits_of(options.launcher), asked, schedule_of(options))
    usual = "closed" if options.pareto or options.launcher else "simulated"
    closed = (options.objective or usual) != "simulated"
    for each in (asked, problem):
        ensure_plans(options.solver, each.training.schedule, closed=closed)
    fit_pipelines(options, problem, principles)
    table = load_table(problem, options.table)
    ensure_packs(problem, table, principles)
    if options.pareto and spending is not None:
        from hetopt.cli.pareto import run_front

        return run_front(problem, table, spending, options, principles)
    result = _search(problem, table, asked, spending, options, principles)
    ensure_holds(problem, table, result)
    if options.stability and result.best is not None:
        result = _moved(problem, table, result, options, principles)
    return _conclude(problem, table, result, options)


def _conclude(
    problem: Problem, table: CostTable, result: Result, options: argparse.Namespace
) -> int:
    """Report the result; return the exit code."""
    failures = list(_deliver(problem, table, result, options))
    warn(problem, options.problem, table, result, own_table=options.table is not None)
    if options.launcher is not None and result.best is not None:
        note(problem, [result.best.plan], launcher(options.launcher))
    if result.best is None:
        from hetopt.report.summary import headline

        complain(headline(result))
    if failures:
        complain(*(str(error) for error in failures[:-1]))
        raise failures[-1]
    return EXIT_CODES[result.status]


def _deliver(
    problem: Problem, table: CostTable, result: Result, options: argparse.Namespace
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
        from hetopt.solvers.certificate.claim import certify

        return certify(problem, table, result).to_text()

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
    asked: Problem,
    spending: Spending | None,
    options: argparse.Namespace,
    principles: Principles,
) -> Result:
    from hetopt.planning.objective import decided
    from hetopt.planning.plan import search

    wrapped = None
    if options.launcher is not None:
        from hetopt.export.planning.search import solve_for

        def wrapped(solve: Solve) -> Solve:
            return partial(
                solve_for, launcher=options.launcher, asked=asked, solve=solve
            )

    objective = options.objective
    free = rule_of(problem.training.schedule).free
    other = options.certificate is not None or options.stability
    if objective is None and other and not free:
        # For the closed form, independent programs can confirm the certificate, and
        # planning the many variants of a problem takes little time.
        objective = "closed"
    several = (
        spending is not None or options.pipelines > 1 or options.launcher is not None
    )
    aim = decided(
        objective,
        problem,
        table,
        RaceParams(principles=principles, journal=options.journal),
        solver=options.solver,
        several=several,
    )
    with searching(problem, table, options, principles, aim) as request:
        return search(
            request,
            solver=options.solver,
            objective=objective,
            spending=spending,
            pipelines=options.pipelines,
            wrapped=wrapped,
        )


def _moved(
    problem: Problem,
    table: CostTable,
    result: Result,
    options: argparse.Namespace,
    principles: Principles,
) -> Result:
    """Return the result with how far coefficients may change."""
    from hetopt.report.drawing.console import is_terminal
    from hetopt.whatif.stability import Stability

    if result.best is None:
        return result
    told = complain if is_terminal(sys.stderr) else lambda line: None
    with searching(problem, table, options, principles, result.objective) as request:
        stability = Stability(
            request,
            result.best.plan,
            solver=options.solver,
            objective=result.objective,
        )
    crossings = tuple(stability.crossings(told))
    return replace(
        result,
        stability=crossings,
        interrupted=result.interrupted or stability.interrupted,
    )
