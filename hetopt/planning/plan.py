"""``hetopt.plan``: the command ``hetopt plan`` for Python programs."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from hetopt.errors import InputError
from hetopt.planning.asked import Search
from hetopt.planning.posed import Posed, ensure_holds
from hetopt.problem.problem import Problem
from hetopt.problem.reading import read_problem
from hetopt.problem.training.choices import ANY, SCHEDULE_CHOICES, asked_name
from hetopt.problem.training.principles import Principles
from hetopt.solvers.compiling import compile_once

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hetopt.cost.table.table import CostTable
    from hetopt.problem.training.choices import AskedSchedule, ScheduleName
    from hetopt.problem.training.principles import Relaxable
    from hetopt.results.result import Result


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
    try:
        principles = Principles.relaxing(relax)
    except ValueError as error:
        raise InputError(str(error), field="relax") from error
    if objective not in (None, "closed", "simulated", "cost"):
        msg = f"is {objective!r}, expected 'closed', 'simulated' or 'cost'"
        raise InputError(msg, field="objective")
    if chunks is not None:
        chunks = (chunks,) if isinstance(chunks, int) else tuple(chunks)
    asked = asked_name(schedule)
    read = problem if isinstance(problem, Problem) else read_problem(problem)
    posed = Posed.of(
        Search(
            problem=_scheduled(read, asked, chunks),
            solver=solver,
            time="closed" if objective == "cost" else objective,
            measure="cost" if objective == "cost" else "time",
            budget=budget,
            min_tokens_per_s=min_tokens_per_s,
            chunks=chunks,
            pipelines=pipelines,
            launcher=launcher,
            principles=principles,
            top=top,
            table=os.fspath(table) if isinstance(table, os.PathLike) else table,
            time_limit_s=time_limit_s,
            jobs=jobs,
            seed=seed,
            name=_name(problem),
            schedule=asked,
        )
    )
    compile_once(posed.kernels, jobs=jobs)
    result = posed.found_by(posed.tree(posed.request()))
    ensure_holds(posed.problem, posed.table, result)
    # A report says how far off the times of hetopt's own tables are, not of a user's.
    own = (result.table or posed.table) if table is None else None
    return replace(result, problem=result.problem or posed.problem, table=own)


def _name(given: object) -> str | None:
    """Return the name of a file, if that is what is given."""
    return os.fspath(given) if isinstance(given, str | os.PathLike) else None


def _scheduled(
    problem: Problem,
    schedule: AskedSchedule | None,
    chunks: tuple[int, ...] | None,
) -> Problem:
    """Return the problem with a schedule, None: its own, and chunks, if it has one."""
    if schedule not in (None, ANY, *SCHEDULE_CHOICES):
        known = ", ".join((ANY, *SCHEDULE_CHOICES))
        msg = f"is {schedule!r}, expected one of {known}"
        raise InputError(msg, field="schedule")
    if schedule == ANY or (schedule is None and problem.training.any_schedule):
        return problem.under_any()
    if chunks is not None and len(chunks) != 1:
        msg = f"is {chunks!r}, expected one number, or the schedule {ANY}"
        raise InputError(msg, field="chunks")
    if schedule is None and chunks is None:
        return problem
    try:
        one = None if chunks is None else chunks[0]
        return problem.under(schedule or problem.training.schedule, one)
    except InputError as error:
        if error.field != "training.chunks":
            raise
        raise InputError(error.message, field="chunks") from None
