"""``--schedule best``: the best plan over all schedules that can run."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hetopt.cli.inputs import load_problem, load_table
from hetopt.cli.searching import searching
from hetopt.errors import InputError
from hetopt.export.registry import limits_of
from hetopt.per_schedule import USUAL_CHUNKS
from hetopt.planning import search
from hetopt.scheduling import best_schedule

if TYPE_CHECKING:
    import argparse

    from hetopt.problem.principles import Principles
    from hetopt.problem.problem import Problem
    from hetopt.result import Result
    from hetopt.scheduling import BestSchedule
    from hetopt.solvers.request import Request, Solve


def search_schedules(
    options: argparse.Namespace, principles: Principles
) -> BestSchedule:
    """Find the best plan over all schedules; what solvers say is not checked yet."""
    asked = problem = load_problem(options.problem)
    if options.launcher is not None:
        from hetopt.export.planning.limits import fitted

        problem = fitted(limits_of(options.launcher), asked, None)
    table = load_table(problem, None)
    with searching(problem, table, options, principles) as request:
        if options.launcher is None:
            solve = partial(search, solver=options.solver, objective=options.objective)
            return best_schedule(
                request, solve, solver=options.solver, chunks=_chunks(options)
            )
        return _launchable(request, asked, options)


def _launchable(
    request: Request, asked: Problem, options: argparse.Namespace
) -> BestSchedule:
    """Find the best plan that a launcher can run, and what its limits cost."""
    from hetopt.export.planning.search import priced, solve_launchable

    limits = limits_of(options.launcher)
    solve = partial(search, solver=options.solver, objective=options.objective)

    def within_limits(solve: Solve) -> Solve:
        return partial(solve_launchable, limits=limits, solve=solve)

    found = best_schedule(
        request,
        partial(solve, wrapped=within_limits),
        solver=options.solver,
        launcher=(options.launcher, limits.schedules),
        chunks=_chunks(options),
    )

    def without_limits(request: Request) -> Result:
        return best_schedule(
            request, solve, solver=options.solver, chunks=_chunks(options)
        ).result

    result = priced(
        found.result,
        request,
        launcher=options.launcher,
        asked=asked,
        solve=without_limits,
    )
    return replace(found, result=result)


def _chunks(options: argparse.Namespace) -> tuple[int, ...]:
    """Return how many chunks to try where there are several.

    A 1 is what all other schedules have, which are searched anyway.

    Raises
    ------
    InputError
        There is no other number.
    """
    chunks = tuple(v for v in options.chunks or USUAL_CHUNKS if v > 1)
    if not chunks:
        msg = "is 1, which all other schedules have: name 2 or more, or leave it out"
        raise InputError(msg, field="--chunks")
    return chunks
