"""The interface of sources of compute times for the latency table.

A source returns times of the *computation* of one unit's shard; the table adds the
communication of tensor and context parallelism and of ZeRO, and recomputation.
A source may state that its times already include tensor-parallel communication.
A source is called once per cluster with all rows: a forest takes tens of
milliseconds per call, for one row as for thousands.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

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
    """Query for the times of a model's shards on a cluster's devices.

    Attributes
    ----------
    kinds
        Kinds of units; N of them.
    shape
        R shards of each kind.
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
        The part of ``forward_s`` that selective recomputation repeats and that hides
        the ring of context parallelism; 0 for kinds without attention.
    attention_core_backward_s
        The same part of ``backward_s``.
    weight_s
        The part of ``backward_s`` that computes gradients of weights.
    communicates
        Whether times include tensor-parallel communication, which is then not added;
        (R, N), False by default.
    update_s_per_parameter
        Seconds of the optimizer per parameter; None if unknown.
    sharding
        Share of their nominal rate at which ZeRO-2's and ZeRO-3's collectives of every
        micro-batch run; above 1 if iterations hide a part of them.
    sharding_beside
        Whether they run beside computation.
    tensor, dispatch
        Shares of their nominal rate at which tensor-parallel collectives, and the
        all-to-alls of experts' tokens run.
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
    sharding_beside: bool = False
    tensor: float = 1.0
    dispatch: float = 1.0

    def __post_init__(self) -> None:
        if not self.communicates.size:
            nowhere = np.zeros(self.forward_s.shape, dtype=np.bool_)
            object.__setattr__(self, "communicates", nowhere)


class Sizes(NamedTuple):
    """Sizes on which times depend: those measured (K, D), and those wanted (R, D)."""

    what: str
    names: tuple[str, ...]
    known: NDArray[np.float64]
    wanted: NDArray[np.float64]


class LatencySource(Protocol):
    """Source of the compute times of shards on a cluster's devices."""

    def source_kind(self, cluster: Cluster) -> SourceKind:
        """Return how the cluster's times were obtained; see ``SourceKind``."""
        ...

    def shard_times(self, query: ShardQuery) -> ShardTimes:
        """Return the compute times of a query."""
        ...
