"""Layer graphs made from a problem agree with the latency table they come from."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hetopt.cost.build import build_table
from hetopt.cost.per_unit.layer_costs import layer_graph
from hetopt.errors import InputError
from hetopt.problem.catalogue import problem_files
from hetopt.problem.problem import Problem
from hetopt.problem.reading import read_problem

if TYPE_CHECKING:
    from hetopt.cost.per_unit.layer_graph import LayerGraph
    from hetopt.cost.table.table import CostTable


def graph_of(table: CostTable, stages: int, microbatches: int) -> LayerGraph:
    graph = layer_graph(table, stages, microbatches)
    assert graph is not None
    return graph


@pytest.fixture(scope="module")
def problem() -> Problem:
    return read_problem(str(problem_files()["uniap-bert-huge"]))


@pytest.fixture(scope="module")
def table(problem: Problem) -> CostTable:
    return build_table(problem)


def test_graph_is_the_chain_of_units(problem: Problem, table: CostTable) -> None:
    graph = graph_of(table, 2, 8)
    assert len(graph.layers) == len(problem.model.units)
    assert [(edge.first, edge.second) for edge in graph.edges] == [
        (u, u + 1) for u in range(len(graph.layers) - 1)
    ]
    assert graph.layers[1].strategies == ("dp1-tp4", "dp2-tp2", "fsdp2-tp2")


def test_strategies_use_all_devices_of_a_stage(table: CostTable) -> None:
    graph = graph_of(table, 1, 1)
    for name in graph.layers[0].strategies:
        dp, tp = (int(part.lstrip("fsdpt")) for part in name.split("-"))
        assert dp * tp == 8


def test_fsdp_trades_time_for_memory(table: CostTable) -> None:
    graph = graph_of(table, 2, 8)
    layer = graph.layers[1]
    replicated = layer.strategies.index("dp2-tp2")
    sharded = layer.strategies.index("fsdp2-tp2")
    assert layer.cost_ns[sharded] > layer.cost_ns[replicated]
    assert layer.memory_bytes[sharded] < layer.memory_bytes[replicated]


def test_layer_costs_are_the_table_s(table: CostTable) -> None:
    rows = table.at(8).clusters[0]
    (row,) = (
        row
        for row, strategy in enumerate(rows.strategies)
        if (strategy.dp, strategy.cp, strategy.tp) == (2, 1, 2)
    )
    graph = graph_of(table, 2, 8)
    for kind, layer in zip(table.units, graph.layers, strict=True):
        k = layer.strategies.index("dp2-tp2")
        passes = rows.forward_ns[row, kind] + rows.backward_ns[row, kind]
        # Gradients are reduced once, spread over the micro-batches.
        shared = 8 * (layer.cost_ns[k] - int(passes)) - int(
            rows.sync_unit_ns[row, kind]
        )
        assert 0 <= shared < 8
        # GPipe keeps every micro-batch.
        kept = rows.state_bytes[row, kind] + 8 * rows.activation_bytes[row, kind]
        assert layer.memory_bytes[k] == kept


def test_resharding_is_free_between_equal_layouts_alone(table: CostTable) -> None:
    graph = graph_of(table, 2, 4)
    within = graph.edges[0].within_ns
    layouts = [name.lstrip("f").lstrip("s") for name in graph.layers[0].strategies]
    for first, row in zip(layouts, within, strict=True):
        for second, cost in zip(layouts, row, strict=True):
            assert (cost == 0) == (first == second)
    across = graph.edges[0].across_ns
    assert min(map(min, across)) > 0


def test_a_device_keeps_room_for_what_lives_shortly(
    problem: Problem, table: CostTable
) -> None:
    graph = graph_of(table, 2, 8)
    assert 0 < graph.memory_bytes < problem.clusters[0].memory_bytes


def test_no_graph_where_stages_are_unequal_or_nothing_fits(
    problem: Problem, table: CostTable
) -> None:
    assert layer_graph(table, 3, 8) is None
    small = replace(problem.clusters[0], memory_bytes=2**20)
    without = build_table(replace(problem, clusters=(small,)))
    assert layer_graph(without, 2, 8) is None


def test_two_clusters_are_refused(problem: Problem) -> None:
    cluster = problem.clusters[0]
    two = replace(problem, clusters=(cluster, replace(cluster, name="other")))
    with pytest.raises(InputError, match="2 clusters, but UniAP plans for one"):
        layer_graph(build_table(two), 2, 8)


def test_other_schedules_are_refused(problem: Problem) -> None:
    training = replace(problem.training, schedule="1f1b")
    table = build_table(replace(problem, training=training))
    assert table.per_unit is None
    with pytest.raises(InputError, match="is 1f1b, but UniAP plans gpipe"):
        layer_graph(table, 2, 8)


def test_a_table_without_costs_per_unit_is_refused(table: CostTable) -> None:
    with pytest.raises(InputError, match="make a new one"):
        layer_graph(replace(table, per_unit=None), 2, 8)
