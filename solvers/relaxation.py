"""A cheap valid lower bound for every (p, q), by dynamic programming.

For one q and lambda at most some value, every cluster in itself costs at least what
its best strategy costs for m stages and l body units; adding the clusters up, in no
particular order, bounds the fill of every p at once. What is left out: which
clusters are neighbours, windows of the period that cross clusters, and memory
beyond a cluster's own stages.

The least fill falls as lambda grows while ``(q - 1) lambda`` rises, so a range of
lambda is cut into intervals, each bounded by its largest lambda in the fill and its
smallest in the period (MODEL.md section 6, item 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from hetopt.formulations.space import MAX_DELTA

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hetopt.cost.table import CostTable, TableSlice
    from hetopt.formulations.chain import Chain
    from hetopt.problem.training import Pins

    Costs = NDArray[np.float64]

#: Roles of a cluster, as bits: it hosts the first stage, it hosts the last.
FIRST, LAST = 1, 2
ALONE = FIRST | LAST
ROLES = (0, FIRST, LAST, ALONE)

#: Lambdas whose cost tables are kept.
_REMEMBERED = 16
#: Least warm-ups added at a boundary inside a cluster and across, and the most
#: inside (they differ only where a schedule adapts to times).
_WARMUPS = {
    "1f1b": (1, 1, 1),
    "eager-1f1b": (2, 2, 2),
    "virtual-1f1b": (1, 2, 1),
    "h-1f1b": (1, 1, MAX_DELTA),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One cluster's part in a relaxed optimum."""

    cluster: int
    strategy: int
    stages: int
    units: int
    role: int


class Relaxation:
    """Lower bounds on the fill of every p at one q.

    Parameters
    ----------
    part
        Slice at q with the strategies worth looking at.
    most_stages
        Largest p of interest.
    """

    def __init__(
        self,
        *,
        table: CostTable,
        part: TableSlice,
        chain: Chain,
        pins: Pins,
        most_stages: int,
    ) -> None:
        self.part = part
        self.chain = chain
        self.most_stages = most_stages
        names = table.cluster_names
        order = pins.order
        self.clusters = [
            _ClusterCosts(
                table=table,
                part=part,
                chain=chain,
                pins=pins,
                j=j,
                most_stages=most_stages,
                roles=_roles(order, names[j]),
                may_rest=(names[j] not in order if order is not None else True)
                and pins.of(names[j]).stages.permits(0)
                and pins.of(names[j]).units.permits(0),
            )
            for j in range(len(names))
        ]
        # Few stages in the middle: the first and last step of the recursion are
        # cheap, so clusters with room for many stages go there.
        self.sequence = sorted(
            range(len(names)), key=lambda j: self.clusters[j].most_stages
        )
        if len(self.sequence) > 1:
            self.sequence = [self.sequence[-1], *self.sequence[:-1]]
        # One number per p and lambda: small, and asked for again and again.
        self._fills: dict[tuple[float, bool], Costs] = {}
        self.least_sync = min(
            (float(cluster.least_sync) for cluster in self.clusters if cluster.count),
            default=0.0,
        )

    def least_period(self) -> float:
        """Return a lower bound on lambda over all p, in ns.

        All device time there is, shared out without loss; and no stage is shorter
        than one body unit.
        """
        rate = sum(cluster.best_rate for cluster in self.clusters)
        shortest = min(
            (cluster.shortest_unit for cluster in self.clusters), default=np.inf
        )
        return max(self.chain.length / rate if rate else np.inf, shortest)

    def fill(self, period: float, *, roles: bool) -> Costs:
        """Return the least fill for p = 0..most_stages at lambda <= ``period``, in ns.

        Parameters
        ----------
        roles
            Whether to tell apart the clusters that host the first and the last
            stage, with the embedding and the head: stronger and slower.
        """
        key = (period, roles)
        if key not in self._fills:
            tables = [self._costs(j, period, roles=roles) for j in self.sequence]
            self._fills[key] = self._total(tables, roles=roles)
        return self._fills[key]

    def choices(self, period: float, stages: int) -> list[Choice] | None:
        """Return a relaxed optimum for p = ``stages``, or None if there is none."""
        tables = [self._costs(j, period, roles=True) for j in self.sequence]
        states = [self._start()]
        for j, table in zip(self.sequence, tables, strict=True):
            states.append(self._join(states[-1], table, self.clusters[j].may_rest))
        taken, left, units = ALONE, stages, self.chain.length
        shared = states[-1].get(taken, self._empty())[left, units]
        alone, j = self._alone(tables, stages)
        if alone <= shared:
            return self._only(j, period, stages) if np.isfinite(alone) else None
        chosen = []
        for index in range(len(self.sequence) - 1, -1, -1):
            j, table, before = self.sequence[index], tables[index], states[index]
            value = states[index + 1][taken][left, units]
            rested = before.get(taken)
            if (
                self.clusters[j].may_rest
                and rested is not None
                and rested[left, units] == value
            ):
                continue
            role, m, n = _find(before, table, taken, left, units, value)
            strategy = self.clusters[j].strategy(period, role, m, n)
            chosen.append(
                Choice(cluster=j, strategy=strategy, stages=m, units=n, role=role)
            )
            taken, left, units = taken & ~role, left - m, units - n
        return chosen

    def option_fill(self, period: float, stages: Sequence[int]) -> list[Costs]:
        """Return the least fill when a cluster uses a given strategy.

        Returns
        -------
        list
            Per cluster, shape (len(stages), K).
        """
        tables = {j: self._costs(j, period, roles=True) for j in self.sequence}
        prefix = [self._start()]
        for j in self.sequence[:-1]:
            prefix.append(self._join(prefix[-1], tables[j], self.clusters[j].may_rest))
        suffix = [self._start()]
        for j in self.sequence[:0:-1]:
            suffix.append(self._join(suffix[-1], tables[j], self.clusters[j].may_rest))
        suffix.reverse()
        bounds: list[Costs] = [np.empty((0, 0))] * len(self.sequence)
        for index, j in enumerate(self.sequence):
            others = self._merge(prefix[index], suffix[index])
            bounds[j] = self.clusters[j].option_fill(period, others, stages)
        return bounds

    # ------------------------------------------------------------- recursion

    def _alone(self, tables: list[dict[int, Costs]], stages: int) -> tuple[float, int]:
        """Least fill with one cluster hosting everything, and which one."""
        best, host = np.inf, -1
        for j, table in zip(self.sequence, tables, strict=True):
            if not self._can_be_alone(j) or ALONE not in table:
                continue
            costs = table[ALONE]
            if stages < len(costs) and costs[stages, self.chain.length] < best:
                best, host = float(costs[stages, self.chain.length]), j
        return best, host

    def _can_be_alone(self, j: int) -> bool:
        return all(
            self.clusters[i].may_rest for i in range(len(self.clusters)) if i != j
        )

    def _only(self, j: int, period: float, stages: int) -> list[Choice]:
        units = self.chain.length
        strategy = self.clusters[j].strategy(period, ALONE, stages, units)
        return [
            Choice(cluster=j, strategy=strategy, stages=stages, units=units, role=ALONE)
        ]

    def _empty(self) -> Costs:
        return np.full((self.most_stages + 1, self.chain.length + 1), np.inf)

    def _start(self) -> dict[int, Costs]:
        state = self._empty()
        state[0, 0] = 0.0
        return {0: state}

    def _costs(self, j: int, period: float, *, roles: bool) -> dict[int, Costs]:
        costs = self.clusters[j].costs(period)
        if roles or not costs:
            return costs
        return {0: np.minimum.reduce(list(costs.values()))}

    def _total(self, tables: list[dict[int, Costs]], *, roles: bool) -> Costs:
        state = self._start()
        for j, table in zip(self.sequence[:-1], tables[:-1], strict=True):
            state = self._join(state, table, self.clusters[j].may_rest)
        last = self.clusters[self.sequence[-1]]
        total = np.full(self.most_stages + 1, np.inf)
        if roles:
            for stages in range(1, self.most_stages + 1):
                total[stages] = self._alone(tables, stages)[0]
        goal = ALONE if roles else 0
        units = self.chain.length
        for taken, before in state.items():
            if last.may_rest and taken == goal:
                total = np.minimum(total, before[:, units])
            for role, costs in tables[-1].items():
                if taken & role or taken | role != goal or role == ALONE:
                    continue
                for m in range(1, len(costs)):
                    row = costs[m]
                    stop = self.most_stages + 1 - m
                    reach = (before[:stop, ::-1] + row).min(axis=1)
                    total[m:] = np.minimum(total[m:], reach)
        return total

    def _join(
        self, state: dict[int, Costs], table: dict[int, Costs], may_rest: bool
    ) -> dict[int, Costs]:
        """Add one cluster to every combination of those before it."""
        joined: dict[int, Costs] = {}
        if may_rest:
            joined = {taken: before.copy() for taken, before in state.items()}
        for taken, before in state.items():
            for role, costs in table.items():
                if taken & role or role == ALONE:
                    continue
                after = joined.setdefault(taken | role, self._empty())
                _min_plus(before, costs, after)
        return joined

    def _merge(
        self, left: dict[int, Costs], right: dict[int, Costs]
    ) -> dict[int, Costs]:
        merged: dict[int, Costs] = {}
        for taken, costs in left.items():
            for role, others in right.items():
                if not taken & role:
                    after = merged.setdefault(taken | role, self._empty())
                    _min_plus(costs, others, after)
        return merged


class _ClusterCosts:
    """What m stages with l body units cost at least on one cluster."""

    def __init__(
        self,
        *,
        table: CostTable,
        part: TableSlice,
        chain: Chain,
        pins: Pins,
        j: int,
        most_stages: int,
        roles: tuple[int, ...],
        may_rest: bool,
    ) -> None:
        cluster = part.clusters[j]
        self.cluster = cluster
        self.chain = chain
        self.pins = pins.of(table.cluster_names[j])
        self.gpipe = table.schedule == "gpipe"
        self.microbatches = part.microbatches
        self.delta = _WARMUPS.get(table.schedule, (0, 0, 0))
        self.roles = roles
        self.may_rest = may_rest
        self.count = len(cluster.strategies)
        self.most_stages = min(most_stages, int(cluster.max_stages.max(initial=0)))
        self.usable_bytes = table.usable_bytes[j]
        tau = cluster.forward_ns + cluster.backward_ns
        self.lead = tau @ np.array(chain.lead)
        self.trail = tau @ np.array(chain.trail)
        self.run = np.array([chain.shortest(row) for row in tau], dtype=np.float64)
        self.run = self.run.reshape(self.count, chain.length + 1)
        body = tau[:, list(chain.kinds)]
        self.shortest_unit = float(body.min(initial=2**62))
        devices = table.cluster_devices[j]
        self.best_rate = float(
            (devices / cluster.devices / np.maximum(self._mean_unit(), 1)).max(
                initial=0.0
            )
        )
        sync = cluster.sync_unit_ns[:, list(chain.kinds)].min(axis=1, initial=2**62)
        self.least_sync = int((cluster.sync_ns + sync).min(initial=2**62))
        self._boundaries(part, j)
        self._memory = self._fitting_units()
        self._pinned = {role: self._permitted(role) for role in roles}
        self.costs = lru_cache(maxsize=_REMEMBERED)(self._costs)

    def _mean_unit(self) -> Costs:
        return self.run[:, -1] / self.chain.length

    def _boundaries(self, part: TableSlice, j: int) -> None:
        """Least kappa inside, before and after the cluster, and omega inside."""
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

    def _fitting_units(self) -> dict[int, NDArray[np.int64]]:
        """Most body units per slot by role; shape (K, most_stages), last stage first.

        A cluster that does not host the last stage is followed by one that does.
        """
        inner, across, _ = self.delta
        fitting = {}
        for role in self.roles:
            base = 1 if role & LAST else 1 + across
            rows = np.empty((self.count, self.most_stages), dtype=np.int64)
            known: dict[int, NDArray[np.int64]] = {}
            for r in range(self.most_stages):
                warmup = (
                    self.microbatches
                    if self.gpipe
                    else min(self.microbatches, base + inner * r)
                )
                if not self.chain.is_uniform and not self.gpipe:
                    # A smaller count is valid too, and far fewer need computing.
                    warmup = 1 << (warmup.bit_length() - 1)
                if warmup not in known:
                    known[warmup] = self._units_at(warmup)
                rows[:, r] = known[warmup]
            fitting[role] = rows
        return fitting

    def _units_at(self, warmup: int) -> NDArray[np.int64]:
        cluster, chain = self.cluster, self.chain
        kinds = list(chain.kinds)
        room = (
            self.usable_bytes
            - cluster.fixed_bytes
            - cluster.temporary_bytes[:, kinds].min(axis=1, initial=2**62)
        )
        bytes_ = cluster.state_bytes + warmup * cluster.activation_bytes
        if chain.is_uniform:
            unit = np.maximum(bytes_[:, kinds[0]], 1)
            return np.clip(room // unit, 0, chain.length)
        need = np.array([chain.shortest(row) for row in bytes_])
        return (need <= room[:, None]).sum(axis=1) - 1

    def _caps(self, period: float, role: int) -> NDArray[np.int64]:
        """Most body units on m stages; shape (K, most_stages + 1), 0 where not able."""
        lead = self.lead if role & FIRST else np.zeros(self.count)
        trail = self.trail if role & LAST else np.zeros(self.count)
        if self.microbatches == 1:
            slots = self._memory[role].copy()
            room = np.full((self.count, self.most_stages), np.inf)
        else:
            slots = np.minimum(self._memory[role], self._within(period)[:, None])
            slots[:, 0] = np.minimum(
                slots[:, 0], np.maximum(self._within(period - trail), 0)
            )
            shift = 1 + self.delta[2] * np.arange(self.most_stages)
            room = (
                shift * period
                - 2 * np.arange(self.most_stages) * self.inner[:, None]
                - (lead + trail)[:, None]
            )
            if self.gpipe:
                room = np.full_like(room, np.inf)
            slots[:, 1:][self.inner_pace > period] = 0
        able = np.minimum.accumulate(slots >= 1, axis=1)
        total = np.cumsum(slots, axis=1) * able
        if self.microbatches > 1 and not self.gpipe:
            total = np.minimum(total, self._within_each(room))
        stages = np.arange(1, self.most_stages + 1)
        total = np.where(stages <= self.cluster.max_stages[:, None], total, 0)
        caps = np.zeros((self.count, self.most_stages + 1), dtype=np.int64)
        caps[:, 1:] = np.minimum(total, self.chain.length)
        return caps

    def _within(self, room: float | Costs) -> NDArray[np.int64]:
        """Body units whose shortest run takes at most ``room``, per strategy."""
        limit = np.broadcast_to(np.asarray(room, dtype=np.float64), (self.count,))
        return np.maximum((self.run <= limit[:, None]).sum(axis=1) - 1, 0)

    def _within_each(self, room: Costs) -> NDArray[np.int64]:
        if self.chain.is_uniform:
            unit = np.maximum(self.run[:, 1:2], 1)
            return np.clip(np.floor(room / unit), 0, self.chain.length).astype(np.int64)
        found = np.array(
            [
                np.searchsorted(run, limits, side="right") - 1
                for run, limits in zip(self.run, room, strict=True)
            ]
        )
        return np.maximum(found.reshape(room.shape), 0)

    def _base(self, role: int) -> Costs:
        """Cost of a cluster's part besides its body units and inner boundaries.

        A boundary between clusters costs at least half of the least kappa on either
        side, both ways.
        """
        base = np.zeros(self.count)
        base = base + (self.lead if role & FIRST else self.before)
        return base + (self.trail if role & LAST else self.after)

    def _permitted(self, role: int) -> NDArray[np.bool_]:
        """Which (m, l) the user's pins permit; shape (most_stages + 1, L + 1)."""
        ends = sum(self.chain.lead) * bool(role & FIRST)
        ends += sum(self.chain.trail) * bool(role & LAST)
        rows = [self.pins.stages.permits(m) for m in range(self.most_stages + 1)]
        columns = [
            self.pins.units.permits(n + ends) for n in range(self.chain.length + 1)
        ]
        return np.array(rows)[:, None] & np.array(columns)

    def _costs(self, period: float) -> dict[int, Costs]:
        """Least cost of (m, l) by role; shape (most_stages + 1, L + 1)."""
        if not self.count or not self.most_stages:
            return {}
        return {
            role: np.where(self._permitted(role), self._least(period, role)[0], np.inf)
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
        units = np.arange(self.chain.length + 1)
        for m in range(1, self.most_stages + 1):
            live = np.flatnonzero(caps[:, m] >= m)
            if not len(live):
                continue
            cost = (
                self.run[live] + (base[live] + 2 * (m - 1) * self.inner[live])[:, None]
            )
            cost[units > caps[live, m][:, None]] = np.inf
            cost[:, :m] = np.inf
            row = cost.argmin(axis=0)
            least[m] = cost[row, units]
            best[m] = live[row]
        return least, best

    def option_fill(
        self, period: float, others: dict[int, Costs], stages: Sequence[int]
    ) -> Costs:
        """Least fill of a whole pipeline by strategy; shape (len(stages), K)."""
        bounds = np.full((len(stages), self.count), np.inf)
        length = self.chain.length
        for role in self.roles if self.count else ():
            rest = others.get(ALONE & ~role)
            if rest is None or (role == ALONE and not np.isfinite(rest[0, 0])):
                continue
            caps, base = self._caps(period, role), self._base(role)
            permitted = self._pinned[role]
            for m in range(1, self.most_stages + 1):
                live = np.flatnonzero(caps[:, m] >= m)
                if not len(live):
                    continue
                cost = (
                    self.run[live]
                    + (base[live] + 2 * (m - 1) * self.inner[live])[:, None]
                )
                units = np.arange(length + 1)
                cost[(units > caps[live, m][:, None]) | ~permitted[m]] = np.inf
                cost[:, :m] = np.inf
                for row, p in enumerate(stages):
                    if p >= m:
                        whole = (cost + rest[p - m, ::-1]).min(axis=1)
                        bounds[row, live] = np.minimum(bounds[row, live], whole)
        return bounds


def _roles(order: tuple[str, ...] | None, name: str) -> tuple[int, ...]:
    """Roles a cluster may have under a pinned order."""
    if order is None:
        return ROLES
    if name not in order:
        return ()
    return ((FIRST if order[0] == name else 0) | (LAST if order[-1] == name else 0),)


def _min_plus(before: Costs, costs: Costs, after: Costs) -> None:
    """after[s + m, u + l] = min(itself, before[s, u] + costs[m, l])."""
    stages, units = after.shape
    reach = np.isfinite(before)
    rows, columns = np.flatnonzero(reach.any(axis=1)), np.flatnonzero(reach.any(axis=0))
    if not len(rows):
        return
    top, bottom = rows[0], rows[-1] + 1
    left, right = columns[0], columns[-1] + 1
    for m, n in zip(*np.nonzero(np.isfinite(costs)), strict=True):
        high, wide = min(bottom, stages - m), min(right, units - n)
        if high <= top or wide <= left:
            continue
        target = after[top + m : high + m, left + n : wide + n]
        np.minimum(target, before[top:high, left:wide] + costs[m, n], out=target)


def _find(
    before: dict[int, Costs],
    table: dict[int, Costs],
    taken: int,
    stages: int,
    units: int,
    value: float,
) -> tuple[int, int, int]:
    """The (role, m, l) that leads from ``before`` to ``value``."""
    for role, costs in table.items():
        state = before.get(taken & ~role)
        if role & ~taken or role == ALONE or state is None:
            continue
        for m in range(1, min(len(costs) - 1, stages) + 1):
            reach = state[stages - m, units::-1] + costs[m, : units + 1]
            found = np.flatnonzero(reach == value)
            if len(found):
                return role, m, int(found[0])
    msg = "no cluster's part adds up to the relaxed optimum"
    raise AssertionError(msg)
