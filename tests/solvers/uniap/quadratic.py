"""UniAP's program of one (pp_size, c) with its products, for SCIP or Gurobi.

The program of ``hetopt.formulations.uniap.program``, where the symbols and the
deviations from the paper are explained, without linearising edges: resharding is
``y[u, i, k] y[v, j, m]``, as in (10). ``y`` itself stands for P_ui S_uk, without which
the program would be of degree four.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyomo.environ as pyo

from hetopt.formulations.uniap.choice import UniapChoice
from hetopt.formulations.uniap.reach import Reach

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from hetopt.cost.per_unit.layer_graph import Edge
    from hetopt.formulations.uniap.choice import UniapProgram

#: A device's memory, and the slowest layer's cost, in the program's units.
_FULL_MEMORY = 1000.0
_SLOWEST_LAYER = 100.0


class UniapQuadratic:
    """Variables and constraints of one program; building it solves nothing.

    Attributes
    ----------
    model
        A Pyomo model; its objective counts ``time_unit_ns``.
    """

    def __init__(self, program: UniapProgram) -> None:
        self.program = program
        self.reach = Reach(program)
        graph = program.graph
        slowest = max(max(layer.cost_ns) for layer in graph.layers)
        self.time_unit_ns = max(slowest / _SLOWEST_LAYER, 1e-3)
        self.memory_unit_bytes = max(graph.memory_bytes / _FULL_MEMORY, 1e-3)
        self.model = pyo.ConcreteModel("uniap")
        self._add_variables()
        self._place_layers()
        self._run_forward()
        self._cost_stages()
        self._cost_boundaries()
        self._fit_memory()
        self._minimise()

    def _add_variables(self) -> None:
        """Add y, and p, o and the slowest of them."""
        m, stages = self.model, range(self.program.stages)
        self.states = {
            u: [(i, k) for i in self.reach.stages(u) for k in range(len(layer.cost_ns))]
            for u, layer in enumerate(self.program.graph.layers)
        }
        places = [(u, *state) for u, states in self.states.items() for state in states]
        m.y = pyo.Var(places, domain=pyo.Binary)
        m.p = pyo.Var(stages, domain=pyo.NonNegativeReals)
        m.o = pyo.Var(stages[:-1], domain=pyo.NonNegativeReals)
        m.slowest = pyo.Var(domain=pyo.NonNegativeReals)
        m.rows = pyo.ConstraintList()

    def _on(self, u: int, stages: range) -> Any:
        """Return how often layer u lies on one of some stages."""
        y = self.model.y
        return sum(y[u, i, k] for i, k in self.states[u] if i in stages)

    def _place_layers(self) -> None:
        """(7), (8): one stage and one strategy for a layer, no empty stage."""
        rows, deg = self.model.rows, self.program.stages
        if len(self.states) < deg:
            # An empty stage, which no value of any variable can fill.
            rows.add(self.model.slowest <= -1)
            return
        for u in self.states:
            rows.add(self._on(u, range(deg)) == 1)
        for i in range(deg):
            rows.add(sum(self._on(u, range(i, i + 1)) for u in self.states) >= 1)

    def _run_forward(self) -> None:
        """No edge runs backwards."""
        for edge in self.program.graph.edges:
            for i in range(self.program.stages - 1):
                before = range(i + 1)
                ahead = self._on(edge.first, before) - self._on(edge.second, before)
                if not isinstance(ahead, int):
                    self.model.rows.add(ahead >= 0)

    def _cost_stages(self) -> None:
        """(10): layers, and resharding within the stage."""
        m, unit = self.model, self.time_unit_ns
        layers = self.program.graph.layers
        for i in m.p:
            own = sum(
                layers[u].cost_ns[k] / unit * m.y[u, j, k]
                for u, states in self.states.items()
                for j, k in states
                if j == i
            )
            m.rows.add(m.p[i] == own + self._products(i, _within))
            m.rows.add(m.p[i] <= m.slowest)

    def _cost_boundaries(self) -> None:
        """Resharding across the boundary after stage j."""
        m = self.model
        for boundary in m.o:
            m.rows.add(m.o[boundary] == self._products(boundary, _across))
            m.rows.add(m.o[boundary] <= m.slowest)

    def _products(
        self, at: int, cost_ns: Callable[[Edge, int, int, int, int, int], int]
    ) -> Any:
        """Sum what edges cost at a stage or boundary, over their ends' states."""
        y = self.model.y
        return sum(
            cost / self.time_unit_ns * y[edge.first, i, k] * y[edge.second, j, n]
            for edge in self.program.graph.edges
            for i, k in self.states[edge.first]
            for j, n in self.states[edge.second]
            if (cost := cost_ns(edge, at, i, j, k, n))
        )

    def _fit_memory(self) -> None:
        """(11): the layers of a stage fit on its devices."""
        m, graph, unit = self.model, self.program.graph, self.memory_unit_bytes
        for stage in m.p:
            used = sum(
                graph.layers[u].memory_bytes[k] / unit * m.y[u, i, k]
                for u, states in self.states.items()
                for i, k in states
                if i == stage
            )
            if not isinstance(used, int):
                m.rows.add(used <= graph.memory_bytes / unit)

    def _minimise(self) -> None:
        """``sum p + sum o + (c - 1) max(p, o)``."""
        m = self.model
        steady = (self.program.microbatches - 1) * m.slowest
        m.total = pyo.Objective(expr=sum(m.p.values()) + sum(m.o.values()) + steady)

    def extract(self) -> UniapChoice:
        """Read P and S off a solved model."""
        y = self.model.y
        chosen = [
            max(states, key=lambda state: float(pyo.value(y[u, *state])))
            for u, states in self.states.items()
        ]
        return UniapChoice(
            stage=tuple(i for i, _ in chosen), strategy=tuple(k for _, k in chosen)
        )


def _within(edge: Edge, stage: int, i: int, j: int, k: int, n: int) -> int:
    return edge.within_ns[k][n] if i == j == stage else 0


def _across(edge: Edge, boundary: int, i: int, j: int, k: int, n: int) -> int:
    return edge.across_ns[k][n] if i <= boundary < j else 0
