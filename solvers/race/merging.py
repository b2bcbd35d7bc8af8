"""Plans of several searches of one problem, ranked together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hetopt.results.settlement import OPTIMALITY_GAP
from hetopt.solvers.race.outcome import devices_used, mfu

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.cost.table.table import CostTable
    from hetopt.problem.training.principles import Relaxable
    from hetopt.results.priced_plan import PricedPlan
    from hetopt.results.result import Objective, Result


def best_first(
    plans: Sequence[PricedPlan], table: CostTable, objective: Objective = "closed"
) -> list[PricedPlan]:
    """Return plans, best first; of those that differ only in their splits, the best.

    Equally good plans are ordered by the tie rule, fewer devices first
    (``hetopt.formulations.decision.Decision.tie_key``).
    """
    keys = [(value_of(one, objective), *_tie_key(one, table)) for one in plans]
    different: dict[object, PricedPlan] = {}
    for index in sorted(range(len(plans)), key=keys.__getitem__):
        # The key without its time and its split.
        different.setdefault(keys[index][1:-1], plans[index])
    return list(different.values())


def with_plans(result: Result, plans: Sequence[PricedPlan], table: CostTable) -> Result:
    """Return a result with these plans, best first, and its own bound."""
    best, *alternatives = plans
    bound, gap, value = result.lower_bound_s, None, value_of(best, result.objective)
    if bound is not None:
        bound = min(bound, value)
        gap = (value - bound) / value
    closed = gap is not None and gap <= OPTIMALITY_GAP
    mixed = best.plan.pipelines[0].mix is not None
    confirmed = is_confirmed(result.objective, mixed=mixed, relaxed=result.relaxed)
    return replace(
        result,
        status="optimal" if closed and confirmed else "feasible",
        best=best,
        alternatives=tuple(alternatives),
        lower_bound_s=bound,
        gap=gap,
        tokens_per_s=table.tokens / best.iteration_time_s,
        mfu=mfu(table, best, table.cluster_devices),
        mfu_used=mfu(table, best, devices_used(table, best)),
        reason=None,
    )


def is_confirmed(
    objective: Objective, *, mixed: bool, relaxed: Sequence[Relaxable]
) -> bool:
    """Whether bounds can be derived again, without which nothing counts as optimal.

    Those on the simulated time cannot with several lengths or relaxed principles.
    """
    return objective != "simulated" or not (mixed or relaxed)


def together(before: Result, after: Result, table: CostTable, top: int) -> Result:
    """Return a result with what an earlier search of the same problem found, too."""
    if after.status == "infeasible":
        return after
    bounds = [each.lower_bound_s or 0.0 for each in (before, after)]
    better = after if bounds[1] >= bounds[0] else before
    found = replace(after, lower_bound_s=max(bounds), settlements=better.settlements)
    plans = [
        plan
        for each in (after, before)
        if each.best is not None
        for plan in (each.best, *each.alternatives)
    ]
    if not plans:
        return found
    return with_plans(found, best_first(plans, table, after.objective)[:top], table)


def value_of(priced: PricedPlan, objective: Objective) -> float:
    """Return the one of a plan's two times that is the objective."""
    simulated = objective == "simulated"
    return priced.iteration_time_s if simulated else priced.closed_form_s


def _tie_key(priced: PricedPlan, table: CostTable) -> tuple[Any, ...]:
    plan = priced.plan
    stages = [stage for each in plan.pipelines for stage in each.stages]
    runs: list[tuple[int, object]] = []
    hosted: list[int] = []
    for stage in stages:
        run = (table.cluster_names.index(stage.cluster), stage.strategy)
        if not runs or runs[-1] != run:
            runs.append(run)
            hosted.append(0)
        hosted[-1] += 1
    return (
        plan.devices,
        len(stages),
        tuple(each.microbatches for each in plan.pipelines),
        tuple(cluster for cluster, _ in runs),
        tuple(strategy for _, strategy in runs),
        tuple(hosted),
        tuple(stage.units for stage in stages),
    )
