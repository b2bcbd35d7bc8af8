"""The latency table: every coefficient a solver reads (MODEL.md section 3).

Times are whole nanoseconds and memory is whole bytes, so that every solver works
on the same integers and sums are exact. A time is rounded to the nearest
nanosecond when the table is made; nothing rounds it again.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal

from hetopt.shown import Shown

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    import numpy as np
    from numpy.typing import NDArray

    from hetopt.plans import Strategy
    from hetopt.problem.training import ScheduleName
    from hetopt.schedule.shares import SharedLinks

#: Seconds per tick of every time in the table.
TICK_S = 1e-9

#: No iteration may take longer, in seconds: a bit more than a day. Programs count in
#: thousandths of a tick, so that the longest is 10**17 of them, a ninetieth of what 64
#: bits hold: sums of a few such times, and one time of each of 20,000 units in ticks,
#: stay within them (``ranges`` refuses more).
LONGEST_S = 10**5
LONGEST_NS = LONGEST_S * 10**9
#: Stands for every time above ``LONGEST_NS``. An iteration takes at least as long as
#: each of its parts, so a plan that is priced with it is found to be too slow.
TOO_LONG_NS = LONGEST_NS + 1

SourceKind = Literal["measured", "published", "operators", "modelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a stage's boundary tensor is divided among its devices.

    ``[b / dp, s / (cp * tp), width]`` per device (HetAuto section 5.2): boundary
    costs depend on nothing else of a strategy.
    """

    cluster: int
    dp: int
    shards: int


class _Rows:
    """Finds the row of a strategy; the index it keeps is no field."""

    __slots__ = ("_known",)

    strategies: tuple[Strategy, ...]
    _known: dict[Strategy, int]

    def row(self, strategy: Strategy) -> int:
        """Return the index of a strategy; KeyError if there is none such."""
        if not hasattr(self, "_known"):
            known = {item: k for k, item in enumerate(self.strategies)}
            # The dataclass is frozen.
            object.__setattr__(self, "_known", known)
        return self._known[strategy]


class _Digested:
    """Remembers the digest of its content, which takes long to work out."""

    __slots__ = ("_digest",)

    _digest: str

    def digest(self, work_out: Callable[[Self], str]) -> str:
        """Return the digest; it is worked out once."""
        if not hasattr(self, "_digest"):
            object.__setattr__(self, "_digest", work_out(self))
        return self._digest


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusterTable(_Rows):
    """Coefficients of one cluster at one micro-batch count; K strategies, N kinds.

    Attributes
    ----------
    strategies
        K feasible strategies, ascending by (dp, cp, tp, recompute).
    microbatch
        Sequences per replica and micro-batch, b = B / (q dp); shape (K,).
    devices, max_stages
        Devices of one stage; stages that fit the cluster; shape (K,).
    layout
        Index into ``TableSlice.layouts``; shape (K,).
    forward_ns, backward_ns
        Per unit kind, one micro-batch; backward includes recomputation; (K, N).
    state_bytes
        Weights, gradients, optimizer states of one unit, and the activations of a
        micro-batch whose all-to-alls another hides; (K, N).
    activation_bytes
        Of one unit and one in-flight micro-batch; (K, N).
    temporary_bytes
        Largest short-lived tensor while a unit of the kind runs; (K, N). A stage
        needs the largest over the kinds it holds.
    fixed_bytes
        Receive buffers and all else that a stage needs once; (K,).
    sync_ns, sync_unit_ns
        g of a stage = ``sync_ns`` (K,) + units of each kind * ``sync_unit_ns`` (K, N).
    weight_ns, weight_bytes
        Where gradients of weights run apart: what of ``backward_ns`` they are, at most
        half of it, and what one unit and micro-batch keeps until they run; (K, N).
        None with any other schedule.
    """

    strategies: tuple[Strategy, ...]
    microbatch: NDArray[np.int64]
    devices: NDArray[np.int64]
    max_stages: NDArray[np.int64]
    layout: NDArray[np.int64]
    forward_ns: NDArray[np.int64]
    backward_ns: NDArray[np.int64]
    state_bytes: NDArray[np.int64]
    activation_bytes: NDArray[np.int64]
    temporary_bytes: NDArray[np.int64]
    fixed_bytes: NDArray[np.int64]
    sync_ns: NDArray[np.int64]
    sync_unit_ns: NDArray[np.int64]
    weight_ns: NDArray[np.int64] | None = None
    weight_bytes: NDArray[np.int64] | None = None

    def columns(self) -> dict[str, NDArray[np.int64]]:
        """Return every array there is, by its name; rows are strategies."""
        named = {each.name: getattr(self, each.name) for each in fields(self)}
        del named["strategies"]
        return {name: column for name, column in named.items() if column is not None}

    @property
    def round_trip_ns(self) -> NDArray[np.int64]:
        """Forward and backward: what lambda is at least (tau); (K, N)."""
        return self.forward_ns + self.backward_ns

    @property
    def handed_on_ns(self) -> NDArray[np.int64]:
        """What of tau comes before a gradient is handed on: all but w; (K, N)."""
        if self.weight_ns is None:
            return self.round_trip_ns
        return self.round_trip_ns - self.weight_ns

    @property
    def fill_ns(self) -> NDArray[np.int64]:
        """What a unit adds to the fill: all but 2 w (MODEL.md section 4); (K, N)."""
        if self.weight_ns is None:
            return self.round_trip_ns
        return self.round_trip_ns - 2 * self.weight_ns

    @property
    def end_unit_ns(self) -> NDArray[np.int64]:
        """What a unit adds to the end of a stage: its share of g, and 2 w; (K, N).

        Of all schedules what of tau is no part of the fill.
        """
        if self.weight_ns is None:
            return self.sync_unit_ns
        return self.sync_unit_ns + self.round_trip_ns - self.fill_ns


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnitTable:
    """Coefficients of plans whose units have strategies of their own, one cluster.

    Attributes
    ----------
    tensors
        Names of the classes of tensors that pass between units; axis X of slices.
    edges
        (u, v, x): unit u sends a tensor of class x to unit v > u; ascending.
    slices
        One per micro-batch count, with ``within_ns``; their strategies say how states
        are sharded (``Strategy.zero``), and their layouts are their own.
    """

    tensors: tuple[str, ...]
    edges: tuple[tuple[int, int, int], ...]
    slices: tuple[TableSlice, ...]

    def at(self, microbatches: int) -> TableSlice:
        """Return the slice of a micro-batch count; KeyError if there is none."""
        for part in self.slices:
            if part.microbatches == microbatches:
                return part
        raise KeyError(microbatches)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CostTable(_Digested, Shown):
    """The whole table of one problem.

    Attributes
    ----------
    kinds
        Names of the unit kinds; axis N of every array.
    cut_classes
        Names of the cut classes; axis X.
    units
        Index into ``kinds`` of every unit, in pipeline order; length U.
    cuts
        Index into ``cut_classes`` after each unit but the last; length U - 1.
    body
        Whether a unit of the kind counts as part of a transformer layer; every
        stage holds at least one such unit. Length N.
    cluster_names, cluster_devices
        Of every cluster, in the problem's order.
    usable_bytes
        What the framework may allocate per device, per cluster.
    sources
        Where each cluster's latencies come from.
    slices
        One per micro-batch count, ascending; counts without any strategy are left
        out.
    tokens
        Tokens per iteration.
    model_flops
        FLOPs of one iteration, forward and backward, without recomputation.
    peak_flops
        Per device of each cluster; model_flops over these gives the MFU.
    per_unit
        What solvers of one strategy per unit read; only of problems that they plan:
        one cluster and the schedule gpipe.
    chunks, way_back
        As in every slice. With several chunks ``units`` and ``cuts`` are of one: the
        units at the ends of the model, and between them a v-th of its body.
    pairs
        As in every slice. ``units`` and ``cuts`` are then of pairs.

    Examples
    --------
    >>> import hetopt
    >>> table = hetopt.build_table(hetopt.read_problem("problem.yaml"))
    >>> print(table)  # doctest: +ELLIPSIS
    cluster  latencies  devices  usable GB  peak TFLOP/s  strategies
    ────────────────────────────────────────────────────────────────
    fast     operators        2       83.5           312          33
    slow     operators        1       46.5         149.7           9
    units          6 of embedding, layer, head
    micro-batches  1, 2, 4
    schedule       virtual-1f1b
    tokens         4,096 an iteration
    problem        ...
    """

    problem_digest: str
    schedule: ScheduleName
    kinds: tuple[str, ...]
    cut_classes: tuple[str, ...]
    units: tuple[int, ...]
    cuts: tuple[int, ...]
    body: tuple[bool, ...]
    cluster_names: tuple[str, ...]
    cluster_devices: tuple[int, ...]
    usable_bytes: tuple[int, ...]
    sources: tuple[SourceKind, ...]
    slices: tuple[TableSlice, ...]
    tokens: int
    model_flops: float
    peak_flops: tuple[float, ...]
    per_unit: UnitTable | None = None
    chunks: int = 1
    way_back: int | None = None
    pairs: tuple[tuple[int, int], ...] | None = None

    def at(self, microbatches: int) -> TableSlice:
        """Return the slice of a micro-batch count; KeyError if there is none."""
        for part in self.slices:
            if part.microbatches == microbatches:
                return part
        raise KeyError(microbatches)
