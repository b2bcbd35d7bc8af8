"""Load solvers by name, ready for problems whose boundaries share links.

If boundaries share links, the solver searches a modified table, and its plans are
priced with the problem's own table.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hetopt.check import check_plan
from hetopt.cost.boundaries.places import anywhere, searched_table
from hetopt.cost.table_file.file import table_digest
from hetopt.errors import CheckError
from hetopt.plans.plan import Pipeline
from hetopt.results.priced_plan import PricedPlan
from hetopt.results.settlement import OPTIMALITY_GAP
from hetopt.solvers.progress import without_times
from hetopt.solvers.race.merging import best_first, with_plans
from hetopt.solvers.registry import solver

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Plan
    from hetopt.results.result import Objective, Result
    from hetopt.solvers.request import Request, Solve

#: Copies of a plan in the searched table: either end may also be priced as a middle.
_COPIES = 4


def load(name: str) -> Solve:
    """Return the ``solve`` function of a solver; InputError if there is none.

    Prices of plans include shared links, even if the solver does not model them.
    """
    found = solver(name)
    return partial(sharing_links, found.load(), objective="closed", exact=found.proves)


def sharing_links(
    solve: Solve, request: Request, *, objective: Objective, exact: bool
) -> Result:
    """Call ``solve`` on the table to search, and price its plans with the true table.

    Parameters
    ----------
    exact
        Whether the solver proves its bounds.
    """
    params, table = request.params, request.table
    searched = searched_table(
        table,
        params.principles,
        simulated=objective == "simulated",
        exact=exact,
    )
    if searched is table:
        return solve(request)
    if params.top > 1:
        # Copies of a plan are merged below.
        params = replace(params, top=_COPIES * params.top)
    if not exact:
        params = replace(params, on_progress=without_times(params.on_progress))
    result = solve(replace(request, table=searched, params=params))
    if result.best is None:
        return result
    found = []
    for each in result.plans:
        if _priced(each.plan, request, searched) != each:
            msg = f"{result.solver}: the time of a plan differs from the reported one"
            raise CheckError([msg])
        found.append(_priced(as_planned(each.plan, table), request, table))
    plans = best_first(found, table, objective)[: request.params.top]
    priced = reopened(with_plans(result, plans, table))
    # A bound that is met proves no optimum where the tie rule has not chosen.
    return priced if exact else replace(priced, status="feasible")


def reopened(result: Result) -> Result:
    """Return a result without claims that its plan's own price does not bear out.

    Sharing may make a plan slower than the bounds at which programs were settled.
    """
    assert result.best is not None
    least_s = result.best.time_s(result.objective) * (1 - OPTIMALITY_GAP)
    settlements = tuple(
        replace(each, how="unsettled")
        if each.bound_s is not None and each.bound_s < least_s
        else each
        for each in result.settlements
    )
    return replace(result, settlements=settlements)


def as_planned(plan: Plan, table: CostTable) -> Plan:
    """Convert a plan found in the searched table to one of the problem's table."""
    pipelines = tuple(
        Pipeline(
            microbatches=pipeline.microbatches,
            stages=tuple(
                replace(stage, strategy=anywhere(stage.strategy))
                for stage in pipeline.stages
            ),
        )
        for pipeline in plan.pipelines
    )
    return replace(plan, pipelines=pipelines, table_digest=table_digest(table))


def _priced(plan: Plan, request: Request, table: CostTable) -> PricedPlan:
    checked = check_plan(request.problem, table, plan, request.params.principles)
    return PricedPlan.of(plan, checked)
