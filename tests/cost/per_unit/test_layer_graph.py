from __future__ import annotations

from dataclasses import replace

import pytest

from hetopt.cost.per_unit.layer_graph import Edge, GraphLayer, LayerGraph

LAYER = GraphLayer(
    name="layer", strategies=("dp", "tp"), cost_ns=(3, 2), memory_bytes=(5, 4)
)
EDGE = Edge(first=0, second=1, within_ns=((0, 1), (1, 0)), across_ns=((1, 2), (2, 1)))
GRAPH = LayerGraph(layers=(LAYER, LAYER), edges=(EDGE,), memory_bytes=10)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strategies": (), "cost_ns": (), "memory_bytes": ()}, "no strategy"),
        ({"cost_ns": (1,)}, "cost_ns has 1 value,"),
        ({"memory_bytes": (1, -1)}, "memory_bytes is -1"),
    ],
)
def test_layers_say_what_is_wrong(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(LAYER, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"first": 1}, "expected 0 <= first < second < 2"),
        ({"second": 2}, "expected 0 <= first < second < 2"),
        ({"within_ns": ((0, 1),)}, "within_ns does not have shape 2 x 2"),
        ({"across_ns": ((0, 1), (-1, 0))}, "across_ns has a negative entry"),
    ],
)
def test_edges_say_what_is_wrong(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(GRAPH, edges=(replace(EDGE, **changes),))  # type: ignore[arg-type]


def test_an_empty_graph_is_refused() -> None:
    with pytest.raises(ValueError, match="no layer"):
        LayerGraph(layers=(), edges=(), memory_bytes=1)
