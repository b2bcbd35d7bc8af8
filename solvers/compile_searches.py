"""The program that ``hetopt.solvers.compiling`` starts: it compiles kernels."""

from __future__ import annotations

import os
import sys
from typing import cast

from hetopt.solvers.compiling import LATER, What, lock_path


def compile_kept(what: What, *, later: bool) -> None:
    """Compile the kernels of one kind and keep them on disk, one process at a time.

    Parameters
    ----------
    later
        Whether no process waits: this one then runs at the lowest priority, under the
        lock that it inherited from the process that started it.
    """
    import fcntl

    if later:
        os.nice(19)
        _compile(what)
        return
    path = lock_path(what)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _compile(what)


def _compile(what: What) -> None:
    match what:
        case "dp":
            _plan()
        case "sums":
            from hetopt.solvers.bounds.sums import add_once

            add_once()
        case "simulated":
            _simulate(free=False)
        case "simulated-free":
            _simulate(free=True)


def _plan() -> None:
    from hetopt.cost.build import build_table
    from hetopt.problem.reading import read_problem_text
    from hetopt.problem.training.choices import SCHEDULES
    from hetopt.solvers.race.race import compile_bounds
    from hetopt.solvers.request import Request
    from hetopt.solvers.side_by_side import TINY, Entry, warm_up

    # The same kernels are compiled under any schedule.
    warm_up(Entry(solver="dp", time_limit_s=None), SCHEDULES[0])
    problem = read_problem_text(TINY % SCHEDULES[0])
    compile_bounds(Request(problem=problem, table=build_table(problem)))


def _simulate(*, free: bool) -> None:
    from hetopt.cost.build import build_table
    from hetopt.problem.reading import read_problem_text
    from hetopt.problem.training.choices import SCHEDULES
    from hetopt.schedule.schedules import FREE
    from hetopt.solvers.params import RaceParams
    from hetopt.solvers.request import Request
    from hetopt.solvers.side_by_side import TINY
    from hetopt.solvers.simulated.solver import solve_simulated

    problem = read_problem_text(TINY % (FREE.name if free else SCHEDULES[0]))
    request = Request(
        problem=problem, table=build_table(problem), params=RaceParams(jobs=0)
    )
    solve_simulated(request, solver="cp-sat")


if __name__ == "__main__":
    compile_kept(cast("What", sys.argv[1]), later=LATER in sys.argv)
