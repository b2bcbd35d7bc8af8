"""What one cluster by itself can host within a simulated time.

A path through the event graph leads the first micro-batch through all chunks of all
stages and back to stage i, then through the stage's own passes, and with the last
micro-batch back to the first stage (MODEL.md section 4). So the simulated time is at
least fill + excess_i + end for every stage i. With phi, B and w the times of a forward
and of gradients of inputs and of weights (w = 0 if those do not run later), v chunks,
n = q v passes and W at most n,

    fill     = v * sum of (phi + B + 2 kappa) + 2 (v - 1) * kappa of the way back,
    excess_i = (n - W) phi + (n - 1 - (v - 1) p) B + (n - 1 - late) w + around * kappa,
    end      = w + g of the first stage.

``late`` is by how many micro-batches w comes after B, p - W. ``around`` is how often
the stage waits during transfers of one of its boundaries: n - 1 times if transfers are
exchanged, 2 n - 1 - W times if they block both ways. If all forwards come first, the
forwards in the excess are n - 1. Stages that are folded have a path of their own
passes only: no fill and no end, and an excess of q tau + g.

The largest excess replaces (q - 1) lambda.

If a cluster's boundaries share an uplink that each transfer occupies for s, and other
clusters are on either side, its uplink has an excess like a stage with phi = B = s and
the W of its first stage: when that stage's first gradient leaves, at most W activations
have left to the other side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.check.verify.chunks import ways_back_ns
from hetopt.check.verify.fills import NEVER, Excess, within_excess
from hetopt.check.verify.hosting import Host
from hetopt.check.verify.weights import UnitTimes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.check.plan.schedule.schedules import Steps
    from hetopt.check.verify.hosting import End, Warmups
    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem

    Ints = NDArray[np.int64]


def path_weights(steps: Steps, passes: int, stages: int, chunks: int) -> Ints:
    """Return how often the excess has phi, B, w and kappa, by W; shape (n + 1, 4).

    If stages are folded, phi, B, g and kappa.

    Parameters
    ----------
    passes, stages, chunks
        n, p and v; only with gradients of weights apart or several chunks p matters.
    """
    held, every = np.arange(passes + 1), np.full(passes + 1, passes)
    if steps.folded:
        columns = every, every, np.ones_like(every), np.zeros_like(every)
    else:
        late = np.maximum(stages - held, 0)
        columns = (
            every - 1 if steps.all_first else every - held,
            every - 1 - (chunks - 1) * stages,
            np.maximum(every - 1 - late, 0),
            (0 * every, every - 1, 2 * every - 1 - held)[steps.blocking],
        )
    return np.stack(columns, axis=1).astype(np.int64)


class SimulatedHost(Host):
    """A host whose stages keep to a largest excess, in ns, instead of lambda."""

    def __init__(
        self, problem: Problem, table: CostTable, part: TableSlice, j: int, most: int
    ) -> None:
        self.passes, self.chunks = part.chunks * part.microbatches, part.chunks
        super().__init__(problem, table, part, j, most)
        rows, units, steps = self.rows, self.units, self.steps
        self.ahead = part.ahead
        self.weights = path_weights(steps, self.passes, most, part.chunks)
        sides = [self.inner]
        if self.clusters > 1:
            sides += [self.into, self.out]
        least = np.minimum.reduce(sides)
        self.beside = np.where((least < NEVER) & (most > 1), least, 0)
        self.inner = np.where(self.inner < NEVER, self.trips * self.inner, NEVER)
        self.into, self.out = self.trips * self.into, self.trips * self.out
        self.late = ways_back_ns(part)
        self.first_end = self.own_end + self.times.end @ units.lead
        if steps.folded:
            self.first_end = np.zeros_like(self.first_end)
        self.own_end, self.least_sync = np.zeros_like(self.first_end), self.late
        self.fixed = np.zeros(self.count, dtype=np.int64)
        third = self.later
        if steps.folded:
            self.fixed, third = rows.sync_ns, rows.sync_unit_ns
        self.each = rows.forward_ns, rows.backward_ns - self.later, third
        self.sums = np.stack([units.runs(cost) for cost in self.each])
        #: Time of a transfer on the uplink, if others may use it meanwhile.
        self.uplink = 0
        if part.shared is not None and not (steps.folded or steps.free):
            self.uplink = int(part.shared.uplink_ns[j])
        self.held = self._most_held()

    def _unit_times(self) -> UnitTimes:
        rows = self.rows
        busy = rows.forward_ns + rows.backward_ns
        self.later = np.zeros_like(busy) if rows.weight_ns is None else rows.weight_ns
        passed, end = busy - self.later, rows.sync_unit_ns
        end = end if self.steps.folded else end + self.later
        self.trips = 0 if self.steps.folded else self.chunks
        return UnitTimes(busy=busy, fill=self.trips * passed, end=end, handed_on=passed)

    def _most_held(self) -> Ints:
        """Return the most warm-ups with l body units; shape (K, length + 1).

        Only if they are free memory limits them.
        """
        shape = (self.count, self.units.length + 1)
        if not self.steps.free:
            return np.full(shape, self.passes, dtype=np.int64)
        rows, units = self.rows, self.units
        left = self._room()[:, None] - units.runs(rows.state_bytes)
        each = np.maximum(units.runs(rows.activation_bytes), 1)
        most: Ints = np.clip(left // each, 0, self.passes)
        return most

    def tables(self, period: int, behind: int = 1) -> tuple[Ints, Ints, Ints]:
        """Return what ``Host`` does, without what the uplink carries too late."""
        middle, last, first = super().tables(period, behind)
        if self.uplink and self.most_stages > 2:
            # One stage at least is before the first one of the cluster.
            heavy = self.warmups(np.array([self.most_stages - 2]), 1).most + self.ahead
            by = self.weights[min(int(heavy[0]), self.passes)]
            if int(by[0] + by[1]) * self.uplink > period:
                middle[:] = NEVER
        return middle, last, first

    def warmups(
        self, following: Ints, crossed: int = 0, *, known: bool = True
    ) -> Warmups:
        """Return the warm-ups as ``Host`` does; free ones are at most all passes."""
        found = super().warmups(following, crossed, known=known)
        if self.steps.free:
            # The last stage has one.
            many = np.where(following > 0, self.passes, 1)
            found = found._replace(most=many)
        return found

    def within(self, period: int, warmups: Warmups, *ends: End) -> Ints:
        """Return the most body units of stages whose excess is allowed; (K, W)."""
        if self.passes == 1:
            return super().within(period, warmups, *ends)
        # With several chunks a stage has passes without the embedding.
        held = [
            getattr(self.units, end)
            for end in ends
            if self.chunks == 1 or end != "lead"
        ]
        counts = sum(held, start=np.zeros_like(self.units.lead))
        most = np.zeros((self.count, len(warmups.fewest)), dtype=np.int64)
        fewest, heavy = (
            np.minimum(each + self.ahead, self.passes).astype(np.int64)
            for each in warmups
        )
        own = np.stack([cost @ counts for cost in self.each])
        of = Excess(self.sums, own, self.fixed, self.beside, self.held, self.weights)
        within_excess(of, np.stack([fewest, heavy]), min(period, NEVER), most)
        return most

    def _keeping_up(self, period: int) -> NDArray[np.bool_]:
        return np.ones(self.count, dtype=np.bool_)

    def _limits(self, period: int) -> Ints:
        return np.full(self.most + 1, NEVER, dtype=np.int64)
