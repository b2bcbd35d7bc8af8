"""Least cost of the part of a pipeline on one cluster, considered alone.

All its stages share one strategy (P4); ``mixed_costs`` does not require that.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING
from weakref import proxy

import numpy as np

from hetopt.schedule.schedules import rule_of
from hetopt.solvers.bounds.sums import capped, capped_first, cheapest, cheapest_with

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.formulations.chain import Chain
    from hetopt.formulations.permitted import Permitted
    from hetopt.schedule.paths import Weights

    Costs = NDArray[np.float64]

#: Roles of a cluster, as bits: it hosts the first stage, it hosts the last.
FIRST, LAST = 1, 2
ALONE = FIRST | LAST
ROLES = (0, FIRST, LAST, ALONE)

#: Lambdas whose cost tables are cached.
_REMEMBERED = 16


class ClusterCosts:
    """Least cost of m stages with l body units on one cluster.

    Parameters
    ----------
    weights
        How often the excess of a stage has phi and beta, at least: a share of n - 1 of
        it replaces the time that the stage is busy in a period (``Relaxation``).
    """

    def __init__(
        self,
        *,
        table: CostTable,
        part: TableSlice,
        chain: Chain,
        permitted: Permitted,
        j: int,
        most_stages: int,
        consecutive: bool = True,
        weights: Weights | None = None,
    ) -> None:
        cluster = part.clusters[j]
        self.weights = weights
        self.cluster = cluster
        self.chain = chain
        self.permitted_stages = permitted.stages[j]
        self.permitted_units = permitted.units[j]
        self.rule = rule_of(table.schedule, table.warmup_epsilon)
        self.passes = part.passes
        # Passes ahead count as state, in a slice of a known p.
        self.most_held = part.most_held
        self.roles = _roles(permitted, j)
        self.may_rest = permitted.may_rest(j)
        self.consecutive = consecutive
        self.count = len(cluster.strategies)
        self.most_stages = min(most_stages, int(cluster.max_stages.max(initial=0)))
        self.usable_bytes = table.usable_bytes[j]
        tau, fill, kinds = cluster.round_trip_ns, cluster.fill_ns, list(chain.kinds)
        self.lead = fill @ np.array(chain.lead)
        self.trail = fill @ np.array(chain.trail)
        #: How long the ends keep a stage busy.
        self.held = self.lead, self.trail
        self.run, self.busy, self.handed_on = self._runs()
        #: Time that a stage with all units is busy.
        self.whole = self.busy[:, -1] + tau @ (np.array(chain.lead) + chain.trail)
        self.shortest_unit = float(self.busy[:, 1:2].min(initial=2**62))
        self.shortest_handed_on = float(
            cluster.handed_on_ns[:, kinds].min(initial=2**62)
        )
        devices = table.cluster_devices[j]
        self.best_rate = float(
            (devices / cluster.devices / np.maximum(self._cheapest(), 1)).max(
                initial=0.0
            )
        )
        sync = cluster.end_unit_ns[:, kinds].min(axis=1, initial=2**62)
        self.least_sync = int((cluster.sync_ns + sync).min(initial=2**62))
        self._boundaries(part, j)
        self._inner = np.asarray(self.inner, dtype=np.float64)
        #: Costs of each strategy besides its body units, as ``capped`` reads them.
        self._ends = np.stack(
            [
                *self.held,
                self._inner,
                self.inner_pace,
                self.before,
                self.after,
            ]
        ).astype(np.float64)
        self._most = np.asarray(cluster.max_stages, dtype=np.int64)
        self._whole = np.full(self.count, chain.length, dtype=np.int64)
        #: Most body units that fit, by the micro-batches in memory.
        self._fitting: dict[int, NDArray[np.int64]] = {}
        # A cluster that does not host the last stage is followed by another one.
        across = 1 + self.rule.across
        self._memory = {
            role: self._fitting_from(1 if role & LAST else across, self.most_stages)
            for role in self.roles
        }
        self._memory_first = self._fitting_from(across, most_stages)
        self._pinned = {role: self._permitted(role) for role in self.roles}
        own = proxy(self)
        # A bound method would make a reference cycle, which keeps megabytes for longer.
        self.costs: Callable[[float], dict[int, Costs]] = lru_cache(
            maxsize=_REMEMBERED
        )(lambda period: own._costs(period))

    def _runs(self) -> tuple[Costs, Costs, Costs]:
        """Return least times of l body units; three arrays of shape (K, L + 1).

        What they add to the fill, how long they keep a stage busy, and the part of that
        before a gradient is handed on. All three are equal unless gradients of weights
        run apart.
        """
        own, chain = self.cluster, self.chain
        if self.weights is not None:
            by = self.weights
            unit = by.forward * own.forward_ns + by.backward * own.backward_ns
            most = max(1, self.passes - 1)
            ends = np.array([chain.lead, chain.trail]) @ unit.T / most
            self.held = ends[0], ends[1]
            run = chain.shortest(own.round_trip_ns).astype(np.float64)
            busy = chain.shortest(unit) / most
            return run, busy, busy
        run, busy, handed_on = (
            chain.shortest(times).astype(np.float64)
            for times in (
                (own.fill_ns, own.round_trip_ns, own.handed_on_ns)
                if self.rule.splits
                else (own.round_trip_ns,) * 3
            )
        )
        return run, busy, handed_on

    def _cheapest(self) -> Costs:
        """Return the least time per body unit over runs of any length."""
        lengths = np.arange(1, self.chain.length + 1)
        cheapest: Costs = (self.busy[:, 1:] / lengths).min(axis=1, initial=np.inf)
        return cheapest

    def _boundaries(self, part: TableSlice, j: int) -> None:
        """Set least kappa inside, before and after the cluster, and omega inside."""
        layout = self.cluster.layout
        classes = list(self.chain.cut_classes)
        kappa = part.transfer_ns[classes] if classes else part.transfer_ns[:0]
        omega = part.occupancy_ns[classes] if classes else part.occupancy_ns[:0]
        self.inner = kappa[:, layout, layout].min(axis=0, initial=2**62)
        self.inner_pace = omega[:, layout, layout].min(axis=0, initial=2**62)
        others = [
            a
            for i, cluster in enumerate(part.clusters)
            if i != j
            for a in sorted({int(a) for a in cluster.layout})
        ]
        if classes and others:
            self.before = kappa[:, others][:, :, layout].min(axis=(0, 1))
            self.after = kappa[:, layout][:, :, others].min(axis=(0, 2))
        else:
            self.before = np.zeros(self.count)
            self.after = np.zeros(self.count)
        if not self.consecutive and others:
            # The neighbours of a stage may be on its own cluster or on another one.
            self.inner = (
                np.minimum(self.inner, self.before) + np.minimum(self.inner, self.after)
            ) / 2
            self.inner_pace = np.zeros(self.count)

    def _fitting_from(self, last: int, stages: int) -> NDArray[np.int64]:
        """Return the most body units on each stage of a run; (K, stages), last first.

        Parameters
        ----------
        last
            Least warm-ups of the run's last stage.
        """
        rows = np.empty((self.count, stages), dtype=np.int64)
        for i in range(stages):
            rows[:, i] = self.units_at(last + self.rule.inside * i)
        return rows

    def units_at(self, warmup: int) -> NDArray[np.int64]:
        """Return the most body units that fit with at least these warm-ups; (K,)."""
        warmup = self.rule.in_flight(warmup, self.most_held)
        if not (self.chain.is_uniform or self.rule.all_first):
            # A smaller count is valid too, and far fewer counts have to be computed.
            warmup = 1 << (warmup.bit_length() - 1)
        if warmup not in self._fitting:
            self._fitting[warmup] = self._units_with(warmup)
        return self._fitting[warmup]

    def _units_with(self, held: int) -> NDArray[np.int64]:
        """Return the most body units that fit with micro-batches in memory; (K,)."""
        cluster, chain = self.cluster, self.chain
        kinds = list(chain.kinds)
        room = (
            self.usable_bytes
            - cluster.fixed_bytes
            - cluster.temporary_bytes[:, kinds].min(axis=1, initial=2**62)
        )
        if chain.is_uniform:
            kind = kinds[0]
            unit = (
                cluster.state_bytes[:, kind] + held * cluster.activation_bytes[:, kind]
            )
            most = np.maximum(room // np.maximum(unit, 1), 0)
            units: NDArray[np.int64] = np.minimum(most, chain.length)
            return units
        need = chain.shortest(cluster.state_bytes + held * cluster.activation_bytes)
        fitting: NDArray[np.int64] = (need <= room[:, None]).sum(axis=1) - 1
        return fitting

    def _caps_first(self, period: float, stages: int) -> NDArray[np.int64]:
        """Return ``_caps`` of the first of several clusters when p = ``stages``.

        The positions of its slots, and so their warm-up counts, are known.
        """
        caps = self._caps(period, FIRST)
        most = self._within(period) if self.passes > 1 else self._whole
        capped_first(self._memory_first, most, stages, caps)
        return caps

    def _caps(self, period: float, role: int) -> NDArray[np.int64]:
        """Return the most body units on m stages; (K, most_stages + 1), 0 if none."""
        caps = np.zeros((self.count, self.most_stages + 1), dtype=np.int64)
        steady, paths = self.passes > 1, self.weights is not None
        blocking = 0 if paths else self.rule.blocking
        windows = steady and not (self.rule.all_first or paths)
        capped(
            self.busy,
            self.handed_on,
            self._memory[role],
            self._ends,
            np.array([period, self.rule.most_inside, blocking], dtype=np.float64),
            np.array(
                [
                    role & FIRST,
                    role & LAST,
                    steady,
                    # Windows of lambda over several stages.
                    windows and self.consecutive,
                ],
                dtype=np.bool_,
            ),
            self._most,
            caps,
        )
        return caps

    def caps_key(self, period: float) -> bytes:
        """Return what is equal for lambdas at which all costs and bounds are equal."""
        if not self.count or not self.most_stages:
            return b""
        caps = [self._caps(period, role) for role in self.roles]
        return b"".join(each.tobytes() for each in (*caps, self._within(period)))

    def _within(self, room: float | Costs) -> NDArray[np.int64]:
        """Return the most body units that can take at most ``room``; (K,)."""
        limit = np.broadcast_to(np.asarray(room, dtype=np.float64), (self.count,))
        units: NDArray[np.int64] = (self.busy <= limit[:, None]).sum(axis=1) - 1
        return np.maximum(units, 0)

    def _base(self, role: int) -> Costs:
        """Return the cost of a part besides body units and inner boundaries; (K,).

        A boundary between clusters costs 2 kappa: each side counts the least one once.
        """
        base = np.zeros(self.count)
        base += self.lead if role & FIRST else self.before
        base += self.trail if role & LAST else self.after
        return base

    def _permitted(self, role: int) -> NDArray[np.bool_]:
        """Return whether the pins permit (m, l); shape (most_stages + 1, L + 1)."""
        ends = sum(self.chain.lead) * bool(role & FIRST)
        ends += sum(self.chain.trail) * bool(role & LAST)
        rows = [self.permitted_stages.permits(m) for m in range(self.most_stages + 1)]
        columns = [
            self.permitted_units.permits(n + ends) for n in range(self.chain.length + 1)
        ]
        permitted: NDArray[np.bool_] = np.array(rows)[:, None] & np.array(columns)
        return permitted

    def _costs(self, period: float) -> dict[int, Costs]:
        """Return the least cost of (m, l) by role; shape (most_stages + 1, L + 1)."""
        if not self.count or not self.most_stages:
            return {}
        return {
            role: np.where(self._pinned[role], self._least(period, role)[0], np.inf)
            for role in self.roles
        }

    def strategy(self, period: float, role: int, stages: int, units: int) -> int:
        """Return the strategy that attains the least cost of (m, l)."""
        return int(self._least(period, role)[1][stages, units])

    def _least(self, period: float, role: int) -> tuple[Costs, NDArray[np.int64]]:
        caps, base = self._caps(period, role), self._base(role)
        shape = (self.most_stages + 1, self.chain.length + 1)
        least = np.full(shape, np.inf)
        best = np.zeros(shape, dtype=np.int64)
        cheapest(self.run, base, self._inner, caps, least, best)
        return least, best

    def option_fill(
        self, period: float, others: dict[int, Costs], stages: int
    ) -> tuple[Costs, Costs]:
        """Return the least fill with p = ``stages`` by strategy; two of shape (K,).

        Over all roles of the cluster, and over those in which it hosts the first stage.
        """
        anyhow, opening = np.full(self.count, np.inf), np.full(self.count, np.inf)
        for role in self.roles if self.count else ():
            rest = others.get(ALONE & ~role)
            if rest is None or (
                role == ALONE and self.consecutive and not np.isfinite(rest[0, 0])
            ):
                continue
            caps = (
                self._caps_first(period, stages)
                if role == FIRST and self.consecutive
                else self._caps(period, role)
            )
            least = self._role_fill(role, caps, rest, stages)
            anyhow = np.minimum(anyhow, least)
            if role & FIRST:
                opening = np.minimum(opening, least)
        return anyhow, opening

    def _role_fill(
        self, role: int, caps: NDArray[np.int64], rest: Costs, stages: int
    ) -> Costs:
        bounds = np.full(self.count, np.inf)
        most = min(self.most_stages, stages)
        others = np.ascontiguousarray(rest[stages - most : stages + 1][::-1])
        cheapest_with(
            self.run,
            self._base(role),
            self._inner,
            caps,
            self._pinned[role],
            others,
            bounds,
        )
        return bounds


def _roles(permitted: Permitted, j: int) -> tuple[int, ...]:
    """Return the roles that a cluster may have under a pinned order."""
    if permitted.order is None:
        return ROLES
    if j not in permitted.order:
        return ()
    first = FIRST if permitted.may_open(j) else 0
    return (first | (LAST if permitted.may_close(j) else 0),)
