"""Make the reported result from a search of fleets."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.cost.table_file.file import table_digest
from hetopt.results.front import Front, FrontPoint
from hetopt.results.money import known_cost
from hetopt.results.result import Result
from hetopt.results.settlement import OPTIMALITY_GAP
from hetopt.results.spending import Spent, cost_of_time
from hetopt.solvers.fleets.search import FleetSearch
from hetopt.solvers.race.merging import with_plans

if TYPE_CHECKING:
    from hetopt.results.priced_plan import PricedPlan
    from hetopt.results.result import Objective
    from hetopt.results.spending import Spending
    from hetopt.solvers.fleets.search import Point
    from hetopt.solvers.request import Request, Solve


def solve_spending(
    request: Request,
    solve: Solve,
    spending: Spending,
    *,
    objective: Objective,
) -> Result:
    """Find the plan of least time within a budget, or of least cost.

    Parameters
    ----------
    solve
        Minimises a time: the simulated one if that is the objective.

    Raises
    ------
    InputError
        A cluster has no price, or there are too many fleets to list.
    """
    costs = objective == "cost"
    search = FleetSearch(
        request,
        solve,
        spending,
        "cost" if costs else "time",
        simulated=objective == "simulated",
    )
    search.run()
    bound, best = search.lower_bound(), search.best()
    possible = not math.isinf(bound)
    found = Result(
        status="unknown" if possible else "infeasible",
        objective=objective,
        solver=search.solver,
        best=None,
        lower_bound_s=bound if possible and not costs else None,
        gap=None,
        search_time_s=request.deadline.elapsed_s(),
        settlements=(),
        tokens_per_s=None,
        mfu=None,
        mfu_used=None,
        table_kinds=dict(
            zip(request.table.cluster_names, request.table.sources, strict=True)
        ),
        relaxed=request.params.principles.relaxed,
        choice=search.choice,
        reason=_reason(spending, possible=possible),
        interrupted=search.interrupted,
        spent=_spent(search, spending),
    )
    if best is None:
        return found
    found = with_plans(found, [_signed(best.priced, request)], request.table)
    if not costs:
        return found
    value = best.price * best.time_s
    bound = min(bound, value)
    gap = (value - bound) / value if value else 0.0
    return replace(
        found,
        status="optimal" if gap <= OPTIMALITY_GAP else "feasible",
        gap=gap,
        spent=replace(_spent(search, spending), lower_bound=cost_of_time(1.0, bound)),
    )


def solve_front(
    request: Request,
    solve: Solve,
    spending: Spending,
    *,
    objective: Objective,
) -> Front:
    """Find all plans that no other beats in both time and price.

    Raises
    ------
    InputError
        See ``solve_spending``.
    """
    search = FleetSearch(
        request, solve, spending, "front", simulated=objective == "simulated"
    )
    search.run()
    points = tuple(_point(each, request) for each in search.front())
    closed = not search.open.any()
    return Front(
        status=("optimal" if points else "infeasible") if closed else "feasible",
        objective=objective,
        solver=search.solver,
        points=points,
        search_time_s=request.deadline.elapsed_s(),
        open=int(search.open.sum()),
        relaxed=request.params.principles.relaxed,
        spent=_spent(search, spending),
        interrupted=search.interrupted,
    )


def _point(point: Point, request: Request) -> FrontPoint:
    priced = _signed(point.priced, request)
    return FrontPoint(
        best=priced,
        cost=known_cost(request.problem, priced.plan, priced.iteration_time_s),
        tokens_per_s=request.table.tokens / priced.iteration_time_s,
    )


def _spent(search: FleetSearch, spending: Spending) -> Spent:
    return Spent(
        spending=spending,
        fleets=tuple(search.searched),
        choices=len(search.fleets.nodes),
    )


def _signed(priced: PricedPlan, request: Request) -> PricedPlan:
    """Return a plan of a fleet as one of the whole problem."""
    plan = replace(
        priced.plan,
        problem_digest=request.table.problem_digest,
        table_digest=table_digest(request.table),
    )
    return replace(priced, plan=plan)


def _reason(spending: Spending, *, possible: bool) -> str:
    if possible:
        return "stopped before a plan was found"
    limits = []
    if spending.budget is not None:
        limits.append(f"costs at most {spending.budget:g} an hour")
    if spending.min_tokens_per_s is not None:
        limits.append(f"trains {spending.min_tokens_per_s:g} tokens/s or more")
    return f"no plan {' and '.join(limits)}" if limits else "no plan fits any nodes"
