"""Times and memory of stages whose chunks differ, from the table of the whole model."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hetopt.schedule.shares import sharing_of
from hetopt.schedule.times import Chunks, PipelineTimes, Uneven
from hetopt.schedule.warmup import held_by_chunk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable

    Ints = NDArray[np.int64]
    #: Cluster, its coefficients, and the row of the strategy.
    Row = tuple[int, ClusterTable, int]


def counts_by_chunk(table: CostTable) -> Ints:
    """Return the units of each kind in each chunk of a layout; shape (p, v, N)."""
    assert table.layout is not None
    ends = (0, *table.layout)
    found = [
        np.bincount(table.units[first:end], minlength=len(table.kinds))
        for first, end in pairwise(ends)
    ]
    return np.stack(found).reshape(table.chunks, -1, len(table.kinds)).swapaxes(0, 1)


def uneven_times(
    table: CostTable, part: TableSlice, rows: Sequence[Row], warmups: tuple[int, ...]
) -> PipelineTimes:
    """Return the times of a pipeline with a table's layout.

    Parameters
    ----------
    rows
        Of every stage.

    Raises
    ------
    ValueError
        As ``PipelineTimes``.
    """
    counts, layouts = counts_by_chunk(table), [int(own.layout[k]) for _, own, k in rows]
    p, v, _ = counts.shape
    transfer, occupancy = (
        _crossings(table, each, layouts, p, v)
        for each in (part.transfer_ns, part.occupancy_ns)
    )
    forward, backward, syncs = (
        [counts[i] @ getattr(own, name)[k] for i, (_, own, k) in enumerate(rows)]
        for name in ("forward_ns", "backward_ns", "sync_unit_ns")
    )
    sync = [
        int(own.sync_ns[k]) + int(each.sum())
        for (_, own, k), each in zip(rows, syncs, strict=True)
    ]
    if part.tied_ns is not None:
        tied = int(part.tied_ns[layouts[0], layouts[-1]])
        sync[0], sync[-1] = sync[0] + tied, sync[-1] + tied
    longest = tuple(map(max, occupancy))
    clusters = [j for j, _, _ in rows]
    sharing = sharing_of(part.shared, table.schedule, clusters, longest)
    return PipelineTimes(
        schedule=table.schedule,
        microbatches=part.microbatches,
        forward_ns=tuple(-(-int(each.sum()) // v) for each in forward),
        backward_ns=tuple(-(-int(each.sum()) // v) for each in backward),
        transfer_ns=tuple(map(max, transfer[:-1])),
        occupancy_ns=longest[:-1],
        sync_ns=tuple(sync),
        warmups=warmups,
        sharing=sharing,
        chunks=Chunks(
            count=v,
            way_back_ns=max(transfer[-1]),
            way_back_occupancy_ns=longest[-1],
            uneven=Uneven(
                forward_ns=tuple(tuple(map(int, each)) for each in forward),
                backward_ns=tuple(tuple(map(int, each)) for each in backward),
                transfer_ns=transfer,
                occupancy_ns=occupancy,
            ),
        ),
    )


def _crossings(
    table: CostTable, spent: Ints, layouts: Sequence[int], p: int, v: int
) -> tuple[tuple[int, ...], ...]:
    """Return what transfers take, by boundary and chunk; the way back's last."""
    assert table.layout is not None
    found = []
    for i in range(p):
        ends = table.layout[i : len(table.layout) - 1 : p]
        here, there = layouts[i], layouts[(i + 1) % p]
        own = [int(spent[table.cuts[end - 1], here, there]) for end in ends]
        found.append((*own, *[0] * (v - len(own))))
    return tuple(found)


def uneven_bytes(
    table: CostTable, microbatches: int, stage: int, row: Row
) -> tuple[int, int]:
    """Return the bytes that a device of a stage needs, and those of activations.

    Parameters
    ----------
    stage
        Of p; MODEL.md, section 5.
    """
    counts, (_, own, k) = counts_by_chunk(table)[stage], row
    p = len(table.layout or ()) // table.chunks
    held = held_by_chunk(p, table.chunks, microbatches, stage)
    active = int((held @ (counts @ own.activation_bytes[k])).max())
    every = counts.sum(axis=0)
    resting = int(own.fixed_bytes[k]) + int(every @ own.state_bytes[k])
    return resting + active + int(own.temporary_bytes[k][every > 0].max()), active
