"""Drawn links: with capacities, costs of nodes, connections and messages, or none.

Boundaries of a drawn instance become what the cost model makes of drawn links, and
clusters may have an uplink that its boundaries share.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from hetopt.cost.boundaries.resharding import permitted_strategies
from hetopt.cost.boundaries.slices import table_slices
from hetopt.problem.cluster.links import ClusterLink, ClusterLinks
from hetopt.problem.digest import problem_digest
from hetopt.problem.training.pins import Domain

if TYPE_CHECKING:
    from random import Random

    from hetopt.problem.problem import Problem
    from tests.oracle.instances import Instance

#: Shares of the cases that are drawn.
_NONE, _LIMIT, _UPLINK = 0.25, 0.5, 0.3
#: Exponents of the bytes per second of uplinks.
_RATES = (7.0, 9.0)


def draw_link(rng: Random, missing: float = _NONE) -> ClusterLink | None:
    """Return none, or one whose transfers take about as long as drawn units."""
    if rng.random() < missing:
        return None

    def rate() -> float | None:
        return 10 ** rng.uniform(6.5, 9.5) if rng.random() < _LIMIT else None

    return ClusterLink(
        latency_s=10 ** rng.uniform(-6, -3),
        capacity_bytes_per_s=rate(),
        node_bytes_per_s=rate(),
        connection_bytes_per_s=rate(),
        message_s=10 ** rng.uniform(-5, -3) if rng.random() < _LIMIT else 0.0,
        staged=rng.choice(("host", "device")),
    )


def with_uplinks(
    problem: Problem,
    rng: Random,
    share: float,
    rates: tuple[float, float] = _RATES,
) -> Problem:
    """Return it with uplinks of this share of its clusters, and without the others.

    ``rates``: the least and the largest, as exponents of bytes per second.
    """
    clusters = tuple(
        replace(
            each,
            uplink_bytes_per_s=10 ** rng.uniform(*rates)
            if rng.random() < share
            else None,
        )
        for each in problem.clusters
    )
    return replace(problem, clusters=clusters)


def with_links(problem: Problem, rng: Random) -> Problem:
    names = [cluster.name for cluster in problem.clusters]
    problem = with_uplinks(problem, rng, _UPLINK)
    pairs = {frozenset(pair): draw_link(rng) for pair in combinations(names, 2)}
    return replace(problem, links=ClusterLinks(default=draw_link(rng), pairs=pairs))


def with_a_middle(
    problem: Problem, rng: Random, rates: tuple[float, float] = _RATES
) -> Problem:
    """Return it with no link missing and every cluster used, so that one is between."""
    problem = with_uplinks(problem, rng, 1, rates)
    names = [cluster.name for cluster in problem.clusters]
    pairs = {
        frozenset(pair): draw_link(rng, missing=0) for pair in combinations(names, 2)
    }
    own = {
        name: replace(problem.pins.of(name), stages=Domain(allowed=frozenset({1, 2})))
        for name in names
    }
    pins = replace(problem.pins, clusters=own, stages=Domain(), order=None)
    links = ClusterLinks(default=draw_link(rng), pairs=pairs)
    return replace(problem, links=links, pins=replace(pins, forbidden_next=frozenset()))


def crossing(drawn: Instance, problem: Problem) -> Instance:
    """The drawn instance with what a problem's links make of its boundaries."""
    table = drawn.table
    slices = table_slices(
        problem,
        {part.microbatches: part.clusters for part in table.slices},
        table.cut_classes,
        permitted_strategies(problem.pins.resharding),
    )
    table = replace(table, slices=tuple(slices), problem_digest=problem_digest(problem))
    return replace(drawn, problem=problem, table=table)
