"""The function that searches one problem, whatever the schedule and the principles.

With relaxed principles the least simulated time is bounded by paths
(``hetopt.solvers.bounds.wide``), but not searched: the plan is the quickest of that of
least closed form and of that of least simulated time with all principles kept. Under
some schedules relaxed principles have no program. There plans that keep them are
searched, which bounds nothing, so only device time does.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hetopt.cost.boundaries.places import may_share
from hetopt.cost.table.ticks import TICK_S
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.problem.training.principles import PRUNED
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.loading import load, sharing_links
from hetopt.solvers.race.device_time import least_values
from hetopt.solvers.race.merging import best_first, with_plans
from hetopt.solvers.registry import solver as registered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.cost.table.table import CostTable
    from hetopt.problem.training.principles import Principles
    from hetopt.results.result import Objective, Result
    from hetopt.solvers.request import Request, Solve

#: Shares of a time limit until which the two searches of plans may take, if principles
#: are relaxed; the rest is for bounds.
_PRUNED_SHARE, _CLOSED_SHARE = 0.25, 0.4
#: Shorter limits are shared as if they were twice as long, up to this: a few seconds
#: hardly raise bounds, but find better plans.
_SHORT_S = 5.0


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
    least_closed = partial(_least_closed, load(solver), solver)
    closed = partial(
        _laid_out, least_closed, objective="closed", solver=solver, patience_s=None
    )
    exact = partial(_with_principles, closed)
    if objective != "simulated":
        return exact
    return partial(_simulated, exact, solver=solver, patience_s=patience_s)


def _laid_out(
    solve: Solve,
    request: Request,
    *,
    objective: Objective,
    solver: str,
    patience_s: float | None,
) -> Result:
    """Call ``solve``, or search the hosts of chunks whose ends are pinned."""
    if request.table.layout is None:
        return solve(request)
    from hetopt.solvers.uneven import solve_uneven

    return solve_uneven(request, objective, solver, patience_s)


def _least_closed(solve: Solve, name: str, request: Request) -> Result:
    """Minimise the closed form, by a search of paths where it consists of these."""
    if request.table.chunks == 1 or not registered(name).proves:
        return solve(request)
    from hetopt.solvers.simulated.solver import solve_simulated

    by_paths = partial(solve_simulated, solver=name, objective="closed")
    return sharing_links(by_paths, request, objective="closed", exact=True)


def _with_principles(solve: Solve, request: Request) -> Result:
    """Search the plans that keep the principles asked for, as far as they are known."""
    table, principles = request.table, request.params.principles
    if not principles.relaxed or _has_program(table, principles):
        return solve(request)
    params = replace(request.params, principles=PRUNED)
    found = solve(replace(request, params=params))
    why = (
        f"no program relaxes {' and '.join(principles.relaxed)} under {table.schedule}"
    )
    found = _bounded(found, table, why, None)
    return replace(found, relaxed=principles.relaxed)


def _has_program(table: CostTable, principles: Principles) -> bool:
    """Whether plans that break principles can be searched under a table's schedule.

    Where transfers block, boundaries must not share links.
    """
    rule = rule_of(table.schedule)
    blocked = rule.blocking and may_share(table, principles)
    return not (rule.interleaved or rule.splits or blocked)


def _simulated(
    closed: Solve, request: Request, *, solver: str, patience_s: float | None
) -> Result:
    """Minimise the simulated time, with relaxed principles as far as it is known."""
    from hetopt.solvers.simulated.solver import solve_simulated

    simulated = partial(solve_simulated, solver=solver, patience_s=patience_s)
    exact = partial(
        _laid_out,
        partial(sharing_links, simulated, objective="simulated", exact=True),
        objective="simulated",
        solver=solver,
        patience_s=patience_s,
    )
    if not request.params.principles.relaxed:
        return exact(request)
    wide = replace(request, cutoff_s=None)
    return _relaxed(closed, exact, wide, patience_s)


def _relaxed(
    closed: Solve, simulated: Solve, request: Request, patience_s: float | None
) -> Result:
    """Return the best plan that two searches find, with a bound on all.

    Parameters
    ----------
    simulated
        Minimises the simulated time if all principles are kept.
    patience_s
        Seconds for the bounds if there is no time limit; None: no limit.
    """
    table, params, deadline = request.table, request.params, request.deadline
    limit_s, relaxed = deadline.limit_s, params.principles.relaxed
    shared_s = limit_s and max(limit_s, min(2 * limit_s, _SHORT_S))
    pruned = replace(
        request,
        params=replace(params, principles=PRUNED, journal=None),
        deadline=deadline.within(shared_s and _PRUNED_SHARE * shared_s),
        memory=None,
        journal=None,
    )
    searched = [simulated(pruned)]
    if not searched[0].interrupted:
        until = deadline.within(shared_s and _CLOSED_SHARE * shared_s)
        searched.insert(0, closed(replace(request, deadline=until)))
    stopped = any(each.interrupted for each in searched)
    found = replace(searched[0], relaxed=relaxed, interrupted=stopped)
    plans = [each for own in searched for each in own.plans]
    if plans:
        ranked = best_first(plans, table, "simulated")[: params.top]
        found = with_plans(replace(found, objective="simulated"), ranked, table)
    elif found.status == "infeasible" and len(searched) > 1:
        return replace(found, objective="simulated")
    may = f"{' and '.join(relaxed)} may be broken"
    why = f"simulated times are bounded, not searched, as {may}"
    paths: dict[tuple[int, int], float] = {}
    is_open = not found.interrupted and _has_program(table, params.principles)
    if found.best is not None and is_open:
        until = deadline
        if limit_s is None and patience_s is not None:
            until = deadline.until(patience_s)
        # It imports Numba, which is slow.
        from hetopt.solvers.bounds.wide import least_simulated_s

        try:
            least_s = _device_s(table, closed=False)
            best_s = found.best.iteration_time_s
            paths = least_simulated_s(request, least_s, best_s, until)
        except KeyboardInterrupt:
            found = replace(found, interrupted=True)
    found = replace(found, search_time_s=deadline.elapsed_s())
    return _bounded(found, table, why, paths)


def _device_s(table: CostTable, *, closed: bool) -> dict[int, float]:
    """Return the device time of plans by q, in seconds."""
    least = least_values(table, closed=closed).items()
    return {q: value / PERIOD_SCALE * TICK_S for q, value in least}


def _bounded(
    result: Result,
    table: CostTable,
    why: str,
    paths: Mapping[tuple[int, int], float] | None,
) -> Result:
    """Return a result of a search of other plans, bounded by device time or paths.

    Parameters
    ----------
    paths
        Bounds on the simulated time by (p, q), beside device time; None: the closed
        form is minimised.
    """
    if result.status == "infeasible" and not result.settlements:
        # No number of stages is possible, whatever principles are kept.
        return result
    objective: Objective = "closed" if paths is None else "simulated"
    least = _device_s(table, closed=paths is None)
    settlements = tuple(
        replace(
            each,
            how="unsettled",
            bound_s=max(
                least.get(each.microbatches, 0.0),
                (paths or {}).get((each.stages, each.microbatches), 0.0),
            ),
        )
        for each in result.settlements
    )
    found = replace(
        result,
        status="unknown",
        lower_bound_s=min((each.bound_s or 0.0 for each in settlements), default=0.0),
        settlements=settlements,
        choice=why,
        objective=objective,
    )
    if found.best is None:
        return replace(found, reason="no plan was found")
    return with_plans(found, found.plans, table)
