"""What ``auto`` minimises unless somebody says: the simulated time, where it can.

That is what a plan takes; the closed form is what most programs can be told. The
closed form it is where the schedule is one whose simulated times are not searched,
where clusters are too many for it or share what joins them, where principles are
relaxed or a journal is kept, where nothing is known of simulated times when the search
ends, and where that search is not compiled yet, which first runs do not wait for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.cost.boundaries.places import searched_table
from hetopt.schedule.schedules import rule_of
from hetopt.solvers import compiling
from hetopt.solvers.loading import load
from hetopt.solvers.simulated.search import is_searchable
from hetopt.solvers.simulated.solver import solve_simulated, why_not

if TYPE_CHECKING:
    from hetopt.base.deadline import Deadline
    from hetopt.results.result import Result
    from hetopt.solvers.request import Request

#: Seconds after the proof of the closed form in which the simulated time is proven, or
#: the gap is what is left; unless there is a time limit.
_PATIENCE_S = 60.0
#: Why it is the closed form all the same, or the proof was not ended.
_COMPILING = (
    "what searches simulated times is being compiled for later runs: the objective "
    "simulated waits for it"
)
_UNKEPT = (
    "what searches simulated times cannot be kept compiled here: the objective "
    "simulated compiles it every time"
)
_NO_TIME = "no time was left for simulated times"
_UNBOUNDED = "nothing was known of simulated times when the search ended"
_ENDED = (
    f"which ends the proof of a simulated time after {_PATIENCE_S:g} s: name a time "
    "limit for a longer one, or minimise the closed form"
)


def solve_usual(request: Request) -> Result:
    """Minimise the simulated time where that can be searched, else the closed form.

    The closed form is proven first. What is left of a time limit is for the simulated
    time.
    """
    deadline, free = request.deadline, rule_of(request.table.schedule).free
    started = load("auto")(request)
    known = started.best is not None and not started.interrupted
    if not known or not _is_searched(request):
        return started
    if not compiling.are_times_kept(free=free):
        later = compiling.times_later(free=free)
        return _because(started, _COMPILING if later else _UNKEPT, deadline)
    if started.status != "optimal":
        return started
    if deadline.is_over():
        return _because(started, _NO_TIME, deadline)
    result = solve_simulated(
        request, solver="auto", started=started, patience_s=_PATIENCE_S
    )
    if not result.lower_bound_s:
        started = replace(started, interrupted=result.interrupted)
        return _because(started, _UNBOUNDED, deadline)
    done = result.status == "optimal" or result.interrupted
    if done or deadline.limit_s is not None:
        return result
    return replace(result, choice=_ENDED)


def _because(result: Result, why: str, deadline: Deadline) -> Result:
    """Return a result that says why its closed form is minimised."""
    known = "" if result.choice is None else f"{result.choice}; "
    return replace(
        result,
        choice=f"{known}minimised is the closed form, as {why}",
        search_time_s=deadline.elapsed_s(),
    )


def _is_searched(request: Request) -> bool:
    """Whether the least simulated time is what is searched."""
    table, params = request.table, request.params
    if params.principles.relaxed or params.journal is not None:
        return False
    if why_not(table) or not is_searchable(request.problem, table):
        return False
    # Bounds know nothing of what boundaries share.
    return searched_table(table, params.principles, simulated=True) is table
