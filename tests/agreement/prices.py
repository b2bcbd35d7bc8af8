"""Nodes chosen by their prices, against brute force on every choice of nodes."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from math import inf
from random import Random
from typing import TYPE_CHECKING

from hetopt.check import check_result
from hetopt.cost.build import build_table
from hetopt.planning.posed import search
from hetopt.results.spending import Spending
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from hetopt.solvers.search.over import Over
from tests.oracle import brute_force

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Objective, Result


def _choices(problem: Problem) -> list[tuple[float, float]] | None:
    """Return price per hour and least time of every choice of nodes with a plan.

    None if a choice is slower than one that it contains, or has no plan where that has
    one: coefficients, as the memory that a strategy needs, may depend on the nodes
    that a cluster has, and a search takes those of the whole cluster.
    """
    found = []
    least: dict[tuple[int, ...], float] = {}
    for nodes in product(*(range(own.nodes + 1) for own in problem.clusters)):
        pairs = zip(problem.clusters, nodes, strict=True)
        clusters = tuple(replace(own, nodes=count) for own, count in pairs if count)
        if not clusters:
            continue
        fewer = replace(problem, clusters=clusters)
        best = brute_force.solve(fewer, build_table(fewer)).best
        least[nodes] = inf
        if best is not None:
            price = sum(own.nodes * (own.price_per_hour or 0) for own in clusters)
            found.append((price, float(best.closed_form_ns) * 1e-9))
            least[nodes] = found[-1][1]
    for more, fewer_nodes in product(least, repeat=2):
        contained = all(a <= b for a, b in zip(fewer_nodes, more, strict=True))
        if contained and least[fewer_nodes] < least[more] * (1 - 1e-9):
            return None
    return found


def bought(problem: Problem, table: CostTable, seed: int) -> Iterator[str]:
    """Yield what is wrong with the quickest plan within a budget, and the cheapest."""
    known, rng = _choices(problem), Random(seed)
    if known is None:
        return
    prices = sorted({price for price, _ in known if price}) or [1.0]
    budget = rng.choice(prices) * rng.choice((1, 1, 0.9, 1.1))
    slowest = rng.choice([time_s for _, time_s in known] or [1.0]) * 1.01
    within = [time_s for price, time_s in known if price <= budget]
    costs = [price * time_s for price, time_s in known if time_s <= slowest]
    least = Spending(min_tokens_per_s=table.tokens / slowest)
    cases: tuple[tuple[Objective, Over, list[float]], ...] = (
        ("closed", Over(spending=Spending(budget=budget)), within),
        ("cost", Over(spending=least, measure="cost"), costs),
    )
    for aim, over, values in cases:
        request = Request(problem=problem, table=table, params=RaceParams(jobs=0))
        result = search(request, solver="dp", objective="closed", over=over)
        data = json.loads(json.dumps(result.to_json()))
        yield from (f"prices: {each}" for each in check_result(problem, table, data))
        expected = min(values, default=None)
        found = _value(result, aim)
        same = found is None if expected is None else found is not None
        if found is not None and expected is not None:
            same = abs(found - expected) <= 1e-9 * max(expected, 1e-6)
        if not same or result.status not in ("optimal", "infeasible"):
            yield f"prices: {aim} {found}, expected {expected}; {result.status}"


def _value(result: Result, objective: Objective) -> float | None:
    if result.best is None:
        return None
    per_hour = None if result.cost is None else result.cost.per_hour
    price = 1.0 if objective == "closed" else per_hour or 0.0
    return price * result.best.closed_form_s
