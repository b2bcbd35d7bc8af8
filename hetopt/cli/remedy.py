"""What to do about a plan that a launcher does not run as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.cli.searching import searching
from hetopt.errors import InputError
from hetopt.solvers.refusals import ensure_plans

if TYPE_CHECKING:
    from hetopt.export.launcher import Launcher
    from hetopt.planning.asked import Search
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
    from hetopt.planning.asked import Search

    limits = target.limits
    if isinstance(limits, str | None):
        return None
    try:
        runs = fitted(limits, problem)
        ensure_plans("auto", runs.training.schedule)
        asked = Search(
            problem=runs, time="closed", launcher=target.name, time_limit_s=_LIMIT_S
        )
    except InputError:
        return None
    again = f"plan again with --for {target.name}"
    if time_s is None:
        return again
    result = _best(asked)
    if result.status == "infeasible":
        return None
    if result.status != "optimal" or result.best is None:
        return again
    return f"{again} ({result.best.iteration_time_s / time_s - 1:+.1%})"


def _best(asked: Search) -> Result:
    """Search the best plan that a launcher runs, for a short time."""
    from hetopt.planning.posed import Posed, found_by

    posed = Posed.of(asked)
    with searching(posed) as request:
        return found_by(posed.tree(request))
