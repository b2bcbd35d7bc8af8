"""Which time of a plan is minimised: a matter of the problem and the options alone.

The simulated time is nearer to the truth; the closed form is what most programs can
express. By default ``auto`` minimises the simulated time. It minimises the closed form
if transfers block, if stages have several chunks or run gradients of weights later, if
there are too many clusters or they share links or uplinks, or if principles are
relaxed.
Plans with free warm-up counts are searched by the simulated time alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.cost.boundaries.places import searched_table
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.refusals import ensure_plans

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Objective
    from hetopt.solvers.params import RaceParams

#: Seconds for proving a simulated time that the user did not ask for by name, after
#: the start from the closed form, if there is no time limit; then there is a gap.
PATIENCE_S = 60.0


def decided(
    objective: Objective | None,
    problem: Problem,
    table: CostTable,
    params: RaceParams,
    *,
    solver: str,
    several: bool = False,
) -> Objective:
    """Return what a search minimises.

    Parameters
    ----------
    objective
        What the user asked for; None: nothing.
    several
        Whether the search is one of several: over fleets, pipelines, lengths, schedules
        or the plans of a launcher.

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
    if solver != "auto" or several or problem.training.lengths is not None:
        return "closed"
    return "simulated" if _is_searched(problem, table, params) else "closed"


def _is_searched(problem: Problem, table: CostTable, params: RaceParams) -> bool:
    """Whether the least simulated time can be searched."""
    from hetopt.solvers.simulated.search import is_searchable

    if params.principles.relaxed:
        return False
    if not (rule_of(table.schedule).is_plain and is_searchable(problem, table)):
        return False
    # The bounds do not cover links and uplinks that boundaries share.
    return searched_table(table, params.principles, simulated=True) is table
