"""Plans of several searches of one problem, ranked together."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hetopt.results.settlement import OPTIMALITY_GAP

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
    keys = [(one.time_s(objective), *_tie_key(one, table)) for one in plans]
    different: dict[object, PricedPlan] = {}
    for index in sorted(range(len(plans)), key=keys.__getitem__):
        # The key without its time and its split.
        different.setdefault(keys[index][1:-1], plans[index])
    return list(different.values())


def with_plans(result: Result, plans: Sequence[PricedPlan], table: CostTable) -> Result:
    """Return a result with these plans, best first, and its own bound."""
    best, *alternatives = plans
    bound, gap, value = result.lower_bound_s, None, best.time_s(result.objective)
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
        mfu=_mfu(table, best, table.cluster_devices),
        mfu_used=_mfu(table, best, _devices_used(table, best)),
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
    plans = [*after.plans, *before.plans]
    if not plans:
        return found
    return with_plans(found, best_first(plans, table, after.objective)[:top], table)


def _devices_used(table: CostTable, best: PricedPlan) -> list[int]:
    """Return how many devices of each cluster a plan uses."""
    used = Counter[str]()
    for stage in (stage for each in best.plan.pipelines for stage in each.stages):
        used[stage.cluster] += stage.strategy.devices
    return [used[name] for name in table.cluster_names]


def _mfu(table: CostTable, best: PricedPlan, devices: Iterable[int]) -> float:
    """Return the model's FLOPs over the peak of so many devices of each cluster."""
    peak = sum(
        count * rate for count, rate in zip(devices, table.peak_flops, strict=True)
    )
    return table.model_flops / (best.iteration_time_s * peak)


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
