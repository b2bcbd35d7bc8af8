"""A latency source that caches each shard's times, for many tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from hetopt.cost.sources.source import LatencySource, ShardQuery, ShardTimes
    from hetopt.cost.table.table import SourceKind
    from hetopt.problem.cluster.cluster import Cluster

#: Fields of ``ShardTimes`` with one row per shard.
_ARRAYS = (
    "forward_s",
    "backward_s",
    "attention_core_s",
    "attention_core_backward_s",
    "weight_s",
    "communicates",
)


class RememberedSource:
    """Latency source that caches another's times by cluster, kinds and shard.

    All queries must have the same model and the same training settings except the
    batch and the ZeRO stage. Parts of a cluster have its name and share its times: a
    shard takes equally long on them.
    """

    def __init__(self, source: LatencySource) -> None:
        self._source = source
        self._rows: dict[object, dict[tuple[int, ...], int]] = {}
        self._times: dict[object, ShardTimes] = {}

    def source_kind(self, cluster: Cluster) -> SourceKind:
        """Return the source's own answer."""
        return self._source.source_kind(cluster)

    def shard_times(self, query: ShardQuery) -> ShardTimes:
        """Return times, after a query of the source for shards that are new."""
        place = (query.cluster.name, query.kinds)
        rows = self._rows.setdefault(place, {})
        asked = [*zip(*(part.tolist() for part in query.shape.columns), strict=True)]
        new: dict[tuple[int, ...], int] = {}
        for index, row in enumerate(asked):
            if row not in rows:
                new.setdefault(row, index)
        if new or place not in self._times:
            at = np.array([*new.values()], dtype=np.intp)
            own = replace(query, shape=query.shape.take(at))
            found, known = self._source.shard_times(own), self._times.get(place)
            for row in new:
                rows[row] = len(rows)
            if known is not None:
                joined: dict[str, Any] = {
                    name: np.concatenate((getattr(known, name), getattr(found, name)))
                    for name in _ARRAYS
                }
                found = replace(known, **joined)
            self._times[place] = found
        times = self._times[place]
        at = np.array([rows[row] for row in asked], dtype=np.intp)
        taken: dict[str, Any] = {name: getattr(times, name)[at] for name in _ARRAYS}
        return replace(times, **taken)
