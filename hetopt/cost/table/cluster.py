"""The coefficients of one cluster at one micro-batch count."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hetopt.plans.strategy import Strategy


class _Rows:
    """Look-up of a strategy's row; the cached index is not a dataclass field."""

    __slots__ = ("_known",)

    strategies: tuple[Strategy, ...]
    _known: dict[Strategy, int]

    def row(self, strategy: Strategy) -> int:
        """Return the index of a strategy; KeyError if the table lacks it."""
        if not hasattr(self, "_known"):
            known = {item: k for k, item in enumerate(self.strategies)}
            # The dataclass is frozen.
            object.__setattr__(self, "_known", known)
        return self._known[strategy]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClusterTable(_Rows):
    """Coefficients of one cluster at one micro-batch count; K strategies, N kinds.

    Attributes
    ----------
    strategies
        K feasible strategies, ascending; in a ``UnitTable``, for one ZeRO stage after
        the other.
    microbatch
        Sequences per replica and micro-batch, b = B / (q dp); shape (K,).
    devices, max_stages
        Devices of one stage; most stages in the cluster; shape (K,).
    layout
        Index into ``TableSlice.layouts``; shape (K,).
    forward_ns, backward_ns
        Times of a unit and micro-batch; backward includes recomputation; (K, N).
    state_bytes
        Weights, gradients, optimizer states of one unit, and with ``moe.overlap`` the
        activations of one more micro-batch; (K, N).
    activation_bytes
        Activations of one unit and one in-flight micro-batch; (K, N).
    temporary_bytes
        Temporary memory while a unit of the kind runs; (K, N). A stage needs the
        largest over its kinds.
    fixed_bytes
        Boundary buffers, which a stage has once; (K,).
    sync_ns, sync_unit_ns
        g of a stage = ``sync_ns`` (K,) + units of each kind * ``sync_unit_ns`` (K, N).
    weight_ns, weight_bytes
        If the schedule splits the backward pass: the part of ``backward_ns`` that
        computes weight gradients, at most half of it, and the bytes that a unit and
        micro-batch keeps until they run; (K, N). Otherwise None.
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
        """Return all arrays that are not None, by name; rows are strategies."""
        named = {each.name: getattr(self, each.name) for each in fields(self)}
        del named["strategies"]
        return {name: column for name, column in named.items() if column is not None}

    @property
    def round_trip_ns(self) -> NDArray[np.int64]:
        """Forward plus backward time, tau, a lower bound on lambda; (K, N)."""
        return self.forward_ns + self.backward_ns

    @property
    def handed_on_ns(self) -> NDArray[np.int64]:
        """Part of tau before the input's gradient is sent: all but w; (K, N)."""
        if self.weight_ns is None:
            return self.round_trip_ns
        return self.round_trip_ns - self.weight_ns

    @property
    def fill_ns(self) -> NDArray[np.int64]:
        """Part of tau in the fill: all but 2 w (MODEL.md section 4); (K, N)."""
        if self.weight_ns is None:
            return self.round_trip_ns
        return self.round_trip_ns - 2 * self.weight_ns

    @property
    def end_unit_ns(self) -> NDArray[np.int64]:
        """Time of a unit at the end of a stage: its g, and tau minus fill; (K, N).

        Only schedules that split the backward pass have the latter.
        """
        if self.weight_ns is None:
            return self.sync_unit_ns
        return self.sync_unit_ns + self.round_trip_ns - self.fill_ns
