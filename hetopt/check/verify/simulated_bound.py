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
forwards in the excess are n - 1.

If stages are folded, fill, kappa and end are those of both chunks (the end has the
first chunk's w): the first micro-batch comes to stage i as a gradient of the second
chunk, the stage runs its passes until its last such gradient, and this one goes down to
the last stage and back as a gradient of the first chunk. The excess is what stage i
runs in between, after the first of these gradients. With forwards (a, b) of the two
chunks, of which it has m <= n, and x = min(a + b, 2 b),

    m a + n b >= m (a + b) + (n - m) b >= (m + n) x / 2,

and so for B and w. Here phi, B and w stand for x / 2, and m + n for how often.

The largest excess replaces (q - 1) lambda. A path may also go all the way several times
(``trip_counts``): with a forwards and b gradients of every stage, the simulated time is
at least sum of (a phi + b B + (a + b) kappa) + end.

If a cluster's boundaries share an uplink that each transfer occupies for s, and other
clusters are on either side, its uplink has an excess like a stage with phi = B = s and
the W of its first stage: when that stage's first gradient leaves, at most W activations
have left to the other side.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from hetopt.check.plan.schedule.orders import BACKWARD, FORWARD, WEIGHT, Position
from hetopt.check.verify.chunks import ways_back_ns
from hetopt.check.verify.fills import NEVER, Excess, within_excess
from hetopt.check.verify.hosting import Host
from hetopt.check.verify.weights import UnitTimes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hetopt.check.plan.schedule.schedules import Steps
    from hetopt.check.verify.hosting import End, Warmups
    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem

    Ints = NDArray[np.int64]


def path_weights(steps: Steps, passes: int, stages: int, chunks: int) -> Ints:
    """Return how often the excess has phi, B, w and kappa, by W; shape (n + 1, 4).

    Parameters
    ----------
    passes, stages, chunks
        n, p and v; only with gradients of weights apart or several chunks p matters.
    """
    held, every = np.arange(passes + 1), np.full(passes + 1, passes)
    late = np.maximum(stages - held, 0)
    columns = (
        every - 1 if steps.all_first else every - held,
        every - 1 - (chunks - 1) * stages,
        np.maximum(every - 1 - late, 0),
        (0 * every, every - 1, 2 * every - 1 - held)[steps.blocking],
    )
    return np.stack(columns, axis=1).astype(np.int64)


@lru_cache(maxsize=64)
def folded_weights(steps: Steps, q: int, stages: int, ahead: int) -> Ints:
    """Return ``path_weights`` if stages are folded; shape (q + 1, 4).

    The i-th stage from the end has W = ``ahead`` + i, at most q. As bounds look up phi
    and B by the most W that a stage may have, and w by the fewest, those are of any
    stage with no more, and these of any with no fewer.
    """
    own = np.array([own_counts(steps, q, stages, i) for i in range(stages)])[::-1]
    rows = np.zeros((q + 1, 4), dtype=np.int64)
    for w in range(q + 1):
        i = min(max(w - ahead, 1), stages)
        most = stages if w == q else i
        rows[w, :2], rows[w, 2] = own[:most, :2].min(axis=0), own[i - 1 :, 2].min()
    return rows


def own_counts(steps: Steps, q: int, stages: int, i: int) -> list[int]:
    """Return how often a folded stage has phi, B and w of one chunk in its excess."""
    counts, inside = [[0, 0] for _ in range(3)], False
    for kind, chunk, m in steps.order(Position(i, stages, q, 2, 0)):
        counts[kind][chunk] += inside
        if kind == BACKWARD and chunk == 1:
            inside = m < q - 1
    return [n + min(m, n) for m, n in (counts[k] for k in (FORWARD, BACKWARD, WEIGHT))]


def _first_of(times: Ints, pairs: Sequence[tuple[int, int]]) -> Ints:
    """Return the first unit's time in the columns of pairs of units, which are last."""
    found = times.copy()
    for column, (down, _) in enumerate(pairs, times.shape[1] - len(pairs)):
        found[:, column] = times[:, down]
    return found


def _half(times: Ints, pairs: Sequence[tuple[int, int]]) -> Ints:
    """Return half the time of a pair, or the second unit's if that is less."""
    found = times.copy()
    for column, (_, up) in enumerate(pairs, times.shape[1] - len(pairs)):
        found[:, column] = np.minimum(times[:, column], 2 * times[:, up]) // 2
    return found


def trip_counts(steps: Steps, q: int, stages: int) -> list[tuple[int, int]]:
    """Return how often paths have all forwards and all B of folded stages.

    After a B of the first stage's first chunk comes a micro-batch of which this stage
    has not begun the forward, or not the B of its second chunk. It goes there and back,
    whole or as a gradient, to its own such B, and so on.
    """
    counts = []
    for begin in (FORWARD, 0), (BACKWARD, 1):
        count, away = 0, -1
        for kind, chunk, m in steps.order(Position(0, stages, q, 2, 0)):
            if away < 0 and (kind, chunk) == begin:
                count, away = count + 1, m
            elif (kind, chunk, m) == (BACKWARD, 0, away):
                away = -1
        counts.append(count)
    return [(counts[0], counts[0]), (1, counts[1])]


class SimulatedHost(Host):
    """A host whose stages keep to a largest excess, in ns, instead of lambda.

    Parameters
    ----------
    counts
        How often the fill has forwards and B (``trip_counts``); None: once per chunk.
    """

    def __init__(
        self,
        problem: Problem,
        table: CostTable,
        part: TableSlice,
        j: int,
        most: int,
        counts: tuple[int, int] | None = None,
    ) -> None:
        self.passes, self.chunks = part.chunks * part.microbatches, part.chunks
        self.counts = (self.chunks, self.chunks) if counts is None else counts
        self.pairs = part.pairs
        super().__init__(problem, table, part, j, most)
        units, steps = self.units, self.steps
        self.ahead = part.ahead
        if steps.folded:
            self.weights = folded_weights(steps, self.passes, most, part.ahead)
        else:
            self.weights = path_weights(steps, self.passes, most, part.chunks)
        sides = [self.inner]
        if self.clusters > 1:
            sides += [self.into, self.out]
        least = np.minimum.reduce(sides)
        self.beside = np.where((least < NEVER) & (most > 1), least, 0)
        kappas = sum(self.counts)
        self.inner = np.where(self.inner < NEVER, kappas * self.inner // 2, NEVER)
        self.into, self.out = kappas * self.into // 2, kappas * self.out // 2
        self.late = ways_back_ns(part)
        self.first_end = self.own_end + self.times.end @ units.lead
        self.own_end, self.least_sync = np.zeros_like(self.first_end), self.late
        self.sums = np.stack([units.runs(cost) for cost in self.each])
        #: Time of a transfer on the uplink, if others may use it meanwhile.
        self.uplink = 0
        if part.shared is not None and not (steps.folded or steps.free):
            self.uplink = int(part.shared.uplink_ns[j])
        self.held = self._most_held()

    def _unit_times(self) -> UnitTimes:
        rows, pairs = self.rows, self.pairs
        self.trips, phi, later = self.chunks, rows.forward_ns, rows.weight_ns
        if later is None:
            later = np.zeros_like(phi)
        beta, end = rows.backward_ns - later, later
        fill = self.counts[0] * phi + self.counts[1] * beta
        if pairs is not None:
            end = _first_of(later, pairs)
            phi, beta, later = (_half(each, pairs) for each in (phi, beta, later))
        self.each = phi, beta, later
        passed = phi + beta
        return UnitTimes(
            busy=passed + later,
            forward=phi,
            fill=fill,
            end=rows.sync_unit_ns + end,
            handed_on=passed,
        )

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
        of = Excess(self.sums, own, self.beside, self.held, self.weights)
        within_excess(of, np.stack([fewest, heavy]), min(period, NEVER), most)
        return most

    def _keeping_up(self, period: int) -> NDArray[np.bool_]:
        return np.ones(self.count, dtype=np.bool_)

    def _limits(self, period: int) -> Ints:
        return np.full(self.most + 1, NEVER, dtype=np.int64)
