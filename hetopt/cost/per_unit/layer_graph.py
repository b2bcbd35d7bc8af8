"""A layer graph: the input of UniAP's program for one cluster (UniAP, appendix B-C).

In the latency table every stage has one strategy; here every layer has its own, with
a cost and a memory per strategy, and every edge has the time to reshard between the
strategies of its ends, within a stage and across stages. The model is any acyclic
graph of layers, which includes encoder-decoders and hierarchies of layer kinds.

Times are whole nanoseconds and memory whole bytes, as in the latency table.
"""

from __future__ import annotations

from dataclasses import dataclass

from hetopt.base.words import counted

#: Nanoseconds by strategy of the first layer (rows) and of the second (columns).
Matrix = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphLayer:
    """A node of the graph; K strategies.

    Attributes
    ----------
    strategies
        Names of the possible strategies, such as ``dp2-tp2``; length K.
    cost_ns
        A: time of forward and backward of one micro-batch, per strategy; length K.
    memory_bytes
        M: memory on each device of its stage, per strategy; length K.
    """

    name: str
    strategies: tuple[str, ...]
    cost_ns: tuple[int, ...]
    memory_bytes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.strategies:
            msg = f"layer {self.name!r} has no strategy, expected at least one"
            raise ValueError(msg)
        for field in ("cost_ns", "memory_bytes"):
            values = getattr(self, field)
            if len(values) != len(self.strategies):
                msg = (
                    f"layer {self.name!r}: {field} has "
                    f"{counted(len(values), 'value')}, expected one for each of "
                    f"{counted(len(self.strategies), 'strategy', 'ies')}"
                )
                raise ValueError(msg)
            if min(values) < 0:
                msg = (
                    f"layer {self.name!r}: {field} is {min(values)}, expected 0 or more"
                )
                raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A tensor from one layer to a later one.

    Attributes
    ----------
    first, second
        Positions of its ends in ``LayerGraph.layers``; first < second.
    within_ns
        R: time of resharding if both ends are on one stage.
    across_ns
        R': time of resharding to the next stage, on every boundary that the edge
        crosses.
    """

    first: int
    second: int
    within_ns: Matrix
    across_ns: Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerGraph:
    """A model's layers and tensors, with their costs on one homogeneous cluster.

    Attributes
    ----------
    layers
        In an order that every edge follows.
    memory_bytes
        m: memory of a device for layers.
    """

    layers: tuple[GraphLayer, ...]
    edges: tuple[Edge, ...]
    memory_bytes: int

    def __post_init__(self) -> None:
        if not self.layers:
            msg = "the graph has no layer, expected at least one"
            raise ValueError(msg)
        for edge in self.edges:
            self._check(edge)

    def _check(self, edge: Edge) -> None:
        """Raise ValueError if an edge does not fit the layers."""
        name = f"edge {edge.first} -> {edge.second}"
        if not 0 <= edge.first < edge.second < len(self.layers):
            msg = (
                f"{name}: expected 0 <= first < second < {len(self.layers)}: "
                "layers must be in an order that every edge follows"
            )
            raise ValueError(msg)
        rows = len(self.layers[edge.first].strategies)
        columns = len(self.layers[edge.second].strategies)
        for field in ("within_ns", "across_ns"):
            matrix: Matrix = getattr(edge, field)
            if len(matrix) != rows or any(len(row) != columns for row in matrix):
                msg = f"{name}: {field} does not have shape {rows} x {columns}"
                raise ValueError(msg)
            if min(map(min, matrix)) < 0:
                msg = f"{name}: {field} has a negative entry, expected 0 or more"
                raise ValueError(msg)
