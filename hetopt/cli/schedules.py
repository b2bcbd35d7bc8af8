"""``--schedule best``: the best plan over all possible schedules."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hetopt.cli.inputs import load_problem, load_table
from hetopt.cli.searching import searching
from hetopt.export.registry import limits_of
from hetopt.planning.best_schedule import best_schedule
from hetopt.planning.plan import search
from hetopt.planning.schedule_variants import (
    chunks_to_try,
    run_by,
    schedule_variants,
    under_any,
)

if TYPE_CHECKING:
    import argparse

    from hetopt.planning.best_schedule import BestSchedule
    from hetopt.planning.schedule_variants import ScheduleVariant
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.principles import Principles
    from hetopt.results.result import Objective, Result
    from hetopt.solvers.request import Request, Solve


def search_schedules(
    options: argparse.Namespace, principles: Principles
) -> BestSchedule:
    """Find the best plan over all schedules; the result is not checked yet."""
    asked = load_problem(options.problem, divided=False)
    chunks = chunks_to_try(options.chunks, field="--chunks")
    variants = schedule_variants(asked, chunks)
    if options.launcher is None:
        problem, runs = asked, variants
    else:
        from hetopt.export.planning.limits import resharded

        limits = limits_of(options.launcher)
        problem = resharded(limits, asked)
        runs = run_by(variants, options.launcher, limits.schedules)
    problem = under_any(problem, runs)
    table = load_table(problem, None)
    objective: Objective = options.objective or "closed"
    solve = partial(search, solver=options.solver, objective=objective)
    schedules = [each.schedule for each in runs]
    with searching(
        problem, table, options, principles, objective, schedules
    ) as request:
        if options.launcher is None:
            return best_schedule(
                request, solve, solver=options.solver, variants=variants
            )
        return _launchable(request, asked, variants, options)


def _launchable(
    request: Request,
    asked: Problem,
    variants: tuple[ScheduleVariant, ...],
    options: argparse.Namespace,
) -> BestSchedule:
    """Find the best plan that a launcher can run, and the price of its limits."""
    from hetopt.export.planning.search import priced, solve_launchable

    limits = limits_of(options.launcher)
    # ``--for`` cannot be used with simulated times.
    solve = partial(search, solver=options.solver, objective="closed")

    def within_limits(solve: Solve) -> Solve:
        return partial(solve_launchable, limits=limits, solve=solve)

    found = best_schedule(
        request,
        partial(solve, wrapped=within_limits),
        solver=options.solver,
        launcher=(options.launcher, limits.schedules),
        variants=variants,
    )

    def without_limits(request: Request) -> Result:
        return best_schedule(
            request, solve, solver=options.solver, variants=variants
        ).result

    result = priced(
        found.result,
        request,
        launcher=options.launcher,
        asked=under_any(asked, variants),
        solve=without_limits,
    )
    return replace(found, result=result)
