"""Why a plan leaves a cluster unused, as far as that is known without a search.

A plan with a cluster either has a boundary between it and another one, or is on it
alone. Such a boundary carries all micro-batches of an iteration, one after the other;
alone, the cluster computes all of them. Both times follow from the latency table, and
no iteration is shorter, in closed form or simulated: so the plan with the cluster takes
at least the shorter of the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.table.ticks import TICK_S, TOO_LONG_NS
from hetopt.problem.training.principles import PRUNED
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.decisions.identical import leaders

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Unused:
    """What is known about a cluster without a stage.

    Attributes
    ----------
    more
        By how much longer than the reported plan the best plan with the cluster takes,
        as a share; at least, unless ``proven``. None if nothing is known.
    explained
        Whether both times below are longer than the iteration of the reported plan.
    partner
        The cluster to which its links are fastest.
    link_s
        Least time that they need for the activations of an iteration; infinite without
        a link.
    alone_s
        Least time that the cluster computes if it trains alone.
    """

    cluster: str
    more: float | None = None
    proven: bool = False
    explained: bool = False
    partner: str = ""
    link_s: float = inf
    alone_s: float = inf


def unused_clusters(
    problem: Problem, table: CostTable, result: Result
) -> Iterator[Unused]:
    """Yield what is known about each cluster that could have a stage and has none.

    Nothing is yielded about plans of several pipelines or schedules, or of nodes that
    are chosen by their price.
    """
    best = result.best
    if best is None or result.several or result.spent or result.schedules:
        return
    if result.objective not in ("closed", "simulated") or best.plan.per_unit:
        return
    usable = {cluster.name for cluster in problem.usable_clusters}
    for number, name in enumerate(table.cluster_names):
        able = any(part.clusters[number].strategies for part in table.slices)
        if able and name in usable.difference(best.plan.clusters):
            yield _known(number, problem, table, result, best.time_s(result.objective))


def _known(
    number: int, problem: Problem, table: CostTable, result: Result, best_s: float
) -> Unused:
    name = table.cluster_names[number]
    single = table.chunks == 1 and not rule_of(table.schedule).folded
    if not single:
        return Unused(cluster=name)
    links = {
        other: _link_s(table, number, at)
        for at, other in enumerate(table.cluster_names)
        if at != number
    }
    partner = min(links, key=links.__getitem__)
    alone_s = min((_alone_s(table, number, part) for part in table.slices), default=inf)
    least_s = min(links[partner], alone_s)
    exact_s = _next_best_s(name, result)
    if result.status == "optimal" and _is_twin(number, problem, table, result):
        exact_s = best_s
    explained = least_s > best_s
    known_s = least_s if exact_s is None and explained else exact_s
    return Unused(
        cluster=name,
        more=None if known_s is None else known_s / best_s - 1,
        proven=exact_s is not None,
        explained=explained,
        partner=partner,
        link_s=links[partner],
        alone_s=alone_s,
    )


def _is_twin(number: int, problem: Problem, table: CostTable, result: Result) -> bool:
    """Whether the plan uses a cluster that is identical to this one.

    Alternatives never differ from the plan in which of such clusters they use.
    """
    if result.best is None or result.relaxed:
        return False
    pipeline = result.best.plan.pipeline
    part = table.at(pipeline.microbatches)
    groups = leaders(table, part, problem.rules, PRUNED)
    used = {problem.cluster_index(stage.cluster) for stage in pipeline.stages}
    return groups[number] in {groups[j] for j in used}


def _next_best_s(cluster: str, result: Result) -> float | None:
    """Return the time of the best plan with a cluster if the search has found it."""
    if not result.ranks_are_proven:
        return None
    return next(
        (
            each.time_s(result.objective)
            for each in result.alternatives
            if cluster in each.plan.clusters
        ),
        None,
    )


def _link_s(table: CostTable, one: int, other: int) -> float:
    """Return the least time in which all micro-batches pass between two clusters."""
    return min(
        (
            part.microbatches * _occupied_s(part, part.clusters[one], there)
            for part in table.slices
            if (there := part.clusters[other]).strategies
            and part.clusters[one].strategies
        ),
        default=inf,
    )


def _occupied_s(part: TableSlice, one: ClusterTable, other: ClusterTable) -> float:
    """Return the least time in which a micro-batch passes between two clusters."""
    here, there = np.unique(one.layout), np.unique(other.layout)
    there_ns = part.occupancy_ns[:, here[:, None], there].min()
    back_ns = part.occupancy_ns[:, there[:, None], here].min()
    least_ns = int(min(there_ns, back_ns))
    return inf if least_ns >= TOO_LONG_NS else least_ns * TICK_S


def _alone_s(table: CostTable, number: int, part: TableSlice) -> float:
    """Return a lower bound on a cluster's time for all micro-batches of an iteration.

    Every unit takes the fewest device seconds of all strategies.
    """
    own = part.clusters[number]
    if not own.strategies:
        return inf
    times_ns = own.forward_ns.astype(np.float64) + own.backward_ns
    least_ns = (own.devices[:, None] * times_ns).min(axis=0)
    counts = np.bincount(table.units, minlength=len(table.kinds))
    work_s = float(counts @ least_ns) * TICK_S * part.microbatches
    return work_s / table.cluster_devices[number]
