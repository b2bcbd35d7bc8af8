"""What a plan costs: the nodes that it rents, at their prices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetopt.base.fields import Count, NotNegative
from hetopt.base.file_record import FileRecord
from hetopt.problem.cluster.packing import nodes_for
from hetopt.results.spending import cost_of_time

if TYPE_CHECKING:
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem

#: Number of tokens for which reports give a price of training.
TRILLION = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost(FileRecord):
    """What a plan costs, in the currency of the problem's prices.

    Attributes
    ----------
    nodes
        Cluster name -> nodes to rent, of clusters that host stages.
    unpriced
        Those of these clusters that have no price; if any, the costs below are None.
    per_hour
        Cost of all nodes.
    per_iteration, per_trillion_tokens
        Costs at the simulated iteration time, like the throughput.
    """

    nodes: Mapping[str, Count]
    unpriced: tuple[str, ...]
    per_hour: NotNegative | None
    per_iteration: NotNegative | None
    per_trillion_tokens: NotNegative | None


def cost_of(problem: Problem, plan: Plan, iteration_time_s: float) -> Cost | None:
    """Return what a plan costs; None if no cluster of the problem has a price."""
    if all(each.price_per_hour is None for each in problem.clusters):
        return None
    return known_cost(problem, plan, iteration_time_s)


def known_cost(problem: Problem, plan: Plan, iteration_time_s: float) -> Cost:
    """Return what a plan costs; None in its fields if a price is missing."""
    prices = {each.name: each.price_per_hour for each in problem.clusters}
    nodes = rented_nodes(problem, plan)
    unpriced = tuple(name for name in nodes if prices[name] is None)
    if unpriced:
        return Cost(
            nodes=nodes,
            unpriced=unpriced,
            per_hour=None,
            per_iteration=None,
            per_trillion_tokens=None,
        )
    per_hour = sum((prices[name] or 0.0) * count for name, count in nodes.items())
    per_iteration = cost_of_time(per_hour, iteration_time_s)
    tokens = problem.training.tokens
    return Cost(
        nodes=nodes,
        unpriced=(),
        per_hour=per_hour,
        per_iteration=per_iteration,
        per_trillion_tokens=per_iteration * (TRILLION / tokens),
    )


def rented_nodes(problem: Problem, plan: Plan) -> dict[str, int]:
    """Return the nodes that a plan needs, by name of the clusters that host stages.

    A stage has its own nodes or shares one (``hetopt.problem.cluster.packing``). One of
    several pipelines needs all nodes of its share; two halves are one node.
    """
    if any(each.share is not None for each in plan.pipelines):
        return _shared_nodes(problem, plan)
    clusters = {each.name: each for each in problem.clusters}
    stages: dict[str, Counter[tuple[int, int]]] = {name: Counter() for name in clusters}
    for stage in (stage for each in plan.pipelines for stage in each.stages):
        strategy = stage.strategy
        stages[stage.cluster][strategy.devices, strategy.inside] += 1
    return {
        name: nodes_for(cluster, stages[name])
        for name, cluster in clusters.items()
        if stages[name]
    }


def _shared_nodes(problem: Problem, plan: Plan) -> dict[str, int]:
    """Return the nodes of the shares of all pipelines together, by cluster."""
    found: dict[str, int] = {}
    for cluster in problem.clusters:
        parts = Counter[int]()
        for pipeline in plan.pipelines:
            share = pipeline.share
            parts.update(() if share is None else share.nodes.get(cluster.name, ()))
        whole = Counter(dict(cluster.sizes))
        nodes = (parts & whole).total()
        nodes += -(-(parts - whole).total() // 2)
        if nodes:
            found[cluster.name] = nodes
    return found
