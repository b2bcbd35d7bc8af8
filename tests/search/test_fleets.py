"""Nodes chosen by their prices, against every choice of nodes planned by itself."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import hetopt
from hetopt.cost.build import build_table
from hetopt.errors import InputError
from hetopt.problem.reading import read_problem_text
from hetopt.results.spending import Spending
from hetopt.solvers.search.branchings.fleets import Fleets
from hetopt.solvers.search.node import Leaf
from hetopt.solvers.search.over import Over
from hetopt.solvers.search.space import Space
from tests.search.asking import AT_ONCE_S, found, front_of, request_of

if TYPE_CHECKING:
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Objective, Result

DEVICES = ("A100-80GB", "A40", "H100")
#: Share of the instances whose simulated times are minimised.
SIMULATED = 0.25
#: All fleets, at least time, at least cost, and as the front of both.
FRONT = Over(spending=Spending(), measure="front")
COST = Over(spending=Spending(), measure="cost")


def within(budget: float) -> Over:
    return Over(spending=Spending(budget=budget))


def drawn(rng: Random) -> dict[str, Any]:
    """Return a problem of two or three small clusters with prices."""
    names = ("red", "green", "blue")[: rng.randint(2, 3)]
    return {
        "model": {"layers": 4, "hidden": 512, "heads": 4, "ffn": 2048, "vocab": 32000},
        "clusters": [
            {
                "name": name,
                "accelerator": rng.choice(DEVICES),
                # Little enough that some choices have no plan.
                "memory": f"{rng.choice((0.5, 1, 40))} GB",
                "nodes": rng.randint(1, 4 - len(names)),
                "overhead": "0 GB",
                "devices_per_node": rng.choice((1, 2, 4)),
                "inter_node": {"bandwidth": f"{rng.choice((10, 100))} Gbps"},
                "price_per_hour": rng.choice((0, 3, 4, 12.5, 40)),
            }
            for name in names
        ],
        "links": {"default": {"bandwidth": "10 Gbps", "latency": "1 ms"}},
        "training": {
            "global_batch": 4,
            "seq_len": 1024,
            "precision": "fp16",
            "schedule": rng.choice(("1f1b", "virtual-1f1b", "gpipe")),
        },
    }


def problem_of(data: dict[str, Any]) -> Problem:
    return read_problem_text(yaml.safe_dump(data))


def alone(data: dict[str, Any], objective: Objective) -> list[tuple[float, float]]:
    """Return price and least time of every choice of nodes that has a plan."""
    known = []
    for nodes in product(*(range(each["nodes"] + 1) for each in data["clusters"])):
        clusters = [
            {**each, "nodes": count}
            for each, count in zip(data["clusters"], nodes, strict=True)
            if count
        ]
        if not clusters:
            continue
        request = request_of(problem_of({**data, "clusters": clusters}))
        best = found(request, Over(), objective).best
        if best is not None:
            price = sum(x["nodes"] * x["price_per_hour"] for x in clusters)
            known.append((price, best.time_s(objective)))
    return sorted(known)


@pytest.mark.quick_seeds(0)
@pytest.mark.parametrize("seed", range(50))
def test_plans_are_the_best_of_all_choices_of_nodes(seed: int) -> None:
    rng = Random(seed)
    data = drawn(rng)
    objective: Objective = "simulated" if rng.random() < SIMULATED else "closed"
    known = alone(data, objective)
    expected: list[tuple[float, float]] = []
    for price, time_s in known:
        if not expected or time_s < expected[-1][1]:
            expected.append((price, time_s))
    request = request_of(problem_of(data))
    front = front_of(request, FRONT, objective)
    assert front.status == ("optimal" if expected else "infeasible")
    assert [each.cost.per_hour for each in front.points] == [x for x, _ in expected]
    times = [front.time_s(each) for each in front.points]
    assert times == pytest.approx([time_s for _, time_s in expected], rel=1e-12)
    cheapest = found(request, COST, objective)
    budget = rng.choice([price for price, _ in known] or [10.0]) or 1.0
    quickest = found(request, within(budget), objective)
    if not known:
        assert (cheapest.status, quickest.status) == ("infeasible", "infeasible")
        return
    assert cheapest.status == "optimal"
    assert cheapest.best is not None
    value = per_hour(cheapest) * cheapest.best.time_s(objective)
    assert value == pytest.approx(min(x * time_s for x, time_s in known), rel=1e-12)
    affordable = [time_s for price, time_s in known if price <= budget]
    assert quickest.status == ("optimal" if affordable else "infeasible")
    if quickest.best is not None:
        assert per_hour(quickest) <= budget
        time_s = quickest.best.time_s(objective)
        assert time_s == pytest.approx(min(affordable), rel=1e-12)


def per_hour(result: Result) -> float:
    """Return the price of the nodes of a result's plan."""
    assert result.cost is not None
    assert result.cost.per_hour is not None
    return result.cost.per_hour


def fleets_of(problem: Problem) -> tuple[Space, Fleets]:
    """Return a problem, and its fleets, none of which is searched."""

    def below(space: Space) -> Leaf:
        raise AssertionError

    space = Space.of(problem, build_table(problem))
    return space, Fleets(space, below, Spending(), "time")


def test_tables_of_fewer_nodes_are_those_of_smaller_problems() -> None:
    data = drawn(Random(3))
    data["clusters"][0]["nodes"] = 3
    whole, fleets = fleets_of(problem_of(data))
    for nodes in fleets.nodes.tolist():
        if not all(nodes):
            continue
        own = whole.rented(nodes)
        built = build_table(own.problem)
        assert [each.nodes for each in own.problem.clusters] == nodes
        assert own.table.cluster_devices == built.cluster_devices
        for mine, theirs in zip(own.table.slices, built.slices, strict=True):
            for one, other in zip(mine.clusters, theirs.clusters, strict=True):
                assert one.strategies == other.strategies
                assert one.max_stages.tolist() == other.max_stages.tolist()
                assert one.forward_ns.tolist() == other.forward_ns.tolist()
                assert one.state_bytes.tolist() == other.state_bytes.tolist()


def test_a_search_that_is_cut_short_says_what_is_open() -> None:
    front = front_of(request_of(problem_of(drawn(Random(0))), AT_ONCE_S), FRONT)
    assert front.status == "feasible"
    assert front.open
    assert front.spent is not None
    assert front.spent.searched == 1


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("aim", ["closed", "simulated", "cost"])
@pytest.mark.parametrize("seed", range(4))
def test_without_time_there_is_a_bound(seed: int, aim: str) -> None:
    data = drawn(Random(seed))
    for own in data["clusters"]:
        own["price_per_hour"] = own["price_per_hour"] or 1
    problem = problem_of(data)
    over = within(sum(each["price_per_hour"] for each in data["clusters"]))
    objective: Objective = "simulated" if aim == "simulated" else "closed"
    if aim == "cost":
        over = COST
    best = found(request_of(problem), over, objective)
    late = found(request_of(problem, AT_ONCE_S), over, objective)
    if best.best is not None:
        assert 0 < bound_of(late) <= bound_of(best)


def bound_of(result: Result) -> float:
    if result.objective == "cost":
        # Of a search that ended without a plan nothing is said.
        return result.lower_cost or 1e-99
    assert result.lower_bound_s is not None
    return result.lower_bound_s


def test_bounds_lie_below_the_times_of_plans() -> None:
    whole, fleets = fleets_of(problem_of(drawn(Random(5))))
    for nodes, bound_s in zip(fleets.nodes, fleets.known.bound, strict=True):
        own = whole.rented(nodes.tolist())
        request = request_of(own.problem)
        best = found(request, Over(), "simulated").best
        if best is not None:
            assert bound_s <= best.iteration_time_s
            assert bound_s <= best.closed_form_s


def test_transfers_may_block_on_nodes_that_share_no_uplink() -> None:
    """Of the three clusters one is in the middle, and sends both ways by its uplink."""
    problem = read_problem_text(
        """
model: {layers: 4, hidden: 1024, heads: 4, ffn: 2048, vocab: 32000}
clusters:
  - {name: a, accelerator: H100, nodes: 1, devices_per_node: 1, price_per_hour: 2,
     inter_node: {bandwidth: 100 Gbps}, uplink: 10 Gbps}
  - {name: b, accelerator: H100, nodes: 1, devices_per_node: 1, price_per_hour: 2,
     inter_node: {bandwidth: 100 Gbps}, uplink: 10 Gbps}
  - {name: c, accelerator: H100, nodes: 1, devices_per_node: 1, price_per_hour: 2,
     inter_node: {bandwidth: 100 Gbps}, uplink: 10 Gbps}
links: {default: {bandwidth: 100 Gbps, latency: 1 us}}
training: {global_batch: 8, seq_len: 1024, schedule: 1f1b-blocking}
"""
    )
    with pytest.raises(InputError, match="boundaries that share a link or an uplink"):
        found(request_of(problem), Over())
    assert found(request_of(problem), within(6)).status == "feasible"
    assert found(request_of(problem), within(4)).status == "optimal"


def test_prices_of_all_clusters_are_needed() -> None:
    data = drawn(Random(1))
    del data["clusters"][1]["price_per_hour"]
    problem = problem_of(data)
    with pytest.raises(InputError) as caught:
        hetopt.plan(problem, budget=5)
    assert caught.value.field == "clusters.green.price_per_hour"


def test_fleets_that_are_too_many_are_refused() -> None:
    data = drawn(Random(1))
    for cluster in data["clusters"]:
        cluster["nodes"] = 2000
    with pytest.raises(
        InputError, match="choices of nodes, expected at most 1,000,000"
    ):
        hetopt.plan(problem_of(data), objective="cost", time_limit_s=5)
