"""Layouts and boundary times of one micro-batch count."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.boundaries.resharding import Side, boundary, tied_exchange_s
from hetopt.cost.memory import parameter_bytes
from hetopt.cost.ranges import nanoseconds
from hetopt.cost.shapes import element_bytes
from hetopt.cost.table import ClusterTable, Layout, TableSlice
from hetopt.cost.units import tables

if TYPE_CHECKING:
    from hetopt.problem.problem import Problem
    from hetopt.problem.training import Resharding


def table_slice(
    problem: Problem,
    microbatches: int,
    tables: list[ClusterTable],
    cut_classes: tuple[str, ...],
    permitted: tuple[Resharding, ...],
) -> TableSlice:
    """Add layouts and boundaries to the clusters' coefficients."""
    numbered, layouts, spans = _with_layouts(tables)
    count = len(layouts)
    shape = (len(cut_classes), count, count)
    transfer, occupancy = np.zeros(shape), np.zeros(shape)
    resharding = np.zeros(shape, dtype=np.int64)
    tied = np.zeros((count, count)) if problem.model.tied else None
    batch_slices = np.array([layout.dp for layout in layouts], dtype=np.int64)
    token_slices = np.array([layout.shards for layout in layouts], dtype=np.int64)
    for cluster, rows in zip(problem.clusters, spans, strict=True):
        sender = Side(
            cluster=cluster,
            dp=batch_slices[rows, None],
            shards=token_slices[rows, None],
        )
        for other, columns in zip(problem.clusters, spans, strict=True):
            receiver = Side(
                cluster=other,
                dp=batch_slices[None, columns],
                shards=token_slices[None, columns],
            )
            for place, cut in enumerate(cut_classes):
                total = boundary_bytes(problem, microbatches, cut)
                if total == 0:
                    continue
                found_boundary = boundary(
                    sender, receiver, problem.links, total, permitted
                )
                at = (place, rows, columns)
                transfer[at] = found_boundary.transfer_s
                occupancy[at] = found_boundary.occupancy_s
                resharding[at] = found_boundary.strategy
            if tied is not None:
                tied[rows, columns] = tied_exchange_s(
                    sender, receiver, problem.links, tied_bytes(problem)
                )
    transfer_ns = np.where(transfer > 0, np.maximum(nanoseconds(transfer), 1), 0)
    return TableSlice(
        microbatches=microbatches,
        clusters=numbered,
        layouts=layouts,
        transfer_ns=transfer_ns,
        occupancy_ns=np.minimum(np.maximum(nanoseconds(occupancy), 1), transfer_ns),
        resharding=resharding,
        tied_ns=None if tied is None else nanoseconds(tied),
    )


def _with_layouts(
    tables: list[ClusterTable],
) -> tuple[tuple[ClusterTable, ...], tuple[Layout, ...], list[slice]]:
    """Return the tables with their layouts' numbers, and each cluster's span."""
    layouts: list[Layout] = []
    numbered, spans = [], []
    for index, table in enumerate(tables):
        start = len(layouts)
        found = sorted({(s.dp, s.cp * s.tp) for s in table.strategies})
        layouts += [Layout(cluster=index, dp=dp, shards=shards) for dp, shards in found]
        number = {key: start + place for place, key in enumerate(found)}
        layout = [number[s.dp, s.cp * s.tp] for s in table.strategies]
        numbered.append(replace(table, layout=np.array(layout, dtype=np.int64)))
        spans.append(slice(start, len(layouts)))
    return tuple(numbered), tuple(layouts), spans


def boundary_bytes(
    problem: Problem, microbatches: int, cut: str, *, within: bool = False
) -> float:
    """Bytes of one micro-batch's tensors of a cut class, over all replicas.

    Parameters
    ----------
    within
        Of what stays within a stage; otherwise of what crosses to the next.
    """
    training = problem.training
    tensors = problem.model.cut_tensors(cut, training.seq_len, within=within)
    elements = sum(tokens * width for tokens, width in tensors)
    sequences = training.global_batch // microbatches
    return float(sequences * elements * element_bytes(training.precision))


def tied_bytes(problem: Problem) -> float:
    """Bytes of the gradient of a tied embedding table.

    If later tokens have a third copy, the ring of three moves more bytes; these are
    counted, wherever that copy is.
    """
    model = problem.model
    gradient = parameter_bytes(problem.training).gradient
    copies = tables(model)
    return float(model.hidden * model.vocab * gradient) * (2 * (copies - 1) / copies)
