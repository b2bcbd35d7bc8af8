"""What the latency table asks of a source of compute times.

A source answers for the *computation* of one unit's shard; the table adds the
communication of tensor and context parallelism and of ZeRO, and recomputation.
A source may say that its times hold tensor parallelism's communication already.
Sources are asked once per cluster with all rows at once: a random forest takes
tens of milliseconds per call, for one row or for thousands.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.cost.shapes import Shape
    from hetopt.cost.table.table import SourceKind
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.model.model import Model
    from hetopt.problem.training.training import Training


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardQuery:
    """Shards of a model on a cluster's devices whose times are asked for.

    Attributes
    ----------
    kinds
        Kinds of units; N of them.
    shape
        R shards of each.
    """

    model: Model
    training: Training
    cluster: Cluster
    kinds: tuple[str, ...]
    shape: Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardTimes:
    """Compute seconds of one unit of each kind, per row; shape (R, N).

    Attributes
    ----------
    forward_s
        Forward pass.
    backward_s
        Backward pass without recomputation.
    attention_core_s
        The part of ``forward_s`` that selective recomputation repeats and behind
        which context parallelism hides its ring; 0 for kinds without attention.
    attention_core_backward_s
        The same part of ``backward_s``.
    weight_s
        The part of ``backward_s`` that computes gradients of weights.
    communicates
        Whether times hold the tensor-parallel communication too, which is then not
        added; (R, N), nowhere by default.
    update_s_per_parameter
        What the optimizer takes for a parameter; None if the source does not know.
    sharding
        Share of their rate at which ZeRO-2's and ZeRO-3's collectives of every
        micro-batch run; above 1 where iterations hide a part of them.
    tensor
        Share of their rate at which tensor parallelism's collectives run.
    """

    forward_s: NDArray[np.float64]
    backward_s: NDArray[np.float64]
    attention_core_s: NDArray[np.float64]
    attention_core_backward_s: NDArray[np.float64]
    weight_s: NDArray[np.float64]
    communicates: NDArray[np.bool_] = field(
        default_factory=lambda: np.zeros(0, dtype=np.bool_)
    )
    update_s_per_parameter: float | None = None
    sharding: float = 1.0
    tensor: float = 1.0

    def __post_init__(self) -> None:
        if not self.communicates.size:
            nowhere = np.zeros(self.forward_s.shape, dtype=np.bool_)
            object.__setattr__(self, "communicates", nowhere)


class LatencySource(Protocol):
    """Something that knows how long a shard computes on a cluster's devices."""

    def source_kind(self, cluster: Cluster) -> SourceKind:
        """Say whether the cluster's times are measured, published or modelled."""
        ...

    def shard_times(self, query: ShardQuery) -> ShardTimes:
        """Return the compute times that are asked for."""
        ...
