"""``hetopt.plan``: the command ``hetopt plan`` for Python programs."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from hetopt.base.deadline import Deadline
from hetopt.cost.build import build_table
from hetopt.errors import CheckError, InputError
from hetopt.planning.asked import Search
from hetopt.planning.objective import PATIENCE_S, decided
from hetopt.planning.solving import solve_for
from hetopt.problem.problem import Problem
from hetopt.problem.reading import read_problem
from hetopt.problem.training.choices import ANY, SCHEDULE_CHOICES, asked_name
from hetopt.problem.training.principles import Principles
from hetopt.results.launch import Launch
from hetopt.results.money import cost_of
from hetopt.results.per_schedule import USUAL_CHUNKS
from hetopt.solvers.compiling import compile_once
from hetopt.solvers.kernels import kernels_for
from hetopt.solvers.params import RaceParams
from hetopt.solvers.refusals import ensure_packs
from hetopt.solvers.request import Request
from hetopt.solvers.search.branchings.schedules import chunks_to_try
from hetopt.solvers.search.loop import LEAST_S
from hetopt.solvers.search.over import Over
from hetopt.solvers.search.search import TreeSearch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hetopt.cost.table.table import CostTable
    from hetopt.problem.training.choices import ScheduleName
    from hetopt.problem.training.principles import Relaxable
    from hetopt.results.front import Front
    from hetopt.results.result import Objective, Result
#: A search that does not branch.
_ALONE = Over()


# One keyword, with its description and checks, for each option of the command.
def plan(
    problem: Problem | str | os.PathLike[str] | Mapping[str, Any],
    *,
    table: CostTable | str | os.PathLike[str] | None = None,
    schedule: ScheduleName | Literal["auto", "best"] | None = None,
    chunks: int | Iterable[int] | None = None,
    solver: str = "auto",
    objective: Literal["closed", "simulated", "cost"] | None = None,
    budget: float | None = None,
    min_tokens_per_s: float | None = None,
    relax: Iterable[Relaxable] = (),
    pipelines: int = 1,
    launcher: str | None = None,
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
        Replaces the problem's schedule; ``auto`` (once ``best``) searches all but
        ``free-1f1b`` for the best. None: the problem's own.
    chunks
        Chunks of every stage, if the schedule has several; with ``auto`` the numbers to
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
    launcher
        Only plans that this launcher runs as they are; the result's ``launch`` says
        what that costs. None: the problem's launcher; ``none``: any.
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
    given = problem
    if not isinstance(problem, Problem):
        problem = read_problem(problem)
    if chunks is not None and not isinstance(chunks, int):
        chunks = tuple(chunks)
    if objective not in (None, "closed", "simulated", "cost"):
        msg = f"is {objective!r}, expected 'closed', 'simulated' or 'cost'"
        raise InputError(msg, field="objective")
    problem, tried = _scheduled(problem, schedule, chunks)
    asked = Search(
        problem=problem,
        solver=solver,
        time="closed" if objective == "cost" else objective,
        measure="cost" if objective == "cost" else "time",
        budget=budget,
        min_tokens_per_s=min_tokens_per_s,
        chunks=tried,
        pipelines=pipelines,
        launcher=launcher,
        principles=principles,
        top=top,
        own_table=table is not None,
    )
    asked.ensure()
    whole, over = asked.over()
    costs = _table_of(whole, table)
    ensure_packs(whole, costs, principles)
    params = RaceParams(jobs=jobs, top=top, principles=principles)
    aim = decided(
        asked.time, whole, costs, params, solver=solver, several=over.branches
    )
    schedules = [each.schedule for each in over.schedules]
    kernels = kernels_for(
        solver,
        objective=aim,
        schedules=[whole.training.schedule, *schedules],
        limited=time_limit_s is not None,
    )
    compile_once(kernels, jobs=jobs)
    request = Request(
        problem=whole,
        table=costs,
        params=params,
        deadline=Deadline.after(time_limit_s),
        seed=seed,
    )
    result = search(request, solver=solver, objective=asked.time, over=over)
    if over.launcher is not None:
        result = with_cost_of_limits(result, asked, request)
    found, known = result.problem or whole, result.table or costs
    ensure_holds(found, known, result)
    options = {
        "problem": _name(given),
        "objective": objective,
        "budget": budget,
        "min_tokens_per_s": min_tokens_per_s,
        "top": top if top > 1 else None,
        "schedule": schedule,
        "chunks": [chunks] if isinstance(chunks, int) else chunks and list(chunks),
        "pipelines": pipelines if pipelines > 1 else None,
        "relax": ",".join(principles.relaxed) or None,
        "launcher": launcher,
        "table": _name(table),
        "time_limit": time_limit_s,
        "solver": solver if solver != "auto" else None,
        "jobs": jobs,
        "seed": seed or None,
    }
    return replace(
        result,
        problem=found,
        # A report says how far off the times of hetopt's own tables are, not of a
        # user's.
        table=known if table is None else None,
        asked={name: value for name, value in options.items() if value is not None},
    )


def _name(given: object) -> str | None:
    """Return the name of a file, if that is what is given."""
    return os.fspath(given) if isinstance(given, str | os.PathLike) else None


def search(
    request: Request,
    *,
    solver: str,
    objective: Objective | None,
    over: Over = _ALONE,
) -> Result:
    """Search everything that is asked; the result is not checked yet.

    Parameters
    ----------
    objective
        The time that is minimised; None: what ``decided`` says.
    over
        What to branch over.
    """
    return found_by(tree_of(request, solver=solver, objective=objective, over=over))


def found_by(tree: TreeSearch) -> Result:
    """Search a tree; the result is not checked yet."""
    result = tree.run()
    best = result.best
    if best is None or tree.over.branches:
        return result
    cost = cost_of(tree.problem, best.plan, best.iteration_time_s)
    return replace(result, cost=cost)


def search_front(
    request: Request, *, solver: str, objective: Objective | None, over: Over
) -> Front:
    """Find the plans that no other plan beats in both time and price."""
    return tree_of(request, solver=solver, objective=objective, over=over).front()


def tree_of(
    request: Request, *, solver: str, objective: Objective | None, over: Over
) -> TreeSearch:
    """Return the search of everything that is asked; see ``search``."""
    aim = decided(
        objective,
        request.problem,
        request.table,
        request.params,
        solver=solver,
        several=over.branches,
    )
    solve = solve_for(solver, aim, PATIENCE_S if objective is None else None)
    return TreeSearch(request, solve, over, solver=solver, objective=aim)


def with_cost_of_limits(result: Result, asked: Search, request: Request) -> Result:
    """Return a result with the best plan without the launcher's limits beside it.

    Parameters
    ----------
    result
        The best plan that the launcher can run.
    request
        The request that found it.
    """
    assert asked.limiting is not None
    whole, over = asked.without_limits().over()
    left_s = LEAST_S if result.interrupted else None
    params = replace(request.params, top=1, journal=None)
    without = search(
        replace(
            request,
            problem=whole,
            table=build_table(whole),
            params=params,
            deadline=request.deadline.within(left_s, least_s=LEAST_S),
        ),
        solver=asked.solver,
        objective="closed" if result.objective == "cost" else result.objective,
        over=over,
    )
    best = without.best
    schedule = whole.training.schedule if best is None else best.plan.schedule
    launch = Launch(
        launcher=asked.limiting,
        schedule=schedule,
        closed_form_s=None if best is None else best.closed_form_s,
        iteration_time_s=None if best is None else best.iteration_time_s,
        proven=without.status == "optimal",
    )
    return replace(result, launch=launch)


def _scheduled(
    problem: Problem,
    schedule: ScheduleName | Literal["auto", "best"] | None,
    chunks: int | Iterable[int] | None,
) -> tuple[Problem, tuple[int, ...]]:
    """Return the problem with a schedule, None: its own, and the chunks to try."""
    schedule = asked_name(schedule)
    if schedule not in (None, ANY, *SCHEDULE_CHOICES):
        known = ", ".join((ANY, *SCHEDULE_CHOICES))
        msg = f"is {schedule!r}, expected one of {known}"
        raise InputError(msg, field="schedule")
    if schedule == ANY or (schedule is None and problem.training.any_schedule):
        tried = (chunks,) if isinstance(chunks, int) else chunks
        return problem.under_any(), chunks_to_try(tried, field="chunks")
    if not (chunks is None or isinstance(chunks, int)):
        msg = f"is {chunks!r}, expected one number, or the schedule {ANY}"
        raise InputError(msg, field="chunks")
    if schedule is None and chunks is None:
        return problem, USUAL_CHUNKS
    try:
        found = problem.under(schedule or problem.training.schedule, chunks)
        return found, USUAL_CHUNKS
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
