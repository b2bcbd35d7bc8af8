"""What plans cost: nodes that have to be rented, and sums worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from hetopt.check.plan.cost import cost_findings, nodes_of
from hetopt.plans.plan import Pipeline, Plan, Stage
from hetopt.plans.strategy import Strategy
from hetopt.problem.reading import read_problem_text
from hetopt.results.money import Cost, cost_of, rented_nodes

if TYPE_CHECKING:
    from hetopt.problem.problem import Problem

TEXT = """\
model: {layers: 8, hidden: 1024, heads: 8, ffn: 4096, vocab: 32000}
clusters:
  - {name: a, accelerator: A40, nodes: 6, devices_per_node: 8, price_per_hour: 18,
     inter_node: {bandwidth: 100 Gbps}}
  - {name: b, accelerator: A40, nodes: 6, devices_per_node: 6, price_per_hour: 0.5,
     inter_node: {bandwidth: 100 Gbps}}
links: {default: {bandwidth: 10 Gbps, latency: 1 ms}}
training: {global_batch: 500, seq_len: 2000}
"""
PROBLEM = read_problem_text(TEXT)


def plan(*stages: tuple[str, int]) -> Plan:
    """Return a plan of stages, each of a cluster and so many devices."""
    return Plan(
        schedule="1f1b",
        problem_digest="",
        table_digest="",
        pipelines=(
            Pipeline(
                microbatches=1,
                stages=tuple(
                    Stage(
                        cluster=cluster,
                        first_unit=number,
                        end_unit=number + 1,
                        strategy=Strategy(dp=devices, cp=1, tp=1),
                        warmup=1,
                    )
                    for number, (cluster, devices) in enumerate(stages)
                ),
            ),
        ),
    )


def unpriced(*names: str) -> Problem:
    clusters = tuple(
        replace(each, price_per_hour=None) if each.name in names else each
        for each in PROBLEM.clusters
    )
    return replace(PROBLEM, clusters=clusters)


@pytest.mark.parametrize(
    ("stages", "nodes"),
    [
        # Four stages of two devices to a node: ceil(5 / 4).
        ([("a", 2)] * 5, {"a": 2}),
        ([("a", 2)] * 4, {"a": 1}),
        ([("a", 1)], {"a": 1}),
        ([("a", 8)] * 3, {"a": 3}),
        # Stages of two nodes and of three.
        ([("a", 16)] * 3, {"a": 6}),
        ([("a", 24)], {"a": 3}),
        ([("b", 3)] * 5, {"b": 3}),
        ([("b", 6), ("a", 4), ("a", 4), ("a", 4)], {"a": 2, "b": 1}),
        # Several strategies: 16 and 8 devices, and 4 + 2 + 1 + 1 on one node.
        (
            [("a", 16), ("a", 4), ("a", 8), ("a", 2), ("a", 1), ("a", 1)],
            {"a": 4},
        ),
    ],
)
def test_nodes_to_rent(stages: list[tuple[str, int]], nodes: dict[str, int]) -> None:
    assert rented_nodes(PROBLEM, plan(*stages)) == nodes


@pytest.mark.parametrize("devices", [1, 2, 4, 8, 16, 24])
@pytest.mark.parametrize("stages", range(1, 7))
def test_nodes_of_one_strategy_are_those_of_the_model(
    devices: int, stages: int
) -> None:
    per_node = 8
    each = per_node // devices
    expected = -(-stages // each) if devices <= per_node else stages * devices // 8
    found = rented_nodes(PROBLEM, plan(*[("a", devices)] * stages))
    assert found == {"a": expected}


def test_cost_by_hand() -> None:
    # Two nodes at 18 and one at 0.5 for 100 s; a million tokens an iteration.
    found = cost_of(PROBLEM, plan(*[("a", 4)] * 3, ("b", 1)), 100.0)
    assert found is not None
    assert (found.nodes, found.unpriced) == ({"a": 2, "b": 1}, ())
    assert found.per_hour == 36.5
    assert found.per_iteration == pytest.approx(36.5 / 36)
    assert found.per_trillion_tokens == pytest.approx(36.5 / 36 * 1e6)


def test_a_cluster_without_a_price_makes_the_cost_unknown_only_if_used() -> None:
    both, one = plan(("a", 8), ("b", 6)), plan(("a", 8))
    problem = unpriced("b")
    assert cost_of(problem, both, 1.0) == Cost(
        nodes={"a": 1, "b": 1},
        unpriced=("b",),
        per_hour=None,
        per_iteration=None,
        per_trillion_tokens=None,
    )
    assert cost_of(problem, one, 1.0) == cost_of(PROBLEM, one, 1.0)
    assert cost_of(unpriced("a", "b"), both, 1.0) is None


def test_what_costs_nothing_is_priced() -> None:
    clusters = tuple(replace(each, price_per_hour=0.0) for each in PROBLEM.clusters)
    found = cost_of(replace(PROBLEM, clusters=clusters), plan(("a", 8)), 1.0)
    assert found is not None
    assert (found.unpriced, found.per_iteration) == ((), 0.0)


@pytest.mark.parametrize("price", [-1.0, float("inf"), float("nan")])
def test_prices_that_are_none(price: float) -> None:
    with pytest.raises(ValueError, match="price_per_hour: is"):
        replace(PROBLEM.clusters[0], price_per_hour=price)


MIXED = plan(("a", 16), *[("a", 2)] * 5, ("b", 3))


def test_nodes_of_a_stage_over_small_unequal_nodes() -> None:
    sizes = (8, 4, 4, 4, 4)
    first, second = unpriced("a").clusters
    odd = replace(first, nodes=5, unequal=sizes)
    problem = replace(PROBLEM, clusters=(odd, second))
    cost = cost_of(problem, plan(("a", 16), ("b", 3)), 1.0)
    assert cost is not None
    assert cost.nodes == {"a": 4, "b": 1}


@pytest.mark.parametrize("seed", range(60))
def test_the_checker_counts_the_same_unequal_nodes(seed: int) -> None:
    """Stages that fit, and ones that do not."""
    rng = Random(seed)
    sizes = [8, *rng.choices((2, 3, 4, 6, 7, 8), k=rng.randint(1, 6)), 4]
    first, second = PROBLEM.clusters
    odd = replace(first, nodes=len(sizes), unequal=tuple(sizes), price_per_hour=None)
    problem = replace(PROBLEM, clusters=(odd, second))
    devices = rng.choices((1, 2, 3, 4, 6, 8, 12, 14, 16, 24), k=rng.randint(1, 7))
    drawn = plan(*[("a", each) for each in devices])
    assert rented_nodes(problem, drawn) == nodes_of(problem, drawn)


def test_the_checker_agrees() -> None:
    for problem in (PROBLEM, unpriced("b")):
        cost = cost_of(problem, MIXED, 12.5)
        assert cost is not None
        assert list(cost_findings(problem, MIXED, 12.5, cost.to_json())) == []


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("nodes", {"a": 3, "b": 1}, "cost.nodes: {'a': 3, 'b': 1}, expected"),
        ("unpriced", ["a"], "cost.unpriced: ['a'], expected []"),
        ("per_hour", 72.4, "cost.per_hour: 72.4, expected 72.5"),
        ("per_hour", None, "cost.per_hour: None, expected 72.5"),
        ("per_iteration", 1.0, "cost.per_iteration: 1.0, expected"),
        ("per_trillion_tokens", 0.0, "cost.per_trillion_tokens: 0.0, expected"),
    ],
)
def test_the_checker_finds_every_false_claim(
    key: str, value: object, told: str
) -> None:
    cost = cost_of(PROBLEM, MIXED, 12.5)
    assert cost is not None
    (finding,) = cost_findings(PROBLEM, MIXED, 12.5, {**cost.to_json(), key: value})
    assert finding.startswith(told)


def test_the_checker_wants_no_numbers_without_prices() -> None:
    problem = unpriced("b")
    cost = cost_of(problem, MIXED, 12.5)
    assert cost is not None
    claimed = {**cost.to_json(), "per_hour": 1.0}
    (finding,) = cost_findings(problem, MIXED, 12.5, claimed)
    assert finding == "cost.per_hour: 1.0, but b has no price"
