"""Which stages a layer can lie on, and how many stages an edge can skip.

No edge runs backwards and no stage is empty. So if a layer lies on stage i, stages
0 .. i - 1 need layers that do not follow from it, and the stages after i layers that it
does not follow from; and an edge that skips stages needs as many layers for them
which neither precede its first end nor follow from its second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hetopt.formulations.uniap.choice import UniapProgram


class Reach:
    """Limits that hold for every choice of a program."""

    def __init__(self, program: UniapProgram) -> None:
        self._deg = program.stages
        layers = range(len(program.graph.layers))
        # Sets of layers as bits; each contains the layer itself.
        before = [1 << u for u in layers]
        after = [1 << u for u in layers]
        edges = sorted(program.graph.edges, key=lambda edge: edge.first)
        for edge in edges:
            before[edge.second] |= before[edge.first]
        for edge in reversed(edges):
            after[edge.first] |= after[edge.second]
        self._all = (1 << len(layers)) - 1
        self._before, self._after = before, after

    def stages(self, u: int) -> range:
        """Return the stages that layer u may lie on."""
        elsewhere_before = (self._all & ~self._after[u]).bit_count()
        elsewhere_after = (self._all & ~self._before[u]).bit_count()
        first = max(0, self._deg - 1 - elsewhere_after)
        return range(first, min(self._deg - 1, elsewhere_before) + 1)

    def between(self, u: int, v: int) -> int:
        """Return the most stages strictly between u and v of an edge (u, v)."""
        bound = self._before[u] | self._after[v]
        return (self._all & ~bound).bit_count()
