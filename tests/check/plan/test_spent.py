"""What the checker says of results and fronts in which prices decide."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hetopt.check import check_result
from hetopt.check.plan.plan import check_plan
from hetopt.check.plan.spent import Spending as Claimed
from hetopt.check.plan.spent import check_front
from hetopt.cost.build import build_table
from hetopt.errors import InputError
from hetopt.planning.plan import search, search_front
from hetopt.problem.reading import read_problem_text
from hetopt.problem.training.choices import INTERLEAVED, SCHEDULE_CHOICES
from hetopt.results.spending import Spending
from hetopt.solvers.params import RaceParams
from hetopt.solvers.race.device_time import least_times_s
from hetopt.solvers.request import Request
from tests.oracle import brute_force
from tests.oracle.instances import make_other

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.problem.training.choices import ScheduleName
    from hetopt.results.result import Objective

PROBLEM = read_problem_text(
    """\
model: {layers: 4, hidden: 512, heads: 4, ffn: 2048, vocab: 32000}
clusters:
  - {name: a, accelerator: A100-80GB, nodes: 2, devices_per_node: 2, price_per_hour: 6,
     inter_node: {bandwidth: 100 Gbps}}
  - {name: b, accelerator: A40, nodes: 2, devices_per_node: 1, price_per_hour: 1,
     inter_node: {bandwidth: 100 Gbps}}
links: {default: {bandwidth: 10 Gbps, latency: 1 ms}}
training: {global_batch: 8, seq_len: 1024, precision: fp16}
"""
)


@cache
def request() -> Request:
    return Request(
        problem=PROBLEM, table=build_table(PROBLEM), params=RaceParams(jobs=1)
    )


@cache
def made(objective: Objective, spending: Spending) -> dict[str, Any]:
    found = search(request(), solver="dp", objective=objective, spending=spending)
    return found.to_json()


@cache
def front() -> dict[str, Any]:
    spending = Spending()
    found = search_front(request(), solver="dp", objective="closed", spending=spending)
    return found.to_json()


def wrong_result(data: dict[str, Any], forge: Callable[[dict[str, Any]], None]) -> str:
    forged = deepcopy(data)
    assert check_result(PROBLEM, request().table, forged) == []
    forge(forged)
    return "; ".join(check_result(PROBLEM, request().table, forged))


def wrong_front(forge: Callable[[dict[str, Any]], None]) -> str:
    forged = deepcopy(front())
    assert check_front(PROBLEM, request().table, forged) == []
    forge(forged)
    return "; ".join(check_front(PROBLEM, request().table, forged))


def test_a_budget_that_the_plan_exceeds() -> None:
    def forge(data: dict[str, Any]) -> None:
        data["spent"]["budget"] = data["cost"]["per_hour"] / 2

    said = wrong_result(made("closed", Spending(budget=7)), forge)
    assert "spent.budget: the plan costs" in said


def test_a_throughput_that_the_plan_misses() -> None:
    def forge(data: dict[str, Any]) -> None:
        data["spent"]["min_tokens_per_s"] = (
            2 * request().table.tokens / (data["closed_form_s"])
        )

    said = wrong_result(made("cost", Spending()), forge)
    assert "spent.min_tokens_per_s: the plan takes" in said


@pytest.mark.parametrize("objective", ["closed", "cost"])
def test_bounds_that_do_not_follow(objective: Objective) -> None:
    def forget(data: dict[str, Any]) -> None:
        data["spent"]["fleets"].clear()

    said = wrong_result(made(objective, Spending(budget=13)), forget)
    assert "the fleets prove only" in said


def test_a_bound_above_the_plan_and_a_gap_that_is_another() -> None:
    def forge(data: dict[str, Any]) -> None:
        data["spent"]["lower_bound"] *= 1.5
        data["gap"] = 0.25

    said = wrong_result(made("cost", Spending()), forge)
    assert "spent.lower_bound" in said
    assert "more than the plan's" in said
    assert "gap: 0.25" in said


@pytest.mark.parametrize("objective", ["closed", "cost"])
def test_bounds_above_what_the_plan_takes(objective: Objective) -> None:
    """A raised bound of the plan's own nodes alone leaves all sums as they were."""

    def forge(data: dict[str, Any]) -> None:
        for fleet in data["spent"]["fleets"]:
            fleet["bound_s"] = 1.0

    said = wrong_result(made(objective, Spending(budget=13)), forge)
    assert "spent.fleets: the plan takes" in said
    assert "its nodes are said to take at least 1.0 s" in said


def test_more_nodes_than_there_are() -> None:
    data = deepcopy(made("cost", Spending()))
    data["spent"]["fleets"][0]["nodes"] = {"b": 3}
    with pytest.raises(InputError, match="is 3, the cluster has 2"):
        check_result(PROBLEM, request().table, data)


def test_a_bound_on_cost_where_time_is_minimised() -> None:
    def forge(data: dict[str, Any]) -> None:
        data["spent"]["lower_bound"] = 1e-6

    said = wrong_result(made("closed", Spending(budget=7)), forge)
    assert "spent.lower_bound: 1e-06, but time is minimised" in said
    assert "but this is a front" in wrong_front(forge)


def test_no_plan_where_the_fleets_permit_one() -> None:
    def forge(data: dict[str, Any]) -> None:
        for fleet in data["spent"]["fleets"]:
            fleet["bound_s"] = 1e-3

    budget = Spending(min_tokens_per_s=1e9)
    data = made("cost", budget)
    assert data["status"] == "infeasible"
    forged = deepcopy(data)
    assert check_result(PROBLEM, request().table, forged) == []
    forged["spent"]["min_tokens_per_s"] = 1.0
    forge(forged)
    findings = check_result(PROBLEM, request().table, forged)
    assert any("infeasible, but the fleets permit" in each for each in findings)


def test_a_result_of_least_cost_says_what_is_spent() -> None:
    def forge(data: dict[str, Any]) -> None:
        del data["spent"]

    said = wrong_result(made("cost", Spending()), forge)
    assert "objective: cost, but 'spent' is missing" in said


def test_a_front_with_a_point_left_out() -> None:
    assert len(front()["points"]) > 2

    def forge(data: dict[str, Any]) -> None:
        del data["points"][1]

    assert "of nodes may hold a better plan" in wrong_front(forge)


def test_a_front_whose_points_are_no_trade() -> None:
    def forge(data: dict[str, Any]) -> None:
        data["points"].reverse()

    assert "a higher price and a shorter time than the point" in wrong_front(forge)


def test_a_front_with_wrong_figures() -> None:
    def forge(data: dict[str, Any]) -> None:
        data["points"][0]["closed_form_s"] *= 2
        data["points"][1]["cost"]["per_hour"] += 1
        data["spent"]["choices"] = 7

    said = wrong_front(forge)
    assert "points.0.closed_form_s" in said
    assert "points.1.cost.per_hour" in said
    assert "spent.choices: 7, expected 8" in said


@pytest.mark.parametrize("schedule", SCHEDULE_CHOICES)
@pytest.mark.parametrize("seed", [3, 4])
def test_device_time_lies_between_the_solvers_bound_and_every_plan(
    schedule: ScheduleName, seed: int
) -> None:
    """Brute force finds no quicker plan, and the checker's own bound is no weaker."""
    instance = make_other(seed, schedule)
    problem, table = instance.problem, instance.table
    clusters = tuple(replace(each, price_per_hour=1.0) for each in problem.clusters)
    priced = replace(problem, clusters=clusters)
    counts = [each.nodes for each in clusters]
    fleets = [each for each in product(*(range(n + 1) for n in counts)) if any(each)]
    sizes = [each.devices_per_node for each in clusters]
    claims: dict[str, Any] = {
        "budget": None,
        "min_tokens_per_s": None,
        "lower_bound": None,
    }
    told = {**claims, "choices": len(fleets), "fleets": []}
    least_s = dict(
        zip(fleets, Claimed(priced, table, told).least_s.tolist(), strict=True)
    )
    searched = least_times_s(table, np.array(fleets, dtype=np.int64) * np.array(sizes))
    for fleet, bound_s in zip(fleets, searched.tolist(), strict=True):
        assert least_s[fleet] >= bound_s * (1 - 1e-8)
    for found in brute_force.solve(problem, table).shapes[:100]:
        checked = check_plan(problem, table, brute_force.to_plan(problem, table, found))
        # All nodes of the clusters that host stages.
        used = tuple(n if j in found.shape[2] else 0 for j, n in enumerate(counts))
        assert least_s[used] <= checked.closed_form_s
        assert least_s[used] <= checked.iteration_time_s


@pytest.mark.parametrize("objective", ["closed", "cost"])
@pytest.mark.parametrize(("schedule", "chunks"), [(INTERLEAVED, 2), ("zb-v", 1)])
def test_prices_decide_where_stages_hold_several_chunks(
    schedule: ScheduleName, chunks: int, objective: Objective
) -> None:
    problem = PROBLEM.under(schedule, chunks)
    table = build_table(problem)
    asked = Request(problem=problem, table=table, params=RaceParams(jobs=1))
    spending = Spending(budget=None if objective == "cost" else 13)
    found = search(asked, solver="dp", objective=objective, spending=spending)
    assert found.status == "optimal"
    assert check_result(problem, table, found.to_json()) == []
    if objective != "cost":
        points = search_front(
            asked, solver="dp", objective=objective, spending=Spending()
        )
        assert check_front(problem, table, points.to_json()) == []
