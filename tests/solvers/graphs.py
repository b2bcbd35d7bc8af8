"""Small layer graphs, and the best choice for them by trying every one.

The brute force is plain on purpose: it shares no code with the solver.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from hetopt.cost.per_unit.layer_graph import Edge, GraphLayer, LayerGraph
from hetopt.formulations.uniap.choice import UniapProgram

if TYPE_CHECKING:
    from random import Random

SHAPES = ("chain", "encoder-decoder", "branch", "skip", "loose")


def edges_of(shape: str, count: int) -> list[tuple[int, int]]:
    chain = [(u, u + 1) for u in range(count - 1)]
    if shape == "chain":
        return chain
    if shape == "encoder-decoder":
        # The encoder's last layer feeds every layer of the decoder.
        last = count // 2 - 1
        decoder = range(count // 2, count)
        return sorted(set(chain) | {(last, v) for v in decoder})
    if shape == "branch":
        # Two paths from the first layer to the last.
        inner = range(1, count - 1)
        return sorted(
            {(0, u) for u in inner[:2]}
            | {(u, u + 2) for u in inner if u + 2 < count - 1}
            | {(u, count - 1) for u in inner[-2:]}
        )
    if shape == "skip":
        return sorted({*chain, (0, count - 1), (0, 2)})
    # Two chains that never meet.
    return [(u, u + 1) for u in range(count - 1) if u != count // 2]


def generated(random: Random, shape: str) -> UniapProgram:
    count = random.randint(3, 5)
    widths = [random.choice((2, 2, 3) if count < 5 else (2,)) for _ in range(count)]
    layers = tuple(
        GraphLayer(
            name=f"layer {u}",
            strategies=tuple(f"s{k}" for k in range(width)),
            cost_ns=tuple(random.randint(500, 2000) for _ in range(width)),
            memory_bytes=tuple(random.randint(200, 1000) for _ in range(width)),
        )
        for u, width in enumerate(widths)
    )
    edges = tuple(
        Edge(
            first=u,
            second=v,
            within_ns=tuple(
                tuple(0 if k == m else random.randint(0, 400) for m in range(widths[v]))
                for k in range(widths[u])
            ),
            across_ns=tuple(
                tuple(random.randint(50, 1500) for _ in range(widths[v]))
                for _ in range(widths[u])
            ),
        )
        for u, v in edges_of(shape, count)
    )
    stages = random.randint(1, 3)
    memory = random.randint(500, 700) * -(-count // stages)
    return UniapProgram(
        stages=stages,
        microbatches=random.choice((1, 2, 4, 8)),
        graph=LayerGraph(layers=layers, edges=edges, memory_bytes=memory),
    )


def brute_force(program: UniapProgram) -> int | None:
    """The least objective over all P and S; None if nothing fits."""
    graph, deg = program.graph, program.stages
    least: int | None = None
    for stage in product(range(deg), repeat=len(graph.layers)):
        if set(stage) != set(range(deg)):
            continue
        if any(stage[edge.first] > stage[edge.second] for edge in graph.edges):
            continue
        choices = (range(len(layer.strategies)) for layer in graph.layers)
        for strategy in product(*choices):
            p, memory = [0] * deg, [0] * deg
            for u, layer in enumerate(graph.layers):
                p[stage[u]] += layer.cost_ns[strategy[u]]
                memory[stage[u]] += layer.memory_bytes[strategy[u]]
            if max(memory) > graph.memory_bytes:
                continue
            o = [0] * (deg - 1)
            for edge in graph.edges:
                u, v = edge.first, edge.second
                if stage[u] == stage[v]:
                    p[stage[u]] += edge.within_ns[strategy[u]][strategy[v]]
                for j in range(deg - 1):
                    if stage[u] <= j < stage[v]:
                        o[j] += edge.across_ns[strategy[u]][strategy[v]]
            value = sum(p) + sum(o) + (program.microbatches - 1) * max(p + o)
            least = value if least is None else min(least, value)
    return least
