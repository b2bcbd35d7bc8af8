"""Nodes chosen by their prices, against every choice of nodes planned by itself."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any, Literal

import jsonschema
import pytest
import yaml

import hetopt
from hetopt.base.deadline import Deadline
from hetopt.check import check_result
from hetopt.check.claims.front import check_front
from hetopt.cost.build import build_table
from hetopt.errors import InputError
from hetopt.planning.plan import search, search_front
from hetopt.problem.reading import read_problem_text
from hetopt.report.schemas.reports import FRONT
from hetopt.report.schemas.result import RESULT
from hetopt.results.spending import Spending
from hetopt.solvers.fleets.fleets import Fleets
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request

if TYPE_CHECKING:
    from hetopt.problem.problem import Problem
    from hetopt.results.front import Front
    from hetopt.results.result import Objective, Result

Time = Literal["closed", "simulated"]
DEVICES = ("A100-80GB", "A40", "H100")
#: Share of the instances whose simulated times are minimised.
SIMULATED = 0.25


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


def alone(data: dict[str, Any], objective: Time) -> list[tuple[float, float]]:
    """Return price and least time of every choice of nodes that has a plan."""
    found = []
    for nodes in product(*(range(each["nodes"] + 1) for each in data["clusters"])):
        clusters = [
            {**each, "nodes": count}
            for each, count in zip(data["clusters"], nodes, strict=True)
            if count
        ]
        if not clusters:
            continue
        problem = problem_of({**data, "clusters": clusters})
        best = hetopt.plan(problem, objective=objective, solver="dp", jobs=1).best
        if best is not None:
            simulated = objective == "simulated"
            time_s = best.iteration_time_s if simulated else best.closed_form_s
            price = sum(x["nodes"] * x["price_per_hour"] for x in clusters)
            found.append((price, time_s))
    return found


def request_of(problem: Problem, deadline: Deadline | None = None) -> Request:
    return Request(
        problem=problem,
        table=build_table(problem),
        params=RaceParams(jobs=1),
        deadline=deadline or Deadline(),
    )


def planned(
    problem: Problem,
    objective: Objective,
    spending: Spending,
    deadline: Deadline | None = None,
) -> tuple[Result, list[str]]:
    """Return a result that is checked, and what the checker said of it."""
    request = request_of(problem, deadline)
    result = search(request, solver="dp", objective=objective, spending=spending)
    data = json.loads(json.dumps(result.to_json()))
    jsonschema.validate(data, RESULT)
    return result, check_result(problem, request.table, data)


def front_of(
    problem: Problem, objective: Objective, deadline: Deadline | None = None
) -> tuple[Front, list[str]]:
    request = request_of(problem, deadline)
    front = search_front(request, solver="dp", objective=objective, spending=Spending())
    data = json.loads(json.dumps(front.to_json()))
    jsonschema.validate(data, FRONT)
    return front, check_front(problem, request.table, data)


def per_hour(result: Result) -> float:
    """Return the price of the nodes of a result's plan."""
    assert result.cost is not None
    assert result.cost.per_hour is not None
    return result.cost.per_hour


def close(found: float, expected: float) -> bool:
    return found == pytest.approx(expected, rel=1e-12)


@pytest.mark.quick_seeds(0)
@pytest.mark.parametrize("seed", range(50))
def test_the_front_is_that_of_all_choices_of_nodes(seed: int) -> None:
    rng = Random(seed)
    data = drawn(rng)
    objective: Time = "simulated" if rng.random() < SIMULATED else "closed"
    expected: list[tuple[float, float]] = []
    for price, time_s in sorted(alone(data, objective)):
        if not expected or time_s < expected[-1][1]:
            expected.append((price, time_s))
    front, wrong = front_of(problem_of(data), objective)
    assert wrong == []
    assert front.status == ("optimal" if expected else "infeasible")
    times = [
        each.best.iteration_time_s
        if objective == "simulated"
        else each.best.closed_form_s
        for each in front.points
    ]
    assert [each.cost.per_hour for each in front.points] == [x for x, _ in expected]
    assert times == pytest.approx([time_s for _, time_s in expected], rel=1e-12)


def test_tables_of_fewer_nodes_are_those_of_smaller_problems() -> None:
    data = drawn(Random(3))
    data["clusters"][0]["nodes"] = 3
    problem = problem_of(data)
    fleets = Fleets(problem, build_table(problem))
    for index, nodes in enumerate(fleets.nodes.tolist()):
        if not all(nodes):
            continue
        own, table = fleets.rented(index)
        built = build_table(own)
        assert [each.nodes for each in own.clusters] == nodes
        assert table.cluster_devices == built.cluster_devices
        for mine, theirs in zip(table.slices, built.slices, strict=True):
            for one, other in zip(mine.clusters, theirs.clusters, strict=True):
                assert one.strategies == other.strategies
                assert one.max_stages.tolist() == other.max_stages.tolist()
                assert one.forward_ns.tolist() == other.forward_ns.tolist()
                assert one.state_bytes.tolist() == other.state_bytes.tolist()


def test_a_search_that_is_cut_short_says_what_is_open() -> None:
    problem = problem_of(drawn(Random(0)))
    front, wrong = front_of(problem, "closed", Deadline.after(1e-9))
    assert wrong == []
    assert front.status == "feasible"
    assert front.open
    assert len(front.spent.fleets) == 1


@pytest.mark.parametrize("objective", ["closed", "simulated", "cost"])
@pytest.mark.parametrize("seed", range(4))
def test_without_time_there_is_a_bound(seed: int, objective: Objective) -> None:
    data = drawn(Random(seed))
    for own in data["clusters"]:
        own["price_per_hour"] = own["price_per_hour"] or 1
    problem = problem_of(data)
    budget = sum(each["price_per_hour"] for each in data["clusters"])
    spending = Spending(budget=None if objective == "cost" else budget)
    best, wrong = planned(problem, objective, spending)
    late, late_wrong = planned(problem, objective, spending, Deadline.after(1e-9))
    assert wrong == late_wrong == []
    if best.best is not None:
        assert 0 < bound_of(late) <= bound_of(best)


def bound_of(result: Result) -> float:
    if result.objective != "cost":
        assert result.lower_bound_s is not None
        return result.lower_bound_s
    assert result.spent is not None
    # Of a search that ended without a plan nothing is said.
    return result.spent.lower_bound or 1e-99


def test_bounds_lie_below_the_times_of_plans() -> None:
    problem = problem_of(drawn(Random(5)))
    request = request_of(problem)
    fleets = Fleets(problem, request.table)
    for index, bound_s in enumerate(fleets.bound_s.tolist()):
        own, table = fleets.rented(index)
        part = replace(request, problem=own, table=table)
        best = search(part, solver="dp", objective="simulated").best
        if best is not None:
            assert bound_s <= best.iteration_time_s
            assert bound_s <= best.closed_form_s


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
