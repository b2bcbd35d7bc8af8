"""The strategies worth looking at: what the pins leave, less what is dominated."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hetopt.cost.table import ClusterTable, TableSlice
    from hetopt.problem.training import ScheduleName

#: Per-strategy fields of a ClusterTable, all indexed by strategy first.
_COLUMNS = (
    "microbatch",
    "devices",
    "max_stages",
    "layout",
    "forward_ns",
    "backward_ns",
    "state_bytes",
    "activation_bytes",
    "temporary_bytes",
    "fixed_bytes",
    "sync_ns",
    "sync_unit_ns",
)


def restrict(part: TableSlice, keep: Sequence[NDArray[np.int64]]) -> TableSlice:
    """Return the slice with only the kept strategies of each cluster.

    Parameters
    ----------
    keep
        Per cluster, indices of the strategies to keep, ascending.
    """
    return replace(
        part,
        clusters=tuple(
            _take(cluster, index)
            for cluster, index in zip(part.clusters, keep, strict=True)
        ),
    )


def undominated(part: TableSlice, schedule: ScheduleName) -> TableSlice:
    """Return the slice without strategies that no reported plan needs.

    Strategy k is left out when another strategy k' of the same cluster is at least
    as good in every coefficient a program reads: time of every kind in either
    direction, memory of every kind, devices, synchronisation, and every boundary
    to or from any layout and between two stages of its own. Replacing k by k'
    throughout a plan then keeps it feasible and makes nothing slower. The reported
    plan is the same: k' either makes every plan faster, or needs fewer devices, or
    comes first in the tie rule.

    Under ``h-1f1b`` a faster stage or boundary can change warm-up counts for the
    worse, so there k' must equal k in every time.
    """
    exact = schedule == "h-1f1b"
    return restrict(
        part,
        [_undominated(part, cluster, exact=exact) for cluster in part.clusters],
    )


def _take(cluster: ClusterTable, index: NDArray[np.int64]) -> ClusterTable:
    return replace(
        cluster,
        strategies=tuple(cluster.strategies[i] for i in index),
        **{name: getattr(cluster, name)[index] for name in _COLUMNS},
    )


def _undominated(
    part: TableSlice, cluster: ClusterTable, *, exact: bool
) -> NDArray[np.int64]:
    count = len(cluster.strategies)
    if count == 0:
        return np.arange(0)
    times = np.hstack(
        [
            cluster.forward_ns,
            cluster.backward_ns,
            cluster.sync_ns[:, None],
            cluster.sync_unit_ns,
            _boundary_rows(part, cluster),
        ]
    )
    sizes = np.hstack(
        [
            cluster.state_bytes,
            cluster.activation_bytes,
            cluster.temporary_bytes,
            cluster.fixed_bytes[:, None],
            cluster.devices[:, None],
        ]
    )
    fill = cluster.forward_ns + cluster.backward_ns
    kept: list[int] = []
    for k in range(count):
        no_slower = (
            (times == times[k]).all(axis=1)
            if exact
            else (times <= times[k]).all(axis=1)
        )
        better = no_slower & (sizes <= sizes[k]).all(axis=1)
        # A plan with k' must also win, or keep, every tie.
        wins = (
            (fill < fill[k]).all(axis=1)
            | (cluster.devices < cluster.devices[k])
            | (np.arange(count) < k)
        )
        better[k] = False
        if not (better & wins).any():
            kept.append(k)
    return np.array(kept, dtype=np.int64)


def _boundary_rows(part: TableSlice, cluster: ClusterTable) -> NDArray[np.int64]:
    """Every boundary time of each strategy, as one row per strategy."""
    layout = cluster.layout
    rows = []
    for matrix in (part.transfer_ns, part.occupancy_ns):
        rows += [
            np.moveaxis(matrix[:, layout, :], 1, 0).reshape(len(layout), -1),
            np.moveaxis(matrix[:, :, layout], 2, 0).reshape(len(layout), -1),
            matrix[:, layout, layout].T,
        ]
    if part.tied_ns is not None:
        # With p = 1 a layout may be first and last at once, but then nothing is tied.
        rows += [part.tied_ns[layout, :], part.tied_ns[:, layout].T]
        rows.append(part.tied_ns[layout, layout][:, None])
    return np.hstack(rows)
