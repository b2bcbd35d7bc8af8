"""Check that several lengths can be planned, and make the result of their search."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.cost.device_work import least_seconds_of_lengths
from hetopt.cost.divided import sources_by_length
from hetopt.errors import InputError
from hetopt.pricing.several import price_several
from hetopt.problem.division import pins_fault
from hetopt.results.priced_plan import PricedPlan
from hetopt.results.result import Result
from hetopt.schedule.schedules import RULES, rule_of
from hetopt.solvers.race.merging import with_plans

if TYPE_CHECKING:
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import ScheduleName
    from hetopt.results.result import Objective
    from hetopt.solvers.request import Request


def ensure_lengths(problem: Problem, name: str) -> None:
    """Raise InputError if a solver cannot plan for sequences of several lengths."""
    if name != "auto":
        msg = f"is {name}, sequences of several lengths are planned only by auto"
        raise InputError(msg, field="solver")
    pin = pins_fault(problem.pins)
    if pin is not None:
        msg = "applies only if all sequences have one length: leave it out"
        raise InputError(msg, field=f"pin.{pin}")
    for cluster in problem.clusters:
        if cluster.uplink_bytes_per_s is not None:
            msg = "is not priced for sequences of several lengths: leave it out"
            raise InputError(msg, field=f"clusters.{cluster.name}.uplink")


def ensure_mixes(schedule: ScheduleName) -> None:
    """Raise InputError if sequences of several lengths do not run under a schedule."""
    if rule_of(schedule).mixes:
        return
    able = ", ".join(each for each, rule in RULES.items() if rule.mixes)
    msg = f"is {schedule}, sequences of several lengths run under {able}"
    raise InputError(msg, field="training.schedule")


def solve_lengths(
    request: Request,
    most: int,
    objective: Objective = "closed",
    whole: Problem | None = None,
) -> Result:
    """Find the plan of least closed form with up to ``most`` pipelines.

    Parameters
    ----------
    objective
        Simulated times are not searched: the plans are those of least closed form, and
        only device time bounds them.
    whole
        The problem whose devices that are, if only some of its nodes are rented.

    Raises
    ------
    InputError
        There are too many ways to divide the nodes.
    """
    # It loads OR-Tools, which other searches do without.
    from hetopt.solvers.lengths.search import LengthsSearch

    simulated = objective == "simulated"
    search = LengthsSearch(request, most, simulated=simulated, whole=whole)
    search.run()
    # Only plans that keep all principles are searched.
    relaxed = request.params.principles.relaxed
    bound = search.lower_bound()
    if relaxed:
        whole = whole or request.problem
        bound = least_seconds_of_lengths(whole, sources_by_length(whole))
    possible = not math.isinf(bound)
    found = Result(
        status="unknown" if possible else "infeasible",
        objective=objective,
        solver="auto",
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
        reason=request.without_plan(interrupted=search.interrupted)
        if possible
        else f"no plan of up to {counted(most, 'pipeline')} fits the devices",
        relaxed=relaxed,
        interrupted=search.interrupted,
        over=({"divisions": {"most": most}},),
        claims=search.claims(bounded=not relaxed),
    )
    if not search.found:
        return found
    plans = [_priced(request, plan) for _, plan in search.found]
    plans.sort(key=lambda plan: plan.time_s(objective))
    return with_plans(found, plans, request.table)


def _priced(request: Request, plan: Plan) -> PricedPlan:
    return PricedPlan.of(plan, price_several(request.problem, plan))
