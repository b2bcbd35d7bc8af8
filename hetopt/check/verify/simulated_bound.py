"""What one cluster by itself can host within a simulated time.

A path through the event graph leads the first micro-batch to the last stage and back
to stage i, then through the forwards past its warm-up and all other backwards
(MODEL.md section 4): the simulated time is at least

    F + (q - min(W_i, q)) phi_i + (q - 1) beta_i + (the least g of any stage),

with F the fill. What is added to F is the stage's *excess*; under gpipe, where every
backward comes last, it is (q - 1) tau_i. So the largest excess replaces (q - 1) lambda.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.check.verify.fills import NEVER
from hetopt.check.verify.hosting import Host

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem

    Ints = NDArray[np.int64]


class SimulatedHost(Host):
    """A host whose stages keep to a largest excess, in ns, instead of lambda."""

    def __init__(
        self, problem: Problem, table: CostTable, part: TableSlice, j: int, most: int
    ) -> None:
        super().__init__(problem, table, part, j, most)
        rows, units = self.rows, self.units
        self.forward = units.runs(rows.forward_ns)
        self.backward = units.runs(rows.backward_ns)
        self.heavy = self._heaviest(len(table.cluster_names))

    def _heaviest(self, clusters: int) -> Ints:
        """Return the most warm-ups of a stage with l body units; (K, length + 1).

        If they are free only memory limits them; under gpipe 1 gives the excess.
        """
        shape = (self.count, self.units.length + 1)
        steps = self.steps
        if steps.free:
            rows, units = self.rows, self.units
            left = self._room()[:, None] - units.runs(rows.state_bytes)
            each = np.maximum(units.runs(rows.activation_bytes), 1)
            heaviest: Ints = np.clip(left // each, 0, self.microbatches)
            return heaviest
        boundaries = self.most_stages - 1
        warmup = 1 + steps.most * boundaries
        warmup += (steps.across - steps.inside) * min(boundaries, clusters - 1)
        return np.full(shape, min(warmup, self.microbatches), dtype=np.int64)

    def _within(self, period: int, *ends: Ints) -> Ints:
        """Return the most body units of a stage whose excess is allowed; (K,)."""
        q, rows = self.microbatches, self.rows
        if q == 1:
            return super()._within(period, *ends)
        heavy = self.heavy
        if not self.steps.free and any(end is self.units.trail for end in ends):
            # The last stage has one warm-up.
            heavy = np.ones_like(heavy)
        held = sum(ends, start=np.zeros_like(self.units.lead))
        forward = self.forward + (rows.forward_ns @ held)[:, None]
        backward = self.backward + (rows.backward_ns @ held)[:, None]
        excess = (q - heavy) * forward + (q - 1) * backward
        fits = (excess <= period) & (heavy >= 1)
        # The excess does not fall with more units.
        most: Ints = fits.sum(axis=1) - 1
        return np.maximum(most, 0)

    def _keeping_up(self, period: int) -> NDArray[np.bool_]:
        return np.ones(self.count, dtype=np.bool_)

    def _limits(self, period: int) -> Ints:
        return np.full(self.most + 1, NEVER, dtype=np.int64)
