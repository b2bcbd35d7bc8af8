"""Which time of a plan is minimised: a matter of the problem and the options alone.

The simulated time is nearer to the truth; the closed form is what most programs can
express. By default ``auto`` minimises the simulated time, and a named solver the closed
form that its program has. ``auto`` minimises the closed form, too, if there are more
clusters than can be enumerated.
Plans with free warm-up counts are searched by the simulated time alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.schedule.schedules import rule_of
from hetopt.solvers.refusals import ensure_plans

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Objective

#: Seconds for proving a simulated time that the user did not ask for by name, after
#: the start from the closed form, if there is no time limit; then there is a gap.
PATIENCE_S = 60.0


def decided(
    objective: Objective | None,
    problem: Problem,
    table: CostTable,
    *,
    solver: str,
) -> Objective:
    """Return what a search minimises.

    Parameters
    ----------
    objective
        What the user asked for; None: nothing.

    Raises
    ------
    InputError
        The closed form is asked for, but warm-up counts are free.
    """
    schedule = problem.training.schedule
    if rule_of(schedule).free:
        ensure_plans(solver, schedule, closed=objective not in (None, "simulated"))
        return "simulated"
    if objective is not None:
        return objective
    if solver != "auto":
        return "closed"
    if problem.training.lengths:
        # Sets of clusters are not enumerated.
        return "simulated"
    from hetopt.solvers.simulated.search import is_searchable

    return "simulated" if is_searchable(problem, table) else "closed"
