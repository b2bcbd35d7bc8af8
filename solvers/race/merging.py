"""Plans of several searches of one problem, ranked together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.cost.table import CostTable
    from hetopt.result import PricedPlan


def best_first(plans: Sequence[PricedPlan], table: CostTable) -> list[PricedPlan]:
    """Return plans best first, of those that differ in their splits only the best.

    Equally good ones stand as with the solvers: fewer devices, then what comes first
    (``hetopt.formulations.decision.Decision.tie_key``).
    """
    keys = [(one.closed_form_s, *_tie_key(one, table)) for one in plans]
    different: dict[object, PricedPlan] = {}
    for index in sorted(range(len(plans)), key=keys.__getitem__):
        # All but times and splits.
        different.setdefault(keys[index][1:-1], plans[index])
    return list(different.values())


def _tie_key(priced: PricedPlan, table: CostTable) -> tuple[Any, ...]:
    plan = priced.plan
    stages = plan.pipeline.stages
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
        plan.pipeline.microbatches,
        tuple(cluster for cluster, _ in runs),
        tuple(strategy for _, strategy in runs),
        tuple(hosted),
        tuple(stage.units for stage in stages),
    )
