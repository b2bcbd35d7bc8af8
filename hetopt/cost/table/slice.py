"""The coefficients of a latency table at one micro-batch count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.schedule.shares import SharedLinks


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a stage's boundary tensor is divided among its devices.

    ``[b / dp, s / (cp * tp), width]`` per device (HetAuto section 5.2): boundary
    costs depend on nothing else of a strategy.
    """

    cluster: int
    dp: int
    shards: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableSlice:
    """All coefficients at one micro-batch count q; A layouts, X cut classes.

    Attributes
    ----------
    transfer_ns, occupancy_ns
        kappa and omega of a boundary from layout a to layout a' for a cut of class
        x; shape (X, A, A). Inside a cluster as well as across.
    resharding
        Index into ``RESHARDING`` of the strategy that achieves ``transfer_ns``.
    tied_ns
        What tied embeddings add to g of the first and of the last stage, by their
        layouts, when p > 1; shape (A, A), or None for untied models.
    within_ns
        One way of a tensor of class x between units of one stage with layouts a and
        a', which have equally many devices; shape (X, A, A). None if stages have one
        strategy.
    chunks
        v: parts of the model that a stage holds. A unit of the body stands for v, one
        in each part, and its times and activations are of one of them; of a unit at
        the ends of the model, times are a v-th.
    ahead
        Passes that every stage holds beside those of its warm-ups; 0 until the number
        of stages is known (``hetopt.cost.chunks.with_stages``).
    pairs
        Where stages are folded (``hetopt.cost.folding``), the kinds of the two units
        that each of the last kinds stands for; times of boundaries are then of both
        chunks. None with any other schedule.
    way_back
        With several chunks, the cut class from the last stage back to the first.
    shared
        What boundaries may have to share; None where links and clusters limit nothing
        but one boundary. ``transfer_ns`` is of a boundary that shares with no other.
    """

    microbatches: int
    clusters: tuple[ClusterTable, ...]
    layouts: tuple[Layout, ...]
    transfer_ns: NDArray[np.int64]
    occupancy_ns: NDArray[np.int64]
    resharding: NDArray[np.int64]
    tied_ns: NDArray[np.int64] | None
    within_ns: NDArray[np.int64] | None = None
    shared: SharedLinks | None = None
    chunks: int = 1
    ahead: int = 0
    way_back: int | None = None
    pairs: tuple[tuple[int, int], ...] | None = None

    @property
    def passes(self) -> int:
        """How often a stage runs forward in an iteration: q v."""
        return self.microbatches * self.chunks

    @property
    def strategy_count(self) -> int:
        """Strategies of all clusters."""
        return sum(len(cluster.strategies) for cluster in self.clusters)

    @property
    def most_held(self) -> int:
        """Most passes that a stage holds beside those that it holds ahead."""
        return self.passes - self.ahead
