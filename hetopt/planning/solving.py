"""The function that searches one problem, whatever the schedule and the principles.

The simulated time is not searched with relaxed principles, and these have no program
under some schedules. There the nearest search gives a plan: of least closed form, or
with all principles kept. Its plan is one of those asked for, but it bounds nothing, so
only device time does.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hetopt.cost.table.ticks import TICK_S
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.problem.training.principles import PRUNED
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.loading import load, sharing_links
from hetopt.solvers.race.device_time import least_values
from hetopt.solvers.race.merging import best_first, with_plans

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.results.result import Objective, Result
    from hetopt.solvers.request import Request, Solve


def solve_for(
    solver: str, objective: Objective, patience_s: float | None = None
) -> Solve:
    """Return the function that minimises an objective with a solver.

    Parameters
    ----------
    patience_s
        Seconds for the proof of a simulated time if there is no time limit; None: no
        limit.
    """
    closed: Solve = load(solver)
    exact = partial(_with_principles, closed)
    if objective != "simulated":
        return exact
    return partial(_simulated, exact, solver=solver, patience_s=patience_s)


def _with_principles(solve: Solve, request: Request) -> Result:
    """Search the plans that keep the principles asked for, as far as they are known."""
    principles = request.params.principles
    rule = rule_of(request.table.schedule)
    if not principles.relaxed or not (rule.interleaved or rule.splits):
        return solve(request)
    params = replace(request.params, principles=PRUNED)
    found = solve(replace(request, params=params))
    why = f"no program relaxes {' and '.join(principles.relaxed)} under {rule.name}"
    found = _unbounded(found, request.table, why, closed=True)
    return replace(found, relaxed=principles.relaxed)


def _simulated(
    closed: Solve, request: Request, *, solver: str, patience_s: float | None
) -> Result:
    """Minimise the simulated time, or with relaxed principles the closed form."""
    from hetopt.solvers.simulated.solver import solve_simulated

    relaxed = request.params.principles.relaxed
    if not relaxed:
        simulated = partial(solve_simulated, solver=solver, patience_s=patience_s)
        return sharing_links(simulated, request, objective="simulated", exact=True)
    found = closed(replace(request, cutoff_s=None))
    if found.status == "infeasible":
        return replace(found, objective="simulated")
    why = f"{' and '.join(relaxed)} may be broken"
    words = f"simulated times are not searched, as {why}: plans of least closed form"
    return _unbounded(found, request.table, words, closed=False)


def _unbounded(result: Result, table: CostTable, why: str, *, closed: bool) -> Result:
    """Return a result of a search of other plans, bounded by device time alone.

    Parameters
    ----------
    closed
        Whether the closed form is minimised, not the simulated time.
    """
    least = least_values(table, closed=closed)
    settlements = tuple(
        replace(
            each,
            how="unsettled",
            bound_s=least.get(each.microbatches, 0) / PERIOD_SCALE * TICK_S,
        )
        for each in result.settlements
    )
    found = replace(
        result,
        status="unknown",
        lower_bound_s=min((each.bound_s or 0.0 for each in settlements), default=0.0),
        settlements=settlements,
        choice=why,
        objective="closed" if closed else "simulated",
    )
    if found.best is None:
        return replace(found, reason="no plan was found")
    plans = [found.best, *found.alternatives]
    return with_plans(found, best_first(plans, table, found.objective), table)
