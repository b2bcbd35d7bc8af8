"""Choices of UniAP's program, and what they cost, in exact integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hetopt.cost.per_unit.layer_graph import LayerGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class UniapProgram:
    """One pair (pp_size, c) of UniAP's enumeration.

    The costs of a graph depend on both: on the devices of a stage and on the size
    of a micro-batch.

    Attributes
    ----------
    stages
        pp_size, at least 1; 1 is intra-layer parallelism alone (Eq. 9-11).
    microbatches
        c, at least 1.
    """

    stages: int
    microbatches: int
    graph: LayerGraph

    def __post_init__(self) -> None:
        for name in ("stages", "microbatches"):
            if getattr(self, name) < 1:
                msg = f"{name} is {getattr(self, name)}, expected at least 1"
                raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class UniapChoice:
    """P and S of a solution.

    Attributes
    ----------
    stage
        Computation stage of every layer, from 0.
    strategy
        Index of every layer's strategy.
    """

    stage: tuple[int, ...]
    strategy: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UniapCost:
    """The costs of a choice.

    Attributes
    ----------
    stages_ns, boundaries_ns
        p_i and o_j; deg and deg - 1 entries.
    memory_bytes
        Memory per device of every stage.
    total_ns
        The objective: sum p + sum o + (c - 1) max(p, o).
    """

    stages_ns: tuple[int, ...]
    boundaries_ns: tuple[int, ...]
    memory_bytes: tuple[int, ...]
    total_ns: int


def price(program: UniapProgram, choice: UniapChoice) -> UniapCost:
    """Evaluate the objective of a choice whose edges run forward.

    Raises
    ------
    ValueError
        A layer lies on no stage, or an edge runs backwards.
    """
    graph, deg = program.graph, program.stages
    computation, memory, boundaries = [0] * deg, [0] * deg, [0] * (deg - 1)
    places = zip(graph.layers, choice.stage, choice.strategy, strict=True)
    for layer, i, k in places:
        if not 0 <= i < deg:
            msg = f"layer {layer.name!r} is on stage {i}, expected 0 to {deg - 1}"
            raise ValueError(msg)
        computation[i] += layer.cost_ns[k]
        memory[i] += layer.memory_bytes[k]
    for edge in graph.edges:
        i, j = choice.stage[edge.first], choice.stage[edge.second]
        k, m = choice.strategy[edge.first], choice.strategy[edge.second]
        if i > j:
            msg = f"edge {edge.first} -> {edge.second} runs from stage {i} to {j}"
            raise ValueError(msg)
        if i == j:
            computation[i] += edge.within_ns[k][m]
        for boundary in range(i, j):
            boundaries[boundary] += edge.across_ns[k][m]
    slowest = max(computation + boundaries)
    return UniapCost(
        stages_ns=tuple(computation),
        boundaries_ns=tuple(boundaries),
        memory_bytes=tuple(memory),
        total_ns=sum(computation)
        + sum(boundaries)
        + (program.microbatches - 1) * slowest,
    )


def lower_bound_ns(program: UniapProgram) -> int | None:
    """Bound the objective from below without a solver; None: nothing fits.

    Layers take at least ``_least_work_ns`` and every edge its cheapest resharding; the
    slowest stage takes at least the mean, and at least its slowest layer. If every
    layer has an edge to the next one, each boundary is crossed by such an edge.
    """
    graph, deg = program.graph, program.stages
    work = _least_work_ns(program)
    if work is None or len(graph.layers) < deg:
        return None
    slowest = max(-(-work // deg), *(min(layer.cost_ns) for layer in graph.layers))
    across = {(edge.first, edge.second): edge.across_ns for edge in graph.edges}
    chain = [(u, u + 1) for u in range(len(graph.layers) - 1)]
    if deg > 1 and all(ends in across for ends in chain):
        crossing = min(min(map(min, across[ends])) for ends in chain)
        edges = (deg - 1) * crossing
        slowest = max(slowest, crossing)
    else:
        edges = sum(
            min(min(map(min, edge.within_ns)), min(map(min, edge.across_ns)))
            for edge in graph.edges
        )
    return work + edges + (program.microbatches - 1) * slowest


#: Rounds of the search for the best price of a byte, parts of a nanosecond in which
#: prices are counted, and the highest price: a second per megabyte.
_PRICES, _PRICE_PARTS = 100, 2**40
_HIGHEST_PRICE = 1000 * _PRICE_PARTS


def _least_work_ns(program: UniapProgram) -> int | None:
    """Bound the time of all layers from below; None if their memory does not fit.

    Any price of a byte gives a bound: every layer takes the strategy that is cheapest
    at that price, and the price of all stages' memory is subtracted. The bound is
    concave in the price; the best one is searched, and evaluated in integers.
    """
    graph = program.graph
    least = [min(layer.memory_bytes) for layer in graph.layers]
    room = program.stages * graph.memory_bytes
    if sum(least) > room or max(least) > graph.memory_bytes:
        return None

    def bound(price: int) -> int:
        total = sum(
            min(
                cost * _PRICE_PARTS + price * memory
                for cost, memory in zip(layer.cost_ns, layer.memory_bytes, strict=True)
            )
            for layer in graph.layers
        )
        return total - price * room

    best = bound(0)
    low, high = 0, _HIGHEST_PRICE
    for _ in range(_PRICES):
        first, second = low + (high - low) // 3, high - (high - low) // 3
        at_first, at_second = bound(first), bound(second)
        best = max(best, at_first, at_second)
        if at_first < at_second:
            low = first
        else:
            high = second
    return -(-best // _PRICE_PARTS)
