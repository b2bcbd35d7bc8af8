"""Leave out strategies that another one of their cluster can replace at no cost.

Every bound of ``check`` rises with each time, byte and device of a strategy, so it
stays the same without strategies that are nowhere below another one. Plans that are
found are priced with the unchanged table.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.check.verify.fills import replaced
from hetopt.check.verify.weights import unit_times
from hetopt.cost.table.cluster import ClusterTable
from hetopt.cost.table.slice import TableSlice

if TYPE_CHECKING:
    from numpy.typing import NDArray


def without_replaced(part: TableSlice) -> TableSlice:
    """Return a slice without strategies that another one of the cluster replaces."""
    return replace(
        part, clusters=tuple(_kept(part, cluster) for cluster in part.clusters)
    )


def _kept(part: TableSlice, cluster: ClusterTable) -> ClusterTable:
    if not cluster.strategies:
        return cluster
    gone = np.zeros(len(cluster.strategies), dtype=np.bool_)
    replaced(_columns(part, cluster), gone)
    return with_rows(cluster, np.flatnonzero(~gone))


def with_rows(cluster: ClusterTable, rows: NDArray[np.intp]) -> ClusterTable:
    """Return a cluster with some of its strategies only."""
    arrays: dict[str, Any] = {
        name: column[rows] for name, column in cluster.columns().items()
    }
    return replace(
        cluster, strategies=tuple(cluster.strategies[k] for k in rows), **arrays
    )


def _columns(part: TableSlice, cluster: ClusterTable) -> NDArray[np.int64]:
    """Return all that bounds read, one row per strategy, such that less is better."""
    own, times = cluster.layout, unit_times(cluster)
    columns = [
        cluster.forward_ns,
        cluster.backward_ns,
        times.fill,
        times.handed_on,
        times.end,
        cluster.state_bytes,
        cluster.activation_bytes,
        cluster.temporary_bytes,
        cluster.fixed_bytes,
        cluster.sync_ns,
        cluster.sync_unit_ns,
        cluster.devices,
        -cluster.max_stages,
    ]
    if cluster.weight_ns is not None:
        columns += [cluster.weight_ns, cluster.backward_ns - cluster.weight_ns]
    boundaries = [*part.transfer_ns, *part.occupancy_ns]
    if part.tied_ns is not None:
        boundaries.append(part.tied_ns)
    for between in boundaries:
        columns += [between[own, own], between[own, :], between[:, own].T]
    rows = [column.reshape(len(own), -1) for column in columns]
    table: NDArray[np.int64] = np.ascontiguousarray(np.concatenate(rows, axis=1))
    return table
