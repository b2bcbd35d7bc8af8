"""A quick choice to start UniAP's program from, by local search."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from hetopt.formulations.uniap.choice import UniapChoice, price

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.formulations.uniap.choice import UniapProgram

#: Choices priced before the search gives up: about a second for 32 layers.
MOST_PRICED = 12_000


@dataclass(slots=True)
class _LocalSearch:
    """The best choice so far; one that does not fit is worse than any that fits."""

    program: UniapProgram
    stage: list[int]
    strategy: list[int]
    value: tuple[int, int]
    priced: int = 0

    def rate(self, stage: list[int], strategy: list[int]) -> tuple[int, int]:
        """Return the bytes that do not fit, and the objective."""
        self.priced += 1
        cost = price(
            self.program, UniapChoice(stage=tuple(stage), strategy=tuple(strategy))
        )
        limit = self.program.graph.memory_bytes
        return sum(max(0, size - limit) for size in cost.memory_bytes), cost.total_ns

    def accept(self, stage: list[int], strategy: list[int]) -> bool:
        """Keep a choice if it is better; return whether it is."""
        value = self.rate(stage, strategy)
        if value >= self.value:
            return False
        self.stage, self.strategy, self.value = stage, strategy, value
        return True


def start(
    program: UniapProgram, *, most_priced: int = MOST_PRICED
) -> UniapChoice | None:
    """Return a choice that fits, found by local search, or None.

    Layers keep the graph's order. Moves: give one strategy to a run of layers, move the
    end of a stage by one layer, or divide the layers anew for their strategies. The
    search ends when no move improves, or after ``most_priced`` prices.
    """
    count, deg = len(program.graph.layers), program.stages
    if count < deg:
        return None
    search = _LocalSearch(
        program=program,
        stage=[u * deg // count for u in range(count)],
        strategy=[0] * count,
        value=(0, 0),
    )
    search.value = search.rate(search.stage, search.strategy)
    equal = search.stage
    for strategy in _uniform(program):
        search.accept(equal, strategy)
        search.accept(_balanced(program, strategy) or equal, strategy)
    while search.priced < most_priced and (
        _shift(search) | _repaint(search) | _rebalance(search)
    ):
        pass
    if search.value[0]:
        return None
    return UniapChoice(stage=tuple(search.stage), strategy=tuple(search.strategy))


def _uniform(program: UniapProgram) -> Iterator[list[int]]:
    """Yield each strategy for all layers, then the fastest and the smallest of each."""
    layers = program.graph.layers
    for k in range(min(len(layer.strategies) for layer in layers)):
        yield [k] * len(layers)
    yield [layer.cost_ns.index(min(layer.cost_ns)) for layer in layers]
    yield [layer.memory_bytes.index(min(layer.memory_bytes)) for layer in layers]


def _rebalance(search: _LocalSearch) -> bool:
    """Divide the layers among stages anew."""
    stage = _balanced(search.program, search.strategy)
    return stage is not None and search.accept(stage, search.strategy)


def _balanced(program: UniapProgram, strategy: list[int]) -> list[int] | None:
    """Return the division whose slowest stage or boundary is the fastest, or None.

    ``slowest[u]`` is the least such time over all ways to divide the layers before u
    among the stages so far.
    """
    graph, deg = program.graph, program.stages
    count = len(graph.layers)
    costs, across = _segments(program, strategy)
    slowest = [0.0] + [inf] * count
    starts: list[list[int]] = []
    for i in range(deg):
        reached, start = [inf] * (count + 1), [0] * (count + 1)
        # The stages after this one need a layer each.
        for end in range(i + 1, count - (deg - 1 - i) + 1):
            for first in range(i, end):
                worst = max(slowest[first], costs[first][end], across[first])
                if worst < reached[end]:
                    reached[end], start[end] = worst, first
        slowest = reached
        starts.append(start)
    if slowest[count] == inf:
        return None
    stage, end = [0] * count, count
    for i in reversed(range(deg)):
        first = starts[i][end]
        stage[first:end] = [i] * (end - first)
        end = first
    return stage


def _segments(
    program: UniapProgram, strategy: list[int]
) -> tuple[list[list[float]], list[int]]:
    """Return the cost of layers first <= u < end as one stage, and of each boundary.

    Layers that do not fit on one stage cost infinity.
    """
    graph = program.graph
    count = len(graph.layers)
    arriving: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    across = [0] * (count + 1)
    for edge in graph.edges:
        u, v = edge.first, edge.second
        arriving[v].append((u, edge.within_ns[strategy[u]][strategy[v]]))
        for boundary in range(u + 1, v + 1):
            across[boundary] += edge.across_ns[strategy[u]][strategy[v]]
    costs = [[inf] * (count + 1) for _ in range(count)]
    for first in range(count):
        cost = memory = 0
        for end in range(first + 1, count + 1):
            layer, k = graph.layers[end - 1], strategy[end - 1]
            cost += layer.cost_ns[k]
            cost += sum(within for u, within in arriving[end - 1] if u >= first)
            memory += layer.memory_bytes[k]
            if memory > graph.memory_bytes:
                break
            costs[first][end] = cost
    return costs, across


def _shift(search: _LocalSearch) -> bool:
    """Move a layer at the end of a stage to the neighbouring stage."""
    improved = False
    for boundary in range(1, search.program.stages):
        for end in (-1, 0):
            while True:
                u = search.stage.index(boundary) + end
                if search.stage.count(search.stage[u]) == 1:
                    break
                stage = search.stage.copy()
                stage[u] = boundary if end else boundary - 1
                if not search.accept(stage, search.strategy):
                    break
                improved = True
    return improved


def _repaint(search: _LocalSearch) -> bool:
    """Give a run of layers one strategy."""
    improved = False
    layers = search.program.graph.layers
    for first in range(len(layers)):
        for k in range(len(layers[first].strategies)):
            strategy = search.strategy.copy()
            for u in range(first, len(layers)):
                if k >= len(layers[u].strategies):
                    break
                strategy[u] = k
                if strategy != search.strategy:
                    improved |= search.accept(search.stage, strategy.copy())
    return improved
