"""The coefficients of a latency table at one micro-batch count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.problem.training.choices import ScheduleName
    from hetopt.schedule.shares import SharedLinks


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a stage's boundary tensor is divided among its devices.

    ``[b / dp, s / (cp * tp), width]`` per device (HetAuto section 5.2): boundary
    costs depend on a strategy only through its layout.
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
        x, inside a cluster or between two; shape (X, A, A).
    resharding
        Index into ``RESHARDING`` of the strategy that achieves ``transfer_ns``.
    tied_ns
        Time that tied embeddings add to g of the first and of the last stage, by their
        layouts, if p > 1; shape (A, A), or None for untied models.
    within_ns
        Time to reshard a tensor of class x in one direction between units of one stage
        with layouts a and a', which have equally many devices; shape (X, A, A). None if
        all units of a stage have the same strategy.
    chunks
        v: chunks of the model per stage. A unit of the body stands for v units, one in
        each part; its times and activations are those of one of them. A unit at the
        ends of the model has a v-th of its time.
    ahead
        Passes that every stage holds in addition to its warm-up; 0 until the number of
        stages is known (``hetopt.cost.chunks.with_stages``).
    pairs
        With folded stages (``hetopt.cost.folding``), the kinds of the two units that
        each of the last kinds stands for; times of boundaries are then those of both
        chunks. None with any other schedule.
    folds
        The schedule, if it folds; what stages hold depends on it.
    way_back
        With several chunks, the cut class from the last stage back to the first.
    shared
        Times for which one boundary occupies links and uplinks that others may share;
        None if there are no such limits. ``transfer_ns`` assumes no sharing.
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
    folds: ScheduleName | None = None

    @property
    def passes(self) -> int:
        """Number of forward passes of a stage in an iteration: q v."""
        return self.microbatches * self.chunks

    @property
    def strategy_count(self) -> int:
        """Number of strategies of all clusters."""
        return sum(len(cluster.strategies) for cluster in self.clusters)

    @property
    def most_held(self) -> int:
        """Most passes that a stage holds in addition to ``ahead``."""
        return self.passes - self.ahead
