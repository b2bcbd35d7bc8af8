"""Layer graphs of a problem: what UniAP's program reads, from hetopt's cost model.

A layer's strategies are (dp, tp) of a stage's devices, with replicated states
(``dp2-tp2``: DDP, ZeRO-0) or fully sharded ones (``fsdp2-tp2``: ZeRO-3), and a
recomputation policy where the problem permits more than none. The graph is the
model's units, embedding and head among them, as a chain.

Where the program is coarser than MODEL.md:

- Gradients are reduced once per iteration, but the program counts costs per
  micro-batch: a layer's share of g is spread over the c micro-batches, which is exact
  for the slowest stage. What g has once per stage is left out.
- A device keeps its largest receive buffers and short-lived tensors free, over all
  strategies, because the program's memory adds up layers only. Never optimistic.
- Gradients of tied embeddings are not exchanged.
- Sharding within groups of replicas (dp x fsdp) is not on offer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.boundaries import boundary_bytes, nanoseconds
from hetopt.cost.build import build_table
from hetopt.cost.collectives import all_gather_s
from hetopt.cost.layer_graph import Edge, Layer, LayerGraph
from hetopt.cost.resharding import Side, boundary, permitted_strategies
from hetopt.errors import InputError

if TYPE_CHECKING:
    from hetopt.cost.layer_graph import Matrix
    from hetopt.cost.operations import Floats, Ints
    from hetopt.cost.source import LatencySource
    from hetopt.cost.table import CostTable
    from hetopt.plan import Strategy
    from hetopt.problem.problem import Problem

#: ZeRO stage by the name a strategy begins with.
_SHARDINGS = {"dp": 0, "fsdp": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """The K strategies of one stage, and their coefficients by kind; (K, N)."""

    names: tuple[str, ...]
    dp: Ints
    tp: Ints
    cost_ns: Ints
    memory_bytes: Ints
    overhead_bytes: int


class LayerCosts:
    """Makes layer graphs for the (pp_size, c) of one problem.

    Raises
    ------
    InputError
        The problem has more than one cluster, or a pin leaves nothing.
    """

    def __init__(self, problem: Problem, source: LatencySource | None = None) -> None:
        if len(problem.clusters) != 1:
            msg = f"{len(problem.clusters)} clusters, but UniAP plans for one"
            raise InputError(msg, field="clusters")
        self._problem = problem
        self._tables: dict[str, CostTable] = {
            name: build_table(
                replace(problem, training=replace(problem.training, zero=zero)), source
            )
            for name, zero in _SHARDINGS.items()
        }

    def graph(self, stages: int, microbatches: int) -> LayerGraph | None:
        """Return the graph for stages of equal size; None if no strategy fits."""
        cluster = self._problem.clusters[0]
        devices, rest = divmod(cluster.devices, stages)
        if rest:
            return None
        options = self._options(devices, microbatches)
        if options is None:
            return None
        table = self._tables["dp"]
        layers = tuple(
            Layer(
                name=f"{table.kinds[kind]}-{number}",
                strategies=options.names,
                cost_ns=tuple(options.cost_ns[:, kind].tolist()),
                memory_bytes=tuple(options.memory_bytes[:, kind].tolist()),
            )
            for number, kind in enumerate(table.units)
        )
        costs = [
            self._resharding(options, devices, microbatches, cut)
            for cut in table.cut_classes
        ]
        edges = tuple(
            Edge(
                first=number,
                second=number + 1,
                within_ns=costs[cut][0],
                across_ns=costs[cut][1],
            )
            for number, cut in enumerate(table.cuts)
        )
        memory = table.usable_bytes[0] - options.overhead_bytes
        if memory <= 0:
            return None
        return LayerGraph(layers=layers, edges=edges, memory_bytes=memory)

    def _options(self, devices: int, microbatches: int) -> _Options | None:
        """Collect the strategies of both shardings."""
        names: list[str] = []
        dp, tp, cost, memory = [], [], [], []
        overhead = 0
        for sharding, table in self._tables.items():
            found = [part for part in table.slices if part.microbatches == microbatches]
            for part in found:
                rows = part.clusters[0]
                for row, strategy in enumerate(rows.strategies):
                    if strategy.devices != devices or strategy.cp != 1:
                        continue
                    if sharding == "fsdp" and strategy.dp == 1:
                        continue
                    names.append(_name(sharding, strategy))
                    dp.append(strategy.dp)
                    tp.append(strategy.tp)
                    shared = -(-rows.sync_unit_ns[row] // microbatches)
                    cost.append(rows.forward_ns[row] + rows.backward_ns[row] + shared)
                    kept = microbatches * rows.activation_bytes[row]
                    memory.append(rows.state_bytes[row] + kept)
                    most = rows.fixed_bytes[row] + rows.temporary_bytes[row].max()
                    overhead = max(overhead, int(most))
        if not names:
            return None
        return _Options(
            names=tuple(names),
            dp=np.array(dp, dtype=np.int64),
            tp=np.array(tp, dtype=np.int64),
            cost_ns=np.stack(cost),
            memory_bytes=np.stack(memory),
            overhead_bytes=overhead,
        )

    def _resharding(
        self, options: _Options, devices: int, microbatches: int, cut: str
    ) -> tuple[Matrix, Matrix]:
        """Return R and R' of a cut, forward and backward together."""
        problem, cluster = self._problem, self._problem.clusters[0]
        total = boundary_bytes(problem, microbatches, cut)
        sender = Side(
            cluster=cluster, dp=options.dp[:, None], shards=options.tp[:, None]
        )
        receiver = Side(
            cluster=cluster, dp=options.dp[None, :], shards=options.tp[None, :]
        )
        permitted = permitted_strategies(problem.pins.resharding)
        across = boundary(sender, receiver, problem.links, total, permitted).transfer_s
        # Ranks that hold a common piece under either layout swap their shares: an
        # all-to-all, which moves per rank what gathering one share would.
        common = np.gcd(sender.shards, receiver.shards)
        size = np.lcm(sender.shards, receiver.shards) // common
        share = np.full(size.shape, total / devices)
        within = all_gather_s(cluster, size, common, share)
        return _matrix(2 * within), _matrix(2 * across)


def _name(sharding: str, strategy: Strategy) -> str:
    name = f"{sharding}{strategy.dp}-tp{strategy.tp}"
    if strategy.recompute != "none":
        name += f"-{strategy.recompute}"
    return name


def _matrix(seconds: Floats) -> Matrix:
    return tuple(map(tuple, nanoseconds(seconds).tolist()))
