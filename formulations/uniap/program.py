"""UniAP's program for one (pp_size, c), its edges linearised (UniAP, Eq. 6-11).

The appendix gives constraints 6 and 8 to 11; the main paper's program around them is
a reconstruction. Symbols of the paper and of this file:

==================  ========================================================
``V, E``            layers u and edges (u, v); ``deg`` = pp_size stages i
``A, M``            cost and memory of layer u under strategy k
``R, R'``           resharding of an edge within a stage and across a boundary
``y[u, i, k]``      layer u is on stage i with strategy k: P_ui S_uk, one-hot
``x[e, i, j, k, m]``  edge e runs from (i, k) to (j, m): y_uik y_vjm; continuous
``p[i], o[j]``      cost of computation stage i and of communication stage j
``slowest``         max(P and O)
``Z[v, i]``         a layer of stage i is reachable from v (published order only)
==================  ========================================================

As published the program is of degree four. ``y`` makes it quadratic, ``x`` linear:
the x of an edge are marginals of both its ends' y, so with integral y each x is the
product it stands for. One x per pair of states, not per pair of strategies, makes a
chain's relaxation a flow.

Deviations from the paper:

- (6a)-(6c) keep stages contiguous, but let a chain run backwards for free: o_j only
  counts edges from stage j to j + 1. Here no edge runs backwards, which implies
  contiguity, so Z is not needed; ``published_order`` builds (6a)-(6c) instead.
- An edge that skips stages pays R' on every boundary that it crosses; in the
  published form it pays nothing.
- Strategy and placement are chosen together in y; (7) and (8) follow from it.

Times and bytes of the graph are integers; the program counts them in ``time_unit_ns``
and ``memory_unit_bytes``, so that a solver's absolute tolerances mean something.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from hetopt.formulations.linear_program import LinearProgram
from hetopt.formulations.uniap.choice import UniapChoice
from hetopt.formulations.uniap.reach import Reach

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from hetopt.cost.per_unit.layer_graph import Edge
    from hetopt.formulations.linear_program import Terms
    from hetopt.formulations.uniap.choice import UniapProgram

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

#: A device's memory, and the slowest layer's cost, in the program's units.
_FULL_MEMORY = 1000.0
_SLOWEST_LAYER = 100.0
#: Relative slack of a cutoff, so that a choice equal to it is not lost to rounding.
_CUTOFF_SLACK = 1e-9


class UniapLinear:
    """Variables and constraints of one program; building it solves nothing.

    Parameters
    ----------
    cutoff_ns
        Only choices that cost at most this much are of interest.
    published_order
        Build (6a)-(6c) as published instead of forbidding edges to run backwards.

    Attributes
    ----------
    linear
        For a solver; its objective counts ``time_unit_ns``.
    """

    def __init__(
        self,
        program: UniapProgram,
        *,
        cutoff_ns: int | None = None,
        published_order: bool = False,
    ) -> None:
        self.program = program
        self.linear = LinearProgram()
        self.published_order = published_order
        self.reach = Reach(program)
        graph = program.graph
        slowest = max(max(layer.cost_ns) for layer in graph.layers)
        self.time_unit_ns = max(slowest / _SLOWEST_LAYER, 1e-3)
        self.memory_unit_bytes = max(graph.memory_bytes / _FULL_MEMORY, 1e-3)
        self._add_variables()
        self._place_layers()
        self._fill_stages()
        if published_order:
            self._keep_contiguous()
        else:
            self._run_forward()
        self._couple_edges()
        self._cost_computation()
        self._cost_communication()
        self._fit_memory()
        self._bound_slowest()
        if cutoff_ns is not None:
            self._cut_off(cutoff_ns)

    # Variables

    def _add_variables(self) -> None:
        """Add y, x, p, o and the slowest cost, and the objective."""
        program, linear, graph = self.program, self.linear, self.program.graph
        deg, stages = program.stages, range(program.stages)
        self.y: list[Ints] = []
        for u, layer in enumerate(graph.layers):
            ways = [label(strategy) for strategy in layer.strategies]
            names = [
                f"y({u}_{label(layer.name)},{i},{way})" for i in stages for way in ways
            ]
            y = self._columns(names, (deg, len(ways)), integer=True)
            for i in stages:
                if not self.published_order and i not in self.reach.stages(u):
                    for column in y[i]:
                        linear.upper[column] = 0.0
            self.y.append(y)
        self.p = [linear.column(f"p({i})") for i in stages]
        self.o = [linear.column(f"o({j})") for j in stages[:-1]]
        self.slowest = linear.column("slowest")
        self.x: list[dict[tuple[int, int], Ints]] = []
        for number, edge in enumerate(graph.edges):
            rows, columns = len(edge.within_ns), len(edge.within_ns[0])
            x = {}
            for i, j in self._stage_pairs(edge):
                names = [
                    f"x({number},{i},{j},{k},{m})"
                    for k in range(rows)
                    for m in range(columns)
                ]
                x[i, j] = self._columns(names, (rows, columns), integer=False)
            self.x.append(x)
        linear.minimize(self._total())

    def _columns(
        self, names: list[str], shape: tuple[int, ...], *, integer: bool
    ) -> Ints:
        """Add columns between 0 and 1 and return their numbers."""
        numbers = [
            self.linear.column(name, upper=1.0, integer=integer) for name in names
        ]
        return np.array(numbers, dtype=np.int64).reshape(shape)

    def _total(self) -> Terms:
        """Return ``sum p + sum o + (c - 1) slowest``."""
        weights: Terms = dict.fromkeys([*self.p, *self.o], 1.0)
        weights[self.slowest] = float(self.program.microbatches - 1)
        return weights

    def _stage_pairs(self, edge: Edge) -> list[tuple[int, int]]:
        """Return the pairs of stages that the ends of an edge may lie on."""
        stages = range(self.program.stages)
        if self.published_order:
            return [(i, j) for i in stages for j in stages]
        longest = self.reach.between(edge.first, edge.second) + 1
        return [
            (i, j)
            for i in self.reach.stages(edge.first)
            for j in self.reach.stages(edge.second)
            if i <= j <= i + longest
        ]

    # Constraints

    def _place_layers(self) -> None:
        """(7a), (8): every layer has one stage and one strategy."""
        for u, y in enumerate(self.y):
            self.linear.equal(f"place({u})", weighted((y, 1.0)), 1.0)

    def _fill_stages(self) -> None:
        """(7b): every stage holds a layer."""
        for i in range(self.program.stages):
            on_stage = weighted(*((y[i], 1.0) for y in self.y))
            self.linear.row(f"fill({i})", on_stage, lower=1.0)

    def _run_forward(self) -> None:
        """No edge runs backwards: if v is on stage i or before, so is u.

        ``sum_{j <= i} P_uj >= sum_{j <= i} P_vj``, which summed over i is the
        ``sum_i i P_ui <= sum_i i P_vi`` of the reconstruction, and tighter.
        """
        for number, edge in enumerate(self.program.graph.edges):
            first, second = self.y[edge.first], self.y[edge.second]
            for i in range(self.program.stages - 1):
                ahead = weighted((first[: i + 1], 1.0), (second[: i + 1], -1.0))
                self.linear.row(f"forward({number},{i})", ahead, lower=0.0)

    def _keep_contiguous(self) -> None:
        """(6a)-(6c): no path leaves a stage and comes back to it."""
        linear, stages = self.linear, range(self.program.stages)
        names = [f"Z({u},{i})" for u in range(len(self.y)) for i in stages]
        z = self._columns(names, (len(self.y), len(stages)), integer=False)
        for i in stages:
            for v, y in enumerate(self.y):
                reached = weighted((z[v, i], 1.0), (y[i], -1.0))
                linear.row(f"reach({v},{i})", reached, lower=0.0)
            for number, edge in enumerate(self.program.graph.edges):
                u, v = edge.first, edge.second
                passed = weighted((z[v, i], 1.0), (z[u, i], -1.0))
                linear.row(f"pass({number},{i})", passed, upper=0.0)
                left = weighted(
                    (z[v, i], 1.0), (self.y[v][i], -1.0), (self.y[u][i], 1.0)
                )
                linear.row(f"leave({number},{i})", left, upper=1.0)

    def _couple_edges(self) -> None:
        """Make x the product of the y at its ends: its sums over either end are y."""
        edges = zip(self.program.graph.edges, self.x, strict=True)
        for number, (edge, x) in enumerate(edges):
            for i in range(self.program.stages):
                leaving = [x[at] for at in x if at[0] == i]
                arriving = [x[at] for at in x if at[1] == i]
                for k, state in enumerate(self.y[edge.first][i]):
                    tail = weighted(*((part[k], 1.0) for part in leaving))
                    tail[int(state)] = -1.0
                    self.linear.equal(f"tail({number},{i},{k})", tail, 0.0)
                for m, state in enumerate(self.y[edge.second][i]):
                    head = weighted(*((part[:, m], 1.0) for part in arriving))
                    head[int(state)] = -1.0
                    self.linear.equal(f"head({number},{i},{m})", head, 0.0)

    def _cost_computation(self) -> None:
        """(10): p_i adds up the layers of stage i and the resharding within it."""
        graph = self.program.graph
        costs = [self._times(layer.cost_ns) for layer in graph.layers]
        within = [self._times(edge.within_ns) for edge in graph.edges]
        for i, p in enumerate(self.p):
            cost = weighted(
                *((y[i], cost) for y, cost in zip(self.y, costs, strict=True)),
                *(
                    (x[i, i], cost)
                    for x, cost in zip(self.x, within, strict=True)
                    if (i, i) in x
                ),
            )
            cost[p] = -1.0
            self.linear.equal(f"compute({i})", cost, 0.0)

    def _cost_communication(self) -> None:
        """o_j adds up R' of the edges that cross the boundary after stage j."""
        across = [self._times(edge.across_ns) for edge in self.program.graph.edges]
        for boundary, o in enumerate(self.o):
            cost = weighted(
                *(
                    (columns, cost)
                    for x, cost in zip(self.x, across, strict=True)
                    for (i, j), columns in x.items()
                    if self._crosses(i, j, boundary)
                ),
            )
            cost[o] = -1.0
            self.linear.equal(f"communicate({boundary})", cost, 0.0)

    def _crosses(self, i: int, j: int, boundary: int) -> bool:
        """Whether an edge from stage i to j is charged on a boundary."""
        if self.published_order:
            return (i, j) == (boundary, boundary + 1)
        return i <= boundary < j

    def _fit_memory(self) -> None:
        """(11): the layers of a stage fit on its devices."""
        graph, unit = self.program.graph, self.memory_unit_bytes
        sizes = [np.array(layer.memory_bytes) / unit for layer in graph.layers]
        for i in range(self.program.stages):
            used = weighted(
                *((y[i], size) for y, size in zip(self.y, sizes, strict=True))
            )
            self.linear.row(f"memory({i})", used, upper=graph.memory_bytes / unit)

    def _bound_slowest(self) -> None:
        """``slowest`` is at least every p_i and every o_j."""
        for name, columns in (("p", self.p), ("o", self.o)):
            for number, column in enumerate(columns):
                self.linear.row(
                    f"slowest({name},{number})",
                    {column: 1.0, self.slowest: -1.0},
                    upper=0.0,
                )

    def _cut_off(self, cutoff_ns: int) -> None:
        """Limit the objective to the cutoff."""
        limit = cutoff_ns / self.time_unit_ns * (1 + _CUTOFF_SLACK)
        self.linear.row("cutoff", self._total(), upper=limit)

    # Solutions

    def exclude(self, together: Iterable[tuple[int, int]]) -> None:
        """Keep layers that together exceed the memory from sharing a stage.

        Parameters
        ----------
        together
            Pairs of layer and strategy that no stage can hold together.
        """
        pairs = list(together)
        cover = len(self.linear.row_names)
        for i in range(self.program.stages):
            chosen: Terms = {int(self.y[u][i, k]): 1.0 for u, k in pairs}
            self.linear.row(f"cover({cover},{i})", chosen, upper=len(pairs) - 1.0)

    def extract(self, values: Floats) -> UniapChoice:
        """Return P and S from the values of all columns."""
        stage, strategy = [], []
        for y in self.y:
            i, k = np.unravel_index(int(np.argmax(values[y])), y.shape)
            stage.append(int(i))
            strategy.append(int(k))
        return UniapChoice(stage=tuple(stage), strategy=tuple(strategy))

    def columns_of(self, choice: UniapChoice) -> Mapping[int, float]:
        """Return the values 0 or 1 of all columns y for a choice, to start a solver."""
        places = zip(self.y, choice.stage, choice.strategy, strict=True)
        chosen = {int(y[i, k]) for y, i, k in places}
        return {
            int(column): float(int(column) in chosen)
            for y in self.y
            for column in y.ravel()
        }

    def _times(self, times_ns: Sequence[int] | Sequence[Sequence[int]]) -> Floats:
        return np.array(times_ns, dtype=float) / self.time_unit_ns


def weighted(*parts: tuple[Ints, Floats | float]) -> Terms:
    """Return distinct columns times weights of their shape, or one weight for all."""
    terms: Terms = {}
    for columns, weights in parts:
        terms.update(
            zip(
                np.ravel(columns).tolist(),
                np.ravel(np.broadcast_to(weights, np.shape(columns))).tolist(),
                strict=True,
            )
        )
    return terms


def label(name: str) -> str:
    """Return a name that LP files accept."""
    return re.sub(r"[^A-Za-z0-9_.]", "_", name)
