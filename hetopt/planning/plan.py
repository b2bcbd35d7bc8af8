"""``hetopt.plan``: the command ``hetopt plan`` for Python programs."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from hetopt.base.deadline import Deadline
from hetopt.errors import CheckError, InputError
from hetopt.planning.objective import PATIENCE_S, decided
from hetopt.planning.refusals import ensure_best, ensure_searchable, ensure_spends
from hetopt.problem.problem import Problem
from hetopt.problem.reading import read_problem
from hetopt.problem.training.choices import SCHEDULE_CHOICES, present_name
from hetopt.problem.training.principles import Principles
from hetopt.results.money import cost_of
from hetopt.results.per_schedule import BEST
from hetopt.results.spending import spending_of
from hetopt.solvers.compiling import compile_once
from hetopt.solvers.kernels import kernels_for
from hetopt.solvers.loading import load
from hetopt.solvers.params import RaceParams
from hetopt.solvers.refusals import ensure_packs, ensure_plans
from hetopt.solvers.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hetopt.cost.table.table import CostTable
    from hetopt.problem.training.choices import ScheduleName
    from hetopt.problem.training.principles import Relaxable
    from hetopt.results.front import Front
    from hetopt.results.result import Objective, Result
    from hetopt.results.spending import Spending
    from hetopt.solvers.request import Solve


# One keyword, with its description and checks, for each option of the command.
def plan(
    problem: Problem | str | os.PathLike[str] | Mapping[str, Any],
    *,
    table: CostTable | str | os.PathLike[str] | None = None,
    schedule: ScheduleName | Literal["best"] | None = None,
    chunks: int | Iterable[int] | None = None,
    solver: str = "auto",
    objective: Literal["closed", "simulated", "cost"] | None = None,
    budget: float | None = None,
    min_tokens_per_s: float | None = None,
    relax: Iterable[Relaxable] = (),
    pipelines: int = 1,
    time_limit_s: float | None = None,
    top: int = 1,
    jobs: int | None = None,
    seed: int = 0,
) -> Result:
    """Find the best plan of a problem, and prove how good it is.

    The plan is checked by independent code before it is returned. Small problems are
    solved in this process. Others start workers, which do not import the calling
    program, so that it needs no ``if __name__ == "__main__"``. Ctrl-C ends the search
    with the best plan so far.

    Parameters
    ----------
    problem
        A problem, or what ``read_problem`` reads: the path of a file, the name of a
        problem that ships with hetopt, or the sections of a file as plain data.
    table
        Its latency table, or the path of a table file; built from the problem by
        default.
    schedule
        Replaces the problem's schedule; ``best`` searches all named ones for the best.
        None: the problem's own.
    chunks
        Chunks of every stage, if the schedule has several; with ``best`` the numbers to
        try, by default 2 and 4.
    solver
        Name of a solver; see ``hetopt catalog``.
    objective
        Quantity to minimise: the iteration time in closed form or as simulated, or the
        cost of an iteration (in closed form). None: see ``hetopt.planning.objective``;
        the proof of a simulated time then ends after a minute if there is no time
        limit.
    budget
        Highest price of the plan's nodes per hour, above 0.
    min_tokens_per_s
        Least throughput of the plan of least cost, in closed form, above 0.
    relax
        Principles that plans need not keep: ``p3``, ``p4`` or ``p4-falling-tp``.
    pipelines
        Most pipelines side by side, each on its own nodes with a part of the batch; 1
        to 4.
    time_limit_s
        Seconds after which the search ends with the best plan so far, above 0. Reading
        the problem, building its table and compiling, once, come before.
    top
        Number of best plans to return, at least 1.
    jobs
        Number of workers; None: one per core; 1: work in this process.
    seed
        Seed of all random draws, at least 0.

    Returns
    -------
    Result
        Its ``best`` is None if no plan exists or none was found; ``status`` and
        ``reason`` tell which.

    Raises
    ------
    InputError
        The problem, the table or a parameter cannot be used.
    CheckError
        The plan is not what the solver claims, which is an error in hetopt.

    Examples
    --------
    >>> import hetopt
    >>> result = hetopt.plan("problem.yaml")
    >>> result.status, f"{result.gap:.0%}"
    ('optimal', '0%')

    Variants of a problem are made with ``dataclasses.replace``:

    >>> from dataclasses import replace
    >>> problem = hetopt.read_problem("problem.yaml")
    >>> longer = replace(problem, training=replace(problem.training, seq_len=2048))
    >>> times = [hetopt.plan(each).best.closed_form_s for each in (problem, longer)]
    >>> times[0] < times[1]
    True
    """
    _ensure_parameters(time_limit_s=time_limit_s, top=top, jobs=jobs, seed=seed)
    try:
        principles = Principles.relaxing(relax)
    except ValueError as error:
        raise InputError(str(error), field="relax") from error
    if not isinstance(problem, Problem):
        problem = read_problem(problem)
    ensure_searchable(solver, objective, principles, field="solver")
    given = objective not in (None, "closed")
    spending = spending_of(objective, budget, min_tokens_per_s)
    if spending is not None:
        ensure_spends(solver, "budget or objective cost", top=top)
    if schedule == BEST:
        about_one = {"table": table is not None, "top": top > 1}
        about_one |= {"pipelines": pipelines > 1}
        ensure_best(solver, {**about_one, "budget or objective cost": bool(spending)})
    else:
        if not (chunks is None or isinstance(chunks, int)):
            msg = f"is {chunks!r}, expected one number, or the schedule {BEST}"
            raise InputError(msg, field="chunks")
        problem = _scheduled(problem, schedule, chunks)
        named = problem.training.schedule
        ensure_plans(solver, named, closed=objective not in (None, "simulated"))
    if problem.training.lengths is not None:
        from hetopt.solvers.lengths.outcome import ensure_lengths

        about_one = {"table": table is not None, "top": top > 1}
        about_one |= {"relax": bool(principles.relaxed), "schedule": schedule == BEST}
        about_one |= {"budget or objective": given or bool(spending)}
        ensure_lengths(problem, solver, pipelines, about_one)
    elif pipelines != 1:
        from hetopt.solvers.several.possible import ensure_several

        about_one = {"table": table is not None, "top": top > 1}
        about_one |= {"budget or objective": given or bool(spending)}
        ensure_several(
            problem, solver, pipelines, about_one, principles, field="pipelines"
        )
    if schedule == BEST:
        from hetopt.planning.schedule_variants import (
            chunks_to_try,
            schedule_variants,
            under_any,
        )

        tried = (chunks,) if isinstance(chunks, int) else chunks
        variants = schedule_variants(problem, chunks_to_try(tried, field="chunks"))
        problem = under_any(problem, variants)
    costs = _table_of(problem, table)
    ensure_packs(problem, costs, principles)
    params = RaceParams(jobs=jobs, top=top, principles=principles)
    tried_schedules = [problem.training.schedule]
    if schedule == BEST:
        tried_schedules = [each.schedule for each in variants]
    aim = decided(
        objective,
        problem,
        costs,
        params,
        solver=solver,
        several=pipelines > 1 or spending is not None or schedule == BEST,
    )
    kernels = kernels_for(
        solver,
        objective=aim,
        schedules=tried_schedules,
        limited=time_limit_s is not None,
    )
    compile_once(kernels, jobs=jobs)
    request = Request(
        problem=problem,
        table=costs,
        params=params,
        deadline=Deadline.after(time_limit_s),
        seed=seed,
    )
    if schedule == BEST:
        from hetopt.planning.best_schedule import best_schedule

        solve = partial(search, solver=solver, objective=objective or "closed")
        found = best_schedule(request, solve, solver=solver, variants=variants)
        problem, costs, result = found.problem, found.table, found.result
    else:
        result = search(
            request,
            solver=solver,
            objective=objective,
            spending=spending,
            pipelines=pipelines,
        )
    ensure_holds(problem, costs, result)
    # A report says how far off the times of hetopt's own tables are, not of a user's.
    return replace(result, problem=problem, table=costs if table is None else None)


def search(
    request: Request,
    *,
    solver: str,
    objective: Objective | None,
    spending: Spending | None = None,
    pipelines: int = 1,
    wrapped: Callable[[Solve], Solve] | None = None,
) -> Result:
    """Run a solver and add the cost of its plan; the result is not checked yet.

    Parameters
    ----------
    objective
        None: what ``decided`` says.
    spending
        Limits by which nodes are chosen; None: all nodes may be used.
    pipelines
        Most pipelines of a plan; prices are ignored with several.
    wrapped
        Returns the function to call instead of the solver's ``solve``.
    """
    if request.problem.training.lengths is not None:
        from hetopt.solvers.lengths.outcome import solve_lengths

        return solve_lengths(request, pipelines)
    several = spending is not None or pipelines > 1 or wrapped is not None
    aim = decided(
        objective,
        request.problem,
        request.table,
        request.params,
        solver=solver,
        several=several,
    )
    solve = _solve(solver, aim, PATIENCE_S if objective is None else None)
    if wrapped is not None:
        solve = wrapped(solve)
    if pipelines > 1:
        from hetopt.solvers.several.outcome import solve_several

        return solve_several(request, solve, pipelines)
    if spending is None:
        result = solve(request)
    else:
        from hetopt.solvers.fleets.outcome import solve_spending

        result = solve_spending(request, solve, spending, objective=aim)
    if result.best is None:
        return result
    best = result.best
    cost = cost_of(request.problem, best.plan, best.iteration_time_s)
    return replace(result, cost=cost)


def search_front(
    request: Request, *, solver: str, objective: Objective, spending: Spending
) -> Front:
    """Find the plans that no other plan beats in both time and price."""
    from hetopt.solvers.fleets.outcome import solve_front

    solve = _solve(solver, objective)
    return solve_front(request, solve, spending, objective=objective)


def _solve(solver: str, objective: Objective, patience_s: float | None = None) -> Solve:
    """Return the function that minimises an objective."""
    solve: Solve = load(solver)
    if objective != "simulated":
        return solve
    from hetopt.solvers.loading import sharing_links
    from hetopt.solvers.simulated.solver import solve_simulated

    simulated = partial(solve_simulated, solver=solver, patience_s=patience_s)
    return partial(sharing_links, simulated, objective="simulated", exact=True)


def _scheduled(
    problem: Problem, schedule: ScheduleName | None, chunks: int | None
) -> Problem:
    """Return the problem with a schedule; None: its own."""
    if schedule is None and chunks is None:
        return problem
    schedule = present_name(schedule)
    if schedule is not None and schedule not in SCHEDULE_CHOICES:
        known = ", ".join((BEST, *SCHEDULE_CHOICES))
        msg = f"is {schedule!r}, expected one of {known}"
        raise InputError(msg, field="schedule")
    try:
        return problem.under(schedule or problem.training.schedule, chunks)
    except InputError as error:
        if error.field != "training.chunks":
            raise
        raise InputError(error.message, field="chunks") from None


def ensure_holds(problem: Problem, table: CostTable, result: Result) -> None:
    """Raise CheckError unless independent code confirms every claim of a result."""
    if result.best is None:
        return
    from hetopt.check import check_result

    findings = check_result(problem, table, result.to_json())
    if findings:
        raise CheckError(list(findings))


def ensure_front_holds(problem: Problem, table: CostTable, front: Front) -> None:
    """Raise CheckError unless independent code confirms every claim of a front."""
    from hetopt.check.claims.front import check_front

    findings = check_front(problem, table, front.to_json())
    if findings:
        raise CheckError(findings)


def _table_of(
    problem: Problem, table: CostTable | str | os.PathLike[str] | None
) -> CostTable:
    from hetopt.cost.build import build_table
    from hetopt.cost.table.table import CostTable
    from hetopt.cost.table_file.file import ensure_made_for, read_table

    if table is None:
        return build_table(problem)
    if isinstance(table, CostTable):
        ensure_made_for(table, problem)
        return table
    return read_table(os.fspath(table), problem)


def _ensure_parameters(
    *, time_limit_s: float | None, top: int, jobs: int | None, seed: int
) -> None:
    if time_limit_s is not None and not (
        math.isfinite(time_limit_s) and time_limit_s > 0
    ):
        msg = f"is {time_limit_s!r}, expected a number of seconds above 0, or None"
        raise InputError(msg, field="time_limit_s")
    for field, value, least in (("top", top, 1), ("jobs", jobs, 1), ("seed", seed, 0)):
        if value is not None and (not isinstance(value, int) or value < least):
            msg = f"is {value!r}, expected a whole number of at least {least}"
            raise InputError(msg, field=field)
