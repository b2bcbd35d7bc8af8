"""The latency table: every coefficient a solver reads (MODEL.md section 3).

Times are whole nanoseconds and memory is whole bytes, so that every solver works
on the same integers and sums are exact. A time is rounded to the nearest
nanosecond when the table is built, and never again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from hetopt.base.shown import Shown

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from hetopt.cost.table.slice import TableSlice
    from hetopt.problem.training.choices import ScheduleName

SourceKind = Literal["measured", "published", "operators", "modelled"]


class _Digested:
    """A table that caches the digest of its content, which takes long to compute."""

    __slots__ = ("_digest",)

    _digest: str

    def digest(self, work_out: Callable[[Self], str]) -> str:
        """Return the digest; ``work_out`` is called once."""
        if not hasattr(self, "_digest"):
            object.__setattr__(self, "_digest", work_out(self))
        return self._digest


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnitTable:
    """Coefficients of plans with one strategy per unit, on one cluster.

    Attributes
    ----------
    tensors
        Names of the classes of tensors between units; axis X of slices.
    edges
        (u, v, x): unit u sends a tensor of class x to unit v > u; ascending.
    slices
        One per micro-batch count, with ``within_ns``; their strategies state how states
        are sharded (``Strategy.zero``); layouts differ from those of ``CostTable``.
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
        Name and number of devices of every cluster, in the problem's order.
    usable_bytes
        Bytes per device that the framework may allocate, by cluster.
    sources
        Kind of each cluster's latency source.
    slices
        One per micro-batch count, ascending; counts without any strategy are left
        out.
    tokens
        Tokens per iteration.
    model_flops
        FLOPs of one iteration, forward and backward, without recomputation.
    peak_flops
        Peak FLOP/s of a device of each cluster, for the MFU.
    per_unit
        Table for solvers with one strategy per unit; None unless there is one cluster
        and the schedule is gpipe.
    chunks, way_back
        As in every slice. With several chunks ``units`` and ``cuts`` are those of one
        chunk: the units at the ends of the model, and between them a v-th of its body.
    layout
        The cuts of all plans where chunks differ (``Plan.cuts``); ``units`` and
        ``cuts`` are then those of the whole model, and slices know no chunks.
    warmup_epsilon
        Of ``h-1f1b`` (``Training.epsilon``); None with other schedules.
    pairs
        As in every slice. If given, ``units`` and ``cuts`` are those of pairs.

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
    layout: tuple[int, ...] | None = None
    warmup_epsilon: float | None = None
    way_back: int | None = None
    pairs: tuple[tuple[int, int], ...] | None = None

    def at(self, microbatches: int) -> TableSlice:
        """Return the slice of a micro-batch count; KeyError if there is none."""
        for part in self.slices:
            if part.microbatches == microbatches:
                return part
        raise KeyError(microbatches)
