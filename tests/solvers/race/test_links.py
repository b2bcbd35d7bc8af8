"""Links as they are: exact solvers, brute force and the checker agree.

Instances are drawn as elsewhere, but their boundaries are what the cost model makes of
drawn links: with a capacity, with what nodes, connections and messages cost, or none;
and clusters may have an uplink that its boundaries share.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import combinations
from random import Random

import pytest

from hetopt.base.deadline import Deadline
from hetopt.check import check_result
from hetopt.cost.boundaries.places import searched_table
from hetopt.cost.boundaries.resharding import permitted_strategies
from hetopt.cost.boundaries.slices import table_slices
from hetopt.cost.table.slice import TableSlice
from hetopt.errors import CheckError
from hetopt.problem.cluster.cluster import ClusterLink, ClusterLinks
from hetopt.problem.digest import problem_digest
from hetopt.problem.problem import Problem
from hetopt.problem.training.choices import INTERLEAVED, ScheduleName
from hetopt.problem.training.pins import Domain
from hetopt.problem.training.principles import PRUNED, Principles, Relaxable
from hetopt.results.result import Result
from hetopt.solvers.loading import load, sharing_links
from hetopt.solvers.params import RaceParams
from hetopt.solvers.registry import SOLVERS
from hetopt.solvers.request import Request
from tests.oracle import brute_force
from tests.oracle.brute_force import Answer, Found
from tests.oracle.instances import Instance, make_apart, make_instance
from tests.solvers.race.agreeing import ensure_best

SEEDS = range(300)
#: Some of them, one on the quick run.
SOME = [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(7, 60, 6))]
TICK = Fraction(1, 10**9)
#: Shares of the cases that are drawn.
_NONE, _LIMIT, _UPLINK = 0.25, 0.5, 0.3


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


def with_uplinks(problem: Problem, rng: Random, share: float) -> Problem:
    clusters = tuple(
        replace(each, uplink_bytes_per_s=10 ** rng.uniform(7, 9))
        if rng.random() < share
        else each
        for each in problem.clusters
    )
    return replace(problem, clusters=clusters)


def with_links(problem: Problem, rng: Random) -> Problem:
    names = [cluster.name for cluster in problem.clusters]
    problem = with_uplinks(problem, rng, _UPLINK)
    pairs = {frozenset(pair): draw_link(rng) for pair in combinations(names, 2)}
    return replace(problem, links=ClusterLinks(default=draw_link(rng), pairs=pairs))


def with_a_middle(problem: Problem, rng: Random) -> Problem:
    """Return it with no link missing and every cluster used, so that one is between."""
    problem = with_uplinks(problem, rng, share=1)
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


def linked(seed: int) -> Instance:
    """An instance of two or three clusters whose boundaries cross drawn links."""
    drawn = make_instance(seed, clusters=2 + (seed % 3 > 0))
    rng = Random(f"links {seed}")
    problem = with_links(drawn.problem, rng)
    if seed % 3 == 1:
        problem = with_a_middle(problem, rng)
    return crossing(drawn, problem)


def crossing(drawn: Instance, problem: Problem) -> Instance:
    """The drawn instance with what a problem's links make of its boundaries."""
    table = drawn.table
    slices = table_slices(
        problem,
        {part.microbatches: part.clusters for part in table.slices},
        table.cut_classes,
        permitted_strategies(problem.pins.resharding),
    )
    slices = [
        replace(
            made if old.pairs is None else _of_both_chunks(made),
            chunks=old.chunks,
            way_back=old.way_back,
            pairs=old.pairs,
        )
        for made, old in zip(slices, table.slices, strict=True)
    ]
    table = replace(table, slices=tuple(slices), problem_digest=problem_digest(problem))
    return replace(drawn, problem=problem, table=table)


def _of_both_chunks(part: TableSlice) -> TableSlice:
    """Return a slice whose boundaries carry the tensors of two chunks."""
    shared = part.shared
    if shared is not None:
        shared = replace(
            shared, uplink_ns=2 * shared.uplink_ns, link_ns=2 * shared.link_ns
        )
    return replace(
        part,
        transfer_ns=2 * part.transfer_ns,
        occupancy_ns=2 * part.occupancy_ns,
        tied_ns=None,
        shared=shared,
    )


def linked_as(seed: int, kind: ScheduleName) -> Instance:
    """As ``linked``, for another schedule and with little need of memory."""
    drawn = make_apart(seed, kind)
    rng = Random(f"links {seed}")
    problem = with_links(drawn.problem, rng)
    if seed % 2:
        problem = with_a_middle(problem, rng)
    return crossing(drawn, problem)


def at_rate(seed: int, bytes_per_s: float) -> Instance:
    """An instance whose clusters are all joined at so much per node, and all used."""
    drawn = make_instance(seed, clusters=2 + seed % 2, pinned=False)
    problem = drawn.problem
    assert problem.links.default is not None
    link = replace(
        problem.links.default,
        connection_bytes_per_s=None,
        node_bytes_per_s=bytes_per_s,
    )
    problem = with_a_middle(problem, Random(seed))
    clusters = tuple(
        replace(each, uplink_bytes_per_s=None) for each in problem.clusters
    )
    links = ClusterLinks(default=link)
    return crossing(drawn, replace(problem, clusters=clusters, links=links))


@cache
def answered(seed: int) -> tuple[Instance, Answer]:
    instance = linked(seed)
    return instance, brute_force.solve(instance.problem, instance.table)


@pytest.mark.parametrize("seed", SEEDS)
def test_solvers_agree_with_brute_force(seed: int) -> None:
    instance, answer = answered(seed)
    problem, table = instance.problem, instance.table
    best = answer.best
    for name in ("dp", "cp-sat", "milp"):
        result = load(name)(
            Request(
                problem=problem,
                table=table,
                params=RaceParams(jobs=0),
                deadline=Deadline.after(60),
            )
        )
        if best is None:
            assert result.status == "infeasible", name
        else:
            assert result.status == "optimal", name
            assert result.best is not None
            exact = float(best.closed_form_ns * TICK)
            assert result.best.closed_form_s == pytest.approx(exact, rel=1e-12)
            assert result.best.plan == brute_force.to_plan(problem, table, best)
        data = json.loads(json.dumps(result.to_json()))
        assert check_result(problem, table, data) == []


@pytest.mark.parametrize("kind", ["zb-v", "zb-h1", INTERLEAVED])
@pytest.mark.parametrize(
    "seed",
    [*range(3), *(pytest.param(n, marks=pytest.mark.slow) for n in range(3, 99))],
)
def test_stages_of_several_passes_share_too(seed: int, kind: ScheduleName) -> None:
    instance = linked_as(seed, kind)
    problem, table = instance.problem, instance.table
    # Of several chunks, each boundary counts as if the way back were on its link.
    counted = searched_table(table, PRUNED) if kind == INTERLEAVED else table
    best = brute_force.solve(problem, counted).best
    for name in ("dp", "cp-sat"):
        result = load(name)(
            Request(
                problem=problem,
                table=table,
                params=RaceParams(jobs=0),
                deadline=Deadline.after(60),
            )
        )
        if best is None:
            assert result.status == "infeasible", name
            continue
        assert result.status == "optimal", name
        assert result.best is not None
        exact = float(best.closed_form_ns * TICK)
        assert result.best.closed_form_s == pytest.approx(exact, rel=1e-12)
        assert check_result(problem, table, result.to_json()) == []


@pytest.mark.parametrize("seed", range(20))
def test_optima_follow_the_rate_of_a_node(seed: int) -> None:
    slow, fast = (ensure_best("dp", at_rate(seed, rate)) for rate in (1e7, 4e7))
    assert (slow is None) == (fast is None)
    if slow is not None and fast is not None:
        assert slow > fast


@pytest.mark.quick_seeds(2)
@pytest.mark.parametrize("seed", [*range(1, 120, 6)])
def test_bounds_hold_where_clusters_are_visited_again(seed: int) -> None:
    instance = linked(seed)
    problem, table = instance.problem, instance.table
    principles = Principles.relaxing(["p3"])
    best = brute_force.solve(problem, table, principles).best
    result = load("dp")(
        Request(
            problem=problem,
            table=table,
            params=RaceParams(jobs=0, principles=principles),
            deadline=Deadline.after(60),
        )
    )
    assert check_result(problem, table, result.to_json()) == []
    if best is None:
        assert result.status == "infeasible"
        return
    exact = float(best.closed_form_ns * TICK)
    assert result.best is not None
    assert result.lower_bound_s is not None
    assert result.lower_bound_s <= exact * (1 + 1e-12)
    assert result.best.closed_form_s >= exact * (1 - 1e-12)
    if result.status == "optimal":
        assert result.best.closed_form_s == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("seed", SOME)
def test_the_next_best_plans_share_too(seed: int) -> None:
    instance, answer = answered(seed)
    result = load("dp")(
        Request(
            problem=instance.problem,
            table=instance.table,
            params=RaceParams(jobs=0, top=3),
            deadline=Deadline.after(60),
        )
    )
    plans = [] if result.best is None else [result.best, *result.alternatives]
    expected = [float(found.closed_form_ns * TICK) for found in answer.shapes[:3]]
    assert [each.closed_form_s for each in plans] == pytest.approx(expected, rel=1e-9)
    assert check_result(instance.problem, instance.table, result.to_json()) == []


@pytest.mark.parametrize("relaxed", ["p4", "p4-falling-tp"])
@pytest.mark.parametrize("seed", SOME)
def test_clusters_of_several_strategies_share_too(
    seed: int, relaxed: Relaxable
) -> None:
    instance = linked(seed)
    principles = Principles.relaxing([relaxed])
    best = brute_force.solve(instance.problem, instance.table, principles).best
    result = load("dp")(
        Request(
            problem=instance.problem,
            table=instance.table,
            params=RaceParams(jobs=0, principles=principles),
            deadline=Deadline.after(60),
        )
    )
    if best is None:
        assert result.status == "infeasible"
        return
    assert result.best is not None
    assert result.status == "optimal"
    exact = float(best.closed_form_ns * TICK)
    assert result.best.closed_form_s == pytest.approx(exact, rel=1e-9)


def test_a_wrong_time_is_found_out_before_it_is_replaced() -> None:
    instance = linked(1)
    dp = load("dp")

    def boast(request: Request) -> Result:
        result = SOLVERS["dp"].load()(request)
        assert result.best is not None
        return replace(result, best=replace(result.best, closed_form_s=1e-9))

    request = Request(
        problem=instance.problem, table=instance.table, params=RaceParams(jobs=0)
    )
    assert dp(request).best is not None
    with pytest.raises(CheckError, match="the time of a plan differs"):
        sharing_links(boast, request, objective="closed", exact=True)


def shares(instance: Instance, found: Found) -> bool:
    """Whether boundaries of a plan meet on an uplink."""
    _, q, order, _, _ = found.shape
    shared = instance.table.at(q).shared
    return shared is not None and any(shared.uplink_ns[j] for j in order[1:-1])


@pytest.mark.slow
def test_the_drawn_links_are_of_all_kinds() -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        instance, answer = answered(seed)
        links = instance.problem.links.pairs.values()
        seen["none"] += any(link is None for link in links)
        for link in links:
            if link is not None:
                seen["capacity"] += link.capacity_bytes_per_s is not None
                seen["node"] += link.node_bytes_per_s is not None
                seen["message"] += link.message_s > 0
        if answer.best is not None:
            seen["crossing"] += len(answer.best.shape[2]) > 1
            seen["alone"] += len(answer.best.shape[2]) == 1
            seen["shared"] += shares(instance, answer.best)
    assert min(seen[key] for key in ("none", "capacity", "node", "message")) > 50
    assert seen["crossing"] > 50
    assert seen["alone"] > 20
    assert seen["shared"] > 15
