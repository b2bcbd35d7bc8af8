"""Layer graphs of a latency table: the input of UniAP's program.

The graph's layers are the model's units, including embedding and head; its edges are
the tensors between units. Strategies have UniAP's names: ``dp2-tp2`` (DDP),
``fsdp2-tp2`` (ZeRO-3).

The program is coarser than MODEL.md:

- Forward and backward have one common cost; so have both directions of resharding.
- Gradients are reduced once per iteration, but the program counts costs per
  micro-batch: a layer's share of g is spread over the c micro-batches, which is exact
  for the slowest stage. The part of g per stage is left out.
- Memory for the largest boundary buffers and temporary tensors over all strategies is
  reserved on every device, since the program only adds up layers; never optimistic.
- Gradients of tied embeddings are not exchanged.
- The context of a decoder crosses a boundary once, with the decoder's own tensor;
  later layers with other layouts get it at no cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.cost.per_unit.layer_graph import Edge, GraphLayer, LayerGraph, Matrix
from hetopt.cost.table.table import CostTable, UnitTable
from hetopt.cost.table.ticks import LONGEST_NS
from hetopt.errors import InputError
from hetopt.schedule.schedules import rule_of

if TYPE_CHECKING:
    from hetopt.cost.shapes import Ints


def unit_costs(table: CostTable) -> UnitTable:
    """Return the part of the table from which UniAP's program is built.

    Raises
    ------
    InputError
        UniAP cannot plan the problem (several clusters, or a schedule that does not run
        all forwards first), or the table has no costs per unit.
    """
    clusters = len(table.cluster_names)
    if clusters != 1:
        msg = f"{counted(clusters, 'cluster')}, but UniAP plans for one"
        raise InputError(msg, field="clusters")
    if not rule_of(table.schedule).all_first:
        msg = f"is {table.schedule}, but UniAP plans gpipe (--schedule gpipe)"
        raise InputError(msg, field="training.schedule")
    if table.per_unit is None:
        msg = "the table has no costs per unit: make a new one with `hetopt table`"
        raise InputError(msg, field="per_unit")
    return table.per_unit


def rows_of(table: CostTable, stages: int, microbatches: int) -> tuple[int, ...]:
    """Return the strategies that use all devices of one of ``stages`` equal stages.

    The program does not count the part of g per stage, so strategies for which it is
    longer than any iteration are left out here.
    """
    costs = unit_costs(table)
    devices, rest = divmod(table.cluster_devices[0], stages)
    if rest or all(part.microbatches != microbatches for part in costs.slices):
        return ()
    rows = costs.at(microbatches).clusters[0]
    return tuple(
        row
        for row, strategy in enumerate(rows.strategies)
        if strategy.devices == devices
        and rows.max_stages[row] >= stages
        and rows.sync_ns[row] <= LONGEST_NS
    )


def layer_graph(table: CostTable, stages: int, microbatches: int) -> LayerGraph | None:
    """Return the graph for stages of equal size; None if no strategy fits.

    Strategies of every layer are those of ``rows_of``, in the same order.

    Raises
    ------
    InputError
        As ``unit_costs``.
    """
    costs = unit_costs(table)
    keep = list(rows_of(table, stages, microbatches))
    if not keep:
        return None
    part = costs.at(microbatches)
    rows = part.clusters[0]
    # Rounded up, so that costs are never too low.
    shared = -(-rows.sync_unit_ns[keep] // microbatches)
    cost = rows.forward_ns[keep] + rows.backward_ns[keep] + shared
    # GPipe keeps the activations of all micro-batches.
    memory = rows.state_bytes[keep] + microbatches * rows.activation_bytes[keep]
    most = rows.fixed_bytes[keep] + rows.temporary_bytes[keep].max(axis=1)
    left = table.usable_bytes[0] - int(most.max())
    if left <= 0 or part.within_ns is None:
        return None
    names = tuple(rows.strategies[row].label for row in keep)
    layers = tuple(
        GraphLayer(
            name=f"{table.kinds[kind]}-{number}",
            strategies=names,
            cost_ns=tuple(cost[:, kind].tolist()),
            memory_bytes=tuple(memory[:, kind].tolist()),
        )
        for number, kind in enumerate(table.units)
    )
    layouts = rows.layout[keep]
    within = [_both_ways(matrix, layouts) for matrix in part.within_ns]
    across = [_both_ways(matrix, layouts) for matrix in part.transfer_ns]
    nothing = tuple((0,) * len(keep) for _ in keep)
    tensors = {
        (u, v): Edge(
            first=u, second=v, within_ns=within[tensor], across_ns=across[tensor]
        )
        for u, v, tensor in costs.edges
    }
    # Stages have consecutive units: these edges keep the order without a tensor.
    for u in range(len(layers) - 1):
        order = Edge(first=u, second=u + 1, within_ns=nothing, across_ns=nothing)
        tensors.setdefault((u, u + 1), order)
    edges = tuple(tensors[ends] for ends in sorted(tensors))
    return LayerGraph(layers=layers, edges=edges, memory_bytes=left)


def _both_ways(one_way_ns: Ints, layouts: Ints) -> Matrix:
    """Return the times between the layouts of strategies, in both directions."""
    return tuple(
        map(tuple, (2 * one_way_ns[layouts[:, None], layouts[None, :]]).tolist())
    )
