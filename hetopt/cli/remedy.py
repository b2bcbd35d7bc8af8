"""What to do about a plan that a launcher does not run as it is."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from hetopt.base import interruption
from hetopt.base.deadline import Deadline
from hetopt.cli.preparing import prepare
from hetopt.errors import InputError
from hetopt.planning.asked import Search
from hetopt.solvers.kernels import kernels_for
from hetopt.solvers.refusals import ensure_plans

if TYPE_CHECKING:
    from hetopt.export.launcher import Launcher
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Result

#: Seconds in which the best plan for the launcher must be proven to be compared.
_LIMIT_S = 10.0


def remedy(
    problem: Problem, target: Launcher, time_s: float | None, *, lossy: bool
) -> str | None:
    """Return in one line what to do; None if nothing helps.

    Parameters
    ----------
    problem
        Under the schedule of the plan.
    time_s
        Simulated iteration time of the plan; None if it cannot be compared with that of
        the launcher's best plan.
    lossy
        Whether the launcher has something instead of everything that it cannot do.
    """
    other = "--allow-lossy" if lossy else None
    again = _again(problem, target, time_s)
    if again is None:
        return None if other is None else f"export again with {other}"
    return again if other is None else f"{again}, or {other}"


def _again(problem: Problem, target: Launcher, time_s: float | None) -> str | None:
    """Return how to plan for a launcher; None if it runs no plan, as far as known."""
    from hetopt.export.planning.limits import fitted

    limits = target.limits
    if isinstance(limits, str | None):
        return None
    try:
        runs = fitted(limits, problem)
        ensure_plans("auto", runs.training.schedule)
    except InputError:
        return None
    again = f"plan again with --for {target.name}"
    if time_s is None:
        return again
    result = _best(Search(problem=runs, launcher=target.name))
    if result.status == "infeasible":
        return None
    if result.status != "optimal" or result.best is None:
        return again
    return f"{again} ({result.best.iteration_time_s / time_s - 1:+.1%})"


def _best(asked: Search) -> Result:
    """Search the best plan that a launcher runs, for a short time."""
    from hetopt.cost.build import build_table
    from hetopt.planning.plan import search
    from hetopt.report.progress import ProgressBar
    from hetopt.solvers.params import RaceParams
    from hetopt.solvers.request import Request

    problem, over = asked.over()
    prepare(kernels_for("auto", limited=True))
    # From here on a signal ends only the search.
    interruption.hold()
    with ProgressBar(sys.stderr) as bar:
        request = Request(
            problem=problem,
            table=build_table(problem),
            params=RaceParams(on_progress=bar.update),
            deadline=Deadline.after(_LIMIT_S),
        )
        return search(request, solver="auto", objective="closed", over=over)
