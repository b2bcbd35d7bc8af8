"""A slice of the table with only some strategies of each cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from hetopt.cost.table import ClusterTable, TableSlice

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
    "weight_ns",
    "weight_bytes",
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


def _take(cluster: ClusterTable, index: NDArray[np.int64]) -> ClusterTable:
    columns: dict[str, Any] = {name: getattr(cluster, name) for name in _COLUMNS}
    kept = {name: each[index] for name, each in columns.items() if each is not None}
    strategies = tuple(cluster.strategies[i] for i in index)
    return replace(cluster, strategies=strategies, **kept)
