"""A slice of the table with only some strategies of each cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.cost.table.slice import TableSlice


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


def _take(cluster: ClusterTable, index: NDArray[np.int64]) -> ClusterTable:
    kept: dict[str, Any] = {
        name: column[index] for name, column in cluster.columns().items()
    }
    strategies = tuple(cluster.strategies[i] for i in index)
    return replace(cluster, strategies=strategies, **kept)
