"""A quick choice to start UniAP's program from, by local search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetopt.formulations.uniap_choice import UniapChoice, price

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.formulations.uniap_choice import UniapProgram

#: Choices priced before the search gives up: about a second for 32 layers.
MOST_PRICED = 12_000


@dataclass(slots=True)
class _Search:
    """The best choice so far; what does not fit is worse than all that fits."""

    program: UniapProgram
    stage: list[int]
    strategy: list[int]
    value: tuple[int, int]
    priced: int = 0

    def rate(self, stage: list[int], strategy: list[int]) -> tuple[int, int]:
        """Bytes that do not fit, then the objective."""
        self.priced += 1
        cost = price(
            self.program, UniapChoice(stage=tuple(stage), strategy=tuple(strategy))
        )
        limit = self.program.graph.memory_bytes
        return sum(max(0, size - limit) for size in cost.memory_bytes), cost.total_ns

    def accept(self, stage: list[int], strategy: list[int]) -> bool:
        """Take a choice if it is better."""
        value = self.rate(stage, strategy)
        if value >= self.value:
            return False
        self.stage, self.strategy, self.value = stage, strategy, value
        return True


def start(
    program: UniapProgram, *, most_priced: int = MOST_PRICED
) -> UniapChoice | None:
    """Return a choice that fits and that no single move improves, or None.

    Layers keep the graph's order. Moves: one strategy for a run of layers, and a
    stage's end one layer earlier or later. Nothing depends on the clock.
    """
    count, deg = len(program.graph.layers), program.stages
    if count < deg:
        return None
    search = _Search(
        program=program,
        stage=[u * deg // count for u in range(count)],
        strategy=[0] * count,
        value=(0, 0),
    )
    search.value = search.rate(search.stage, search.strategy)
    for strategy in _uniform(program):
        search.accept(search.stage, strategy)
    while search.priced < most_priced and (_shift(search) | _repaint(search)):
        pass
    if search.value[0]:
        return None
    return UniapChoice(stage=tuple(search.stage), strategy=tuple(search.strategy))


def _uniform(program: UniapProgram) -> Iterator[list[int]]:
    """One strategy for all layers, or the fastest or the smallest of each."""
    layers = program.graph.layers
    for k in range(min(len(layer.strategies) for layer in layers)):
        yield [k] * len(layers)
    yield [layer.cost_ns.index(min(layer.cost_ns)) for layer in layers]
    yield [layer.memory_bytes.index(min(layer.memory_bytes)) for layer in layers]


def _shift(search: _Search) -> bool:
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


def _repaint(search: _Search) -> bool:
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
