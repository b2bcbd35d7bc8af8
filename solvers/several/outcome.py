"""Make the reported result from a search of pipelines side by side."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.cost.table_file.file import table_digest
from hetopt.plans.plan import Plan
from hetopt.pricing.price import price
from hetopt.pricing.several import price_several
from hetopt.results.priced_plan import PricedPlan
from hetopt.results.result import Result
from hetopt.results.several import Several
from hetopt.solvers.race.merging import with_plans
from hetopt.solvers.several.search import SeveralSearch

if TYPE_CHECKING:
    from hetopt.solvers.request import Request, Solve


def solve_several(request: Request, solve: Solve, most: int) -> Result:
    """Find the plan of least closed form with up to ``most`` pipelines.

    Parameters
    ----------
    solve
        Minimises the closed form of one pipeline.

    Raises
    ------
    InputError
        There are too many ways to divide the nodes.
    """
    search = SeveralSearch(request, solve, most)
    search.run()
    bound = search.lower_bound()
    possible = not math.isinf(bound)
    found = Result(
        status="unknown" if possible else "infeasible",
        objective="closed",
        solver=search.solver,
        best=None,
        lower_bound_s=bound if possible else None,
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
        reason="stopped before a plan was found"
        if possible
        else f"no plan of up to {counted(most, 'pipeline')} fits the devices",
        interrupted=search.interrupted,
        several=Several(
            most=most, divisions=len(search.ways), bounds=tuple(search.bounds)
        ),
    )
    if not search.best:
        return found
    plan = Plan(
        schedule=request.table.schedule,
        warmup_epsilon=request.table.warmup_epsilon,
        pipelines=search.best,
        problem_digest=request.table.problem_digest,
        table_digest=table_digest(request.table),
    )
    return with_plans(found, [_priced(request, plan)], request.table)


def _priced(request: Request, plan: Plan) -> PricedPlan:
    several = len(plan.pipelines) > 1
    known = (
        price_several(request.problem, plan) if several else price(plan, request.table)
    )
    return PricedPlan(
        plan=plan,
        closed_form_s=known.closed_form_s,
        iteration_time_s=known.iteration_time_s,
    )
