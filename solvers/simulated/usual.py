"""What ``auto`` minimises by default: the simulated time, if that can be searched.

The simulated time is nearer to the truth; the closed form is what most programs can
express. ``auto`` minimises the closed form if the schedule's simulated times are not
searched, if there are too many clusters for that or they share links or uplinks, if
principles are relaxed or a journal is kept, if there is no bound on simulated times
when the search ends, and if that search is not compiled yet: first runs do not wait.
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

#: Seconds for proving the simulated time after the closed form, if there is no time
#: limit; then the result has a gap.
_PATIENCE_S = 60.0
#: Reasons for minimising the closed form, or for ending the proof.
_COMPILING = (
    "the search of simulated times is being compiled for later runs; --objective "
    "simulated waits for it"
)
_UNKEPT = (
    "the compiled search of simulated times cannot be stored here; --objective "
    "simulated compiles it in every run"
)
_STOPPED = "the search was stopped before that of simulated times had a result"
_NO_TIME = "no time was left for simulated times"
_UNBOUNDED = "there was no lower bound on simulated times when the search ended"
_ENDED = (
    f"which stops proving a simulated time after {_PATIENCE_S:g} s: set a time limit "
    "for a longer proof, or minimise the closed form"
)


def solve_usual(request: Request) -> Result:
    """Minimise the simulated time if that can be searched, else the closed form.

    The closed form is proven first; the rest of a time limit is for the simulated time.
    """
    started = load("auto")(request)
    known = started.best is not None and not started.interrupted
    if not known or not _is_searched(request):
        return started
    try:
        return _go_on(request, started)
    except KeyboardInterrupt:
        started = replace(started, interrupted=True)
        return _because(started, _STOPPED, request.deadline)


def _go_on(request: Request, started: Result) -> Result:
    """Minimise the simulated time, given the result for the closed form."""
    deadline, free = request.deadline, rule_of(request.table.schedule).free
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
    """Return the result with the reason why it minimises the closed form."""
    known = "" if result.choice is None else f"{result.choice}; "
    return replace(
        result,
        choice=f"{known}the closed form is minimised, because {why}",
        search_time_s=deadline.elapsed_s(),
    )


def _is_searched(request: Request) -> bool:
    """Whether the least simulated time can be searched for this request."""
    table, params = request.table, request.params
    if params.principles.relaxed or params.journal is not None:
        return False
    if why_not(table) or not is_searchable(request.problem, table):
        return False
    # The bounds do not cover links and uplinks that boundaries share.
    return searched_table(table, params.principles, simulated=True) is table
