"""Check what a result claims about costs of renting."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hetopt.check.plan.packing import part_of
from hetopt.check.plan.reading import items, mapping, number, whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hetopt.plans.plan import Plan
    from hetopt.plans.strategy import Strategy
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.problem import Problem

#: Relative difference up to which two numbers count as equal.
_TOLERANCE = 1e-9


def cost_findings(
    problem: Problem, plan: Plan, iteration_time_s: float, data: Mapping[str, Any]
) -> Iterator[str]:
    """Yield one line for every claim about cost that does not hold.

    Parameters
    ----------
    iteration_time_s
        The simulated time.
    data
        The value of the result's ``cost``.
    """
    claimed = mapping(data.get("nodes"), "cost.nodes")
    nodes = {name: whole(claimed, name, "cost.nodes") for name in claimed}
    unpriced = [name for _, name in items(data, "unpriced", "cost")]
    expected = nodes_of(problem, plan)
    if nodes != expected:
        yield f"cost.nodes: {nodes}, expected {expected}"
    prices = {each.name: each.price_per_hour for each in problem.clusters}
    missing = [name for name in expected if prices[name] is None]
    if unpriced != missing:
        yield f"cost.unpriced: {unpriced}, expected {missing}"
    known = [(prices[name], count) for name, count in expected.items()]
    per_hour = sum(price * count for price, count in known if price is not None)
    per_second = per_hour / 3600
    tokens = sum(s * n for s, n in problem.training.sequences.items())
    for key, value in (
        ("per_hour", per_hour),
        ("per_iteration", per_second * iteration_time_s),
        ("per_trillion_tokens", per_second * iteration_time_s / tokens * 1e12),
    ):
        said = number(data, key, "cost")
        if missing:
            if said is not None:
                yield f"cost.{key}: {said}, but {missing[0]} has no price"
        elif said is None or abs(said - value) > _TOLERANCE * value:
            yield f"cost.{key}: {said}, expected {value!r}"


def nodes_of(problem: Problem, plan: Plan) -> dict[str, int]:
    """Return the nodes to rent by cluster; of clusters that the plan uses."""
    nodes = {}
    for cluster in problem.clusters:
        shares = [each.share for each in plan.pipelines if each.share is not None]
        if shares:
            # A pipeline has all nodes of its share; a smaller part is half a node.
            parts = [x for share in shares for x in share.nodes.get(cluster.name, ())]
            there = dict(cluster.sizes)
            halves = sum(
                max(0, parts.count(size) - there.get(size, 0)) for size in {*parts}
            )
            if parts:
                nodes[cluster.name] = len(parts) - halves + math.ceil(halves / 2)
            continue
        stages = Counter(
            stage.strategy
            for pipeline in plan.pipelines
            for stage in pipeline.stages
            if stage.cluster == cluster.name
        )
        if stages:
            nodes[cluster.name] = _nodes(cluster, stages)
    return nodes


def _nodes(cluster: Cluster, stages: Counter[Strategy]) -> int:
    largest = cluster.devices_per_node
    inner: Counter[int] = Counter()
    wanted: Counter[int] = Counter()
    for strategy, times in stages.items():
        if strategy.devices <= largest:
            inner[strategy.devices] += times
        else:
            part = part_of(cluster, strategy)
            wanted[part] += math.ceil(Fraction(strategy.devices, part)) * times
    count = wanted.total()
    if cluster.unequal is not None:
        return _of_unequal(Counter(cluster.unequal), wanted, inner)
    if len(inner) > 1:
        # Several sizes: add up shares of nodes and round up.
        return count + math.ceil(
            sum(Fraction(own, largest) * inner[own] for own in inner)
        )
    for own, times in inner.items():
        count += math.ceil(Fraction(times, largest // own))
    return count


def _of_unequal(free: Counter[int], wanted: Counter[int], inner: Counter[int]) -> int:
    """Count unequal nodes: filled one after the other, the largest first.

    Parameters
    ----------
    wanted
        Number of nodes in which a stage of several nodes takes a part, by its devices.
    inner
        Number of stages inside one node by their devices.
    """
    there_are, left = free.total(), +inner
    for part in sorted(wanted, reverse=True):
        for size in sorted(free):
            taken = min(wanted[part], free[size]) if size >= part else 0
            free[size] -= taken
            wanted[part] -= taken
    used = there_are - free.total()
    for room in sorted(free.elements(), reverse=True):
        before = left.total()
        for own in sorted(left, reverse=True):
            put = min(left[own], room // own)
            left[own] -= put
            room -= own * put
        used += left.total() < before
    return there_are if wanted.total() + left.total() else used
