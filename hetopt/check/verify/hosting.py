"""Least fills of one cluster by itself, on which ``check.verify.bound`` is built.

Everything counts whole nanoseconds, so sums are exact. Boundaries between clusters
cost at least the least kappa out of the one plus the least kappa into the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from hetopt.check.plan.schedule.schedules import STEPS
from hetopt.check.verify.body_units import Units
from hetopt.check.verify.fills import NEVER, StageCosts, cheapest, spared
from hetopt.check.verify.weights import unit_times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hetopt.check.verify.weights import UnitTimes
    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem

    Ints = NDArray[np.int64]
    End = Literal["lead", "trail"]


class Warmups(NamedTuple):
    """Fewest and most warm-ups of some stages; arrays of one length."""

    fewest: Ints
    most: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """Whether a cluster hosts the first stage, and the last."""

    first: bool = False
    last: bool = False


_MIDDLE, _FIRST, _LAST = Role(), Role(first=True), Role(last=True)
_ALONE = Role(first=True, last=True)


class Host:
    """What one cluster can host, by itself.

    Attributes
    ----------
    weights
        Those of the excess of paths, which limits stages instead of lambda; empty if
        lambda does.
    trips
        How often the fill has each forward, backward and transfer.
    late
        What the fill has beside that, in ns.
    uplink
        How long a transfer occupies the uplink, in ns, if paths count.
    """

    weights: Ints = np.zeros((0, 4), dtype=np.int64)
    trips = 1
    late = 0
    uplink = 0

    def __init__(
        self, problem: Problem, table: CostTable, part: TableSlice, j: int, most: int
    ) -> None:
        self.name = table.cluster_names[j]
        self.units = Units.of(table)
        self.rows: ClusterTable = part.clusters[j]
        self.usable = table.usable_bytes[j]
        self.steps = STEPS[table.schedule]
        self.clusters = len(table.cluster_names)
        self.microbatches = part.microbatches
        #: Most passes in flight, without those that are counted as state.
        self.flights = part.chunks * part.microbatches - part.ahead
        pins = problem.pins.of(self.name)
        forced = problem.pins.order is not None
        self.may_rest = not forced and pins.stages.permits(0) and pins.units.permits(0)
        self.pins = pins
        rows, units = self.rows, self.units
        ends = int(units.lead.sum() + units.trail.sum())
        self.units_ok = np.array(
            [pins.units.permits(n) for n in range(units.length + ends + 1)], dtype=bool
        )
        self.count = len(rows.strategies)
        self.most = min(most, int(rows.max_stages.max(initial=0)))
        self.stages_ok = np.array(
            [pins.stages.permits(m) for m in range(self.most + 1)], dtype=bool
        )
        times = self.times = self._unit_times()
        self.tau = times.busy
        self.lead, self.trail = times.fill @ units.lead, times.fill @ units.trail
        self.run, self.busy = units.runs(times.fill), units.runs(times.busy)
        late = times.end[:, units.kinds].min(axis=1, initial=NEVER)
        #: The least g of a stage, which the closed form adds to its fill.
        self.own_end = rows.sync_ns + late
        #: What a path that ends on the first stage has there, if paths count.
        self.first_end = np.zeros(self.count, dtype=np.int64)
        self.least_sync = int(self.own_end.min(initial=NEVER))
        self._cross(table, part, j)
        self.most_stages = most
        self.keeping_to = lru_cache(maxsize=3)(self._within)
        self.rooms = lru_cache(maxsize=1)(self._rooms)
        self.fitting = lru_cache(maxsize=None)(self._fitting)
        self.opening_slots = lru_cache(maxsize=1)(self._opening_slots)
        self.opened = lru_cache(maxsize=1)(partial(self._opened, stages=most))

    def _cross(self, table: CostTable, part: TableSlice, j: int) -> None:
        """Find the least boundary times within the cluster, into it and out of it."""
        own = self.rows.layout
        classes = sorted(set(table.cuts))
        others = sorted(
            {
                int(layout)
                for i, cluster in enumerate(part.clusters)
                for layout in cluster.layout
                if i != j
            }
        )
        kappa, omega = part.transfer_ns[classes], part.occupancy_ns[classes]
        self.inner = kappa[:, own, own].min(axis=0, initial=NEVER)
        self.inner_pace = omega[:, own, own].min(axis=0, initial=NEVER)
        none = np.zeros(self.count, dtype=np.int64)
        self.into, self.out = none, none
        if classes and others:
            self.into = kappa[:, others][:, :, own].min(axis=(0, 1))
            self.out = kappa[:, own][:, :, others].min(axis=(0, 2))

    def tables(self, period: int, behind: int = 1) -> tuple[Ints, Ints, Ints]:
        """Return the least fill of (m, l) in the middle, as the last, and as the first.

        As the first, one stage is taken to follow on another cluster; ``opening``,
        which knows how many follow, gives no less.

        Parameters
        ----------
        behind
            How many stages on other clusters follow in the middle at least.
        """
        limits, middle, last = self.rooms(period, behind)
        return (
            self._least(limits, middle, _MIDDLE),
            self._least(limits, last, _LAST),
            self._least(limits, middle, _FIRST),
        )

    def kept(self, period: int, most: Sequence[Ints]) -> NDArray[np.bool_]:
        """Return which strategies allow some (m, l) at these costs with g; (K,).

        Parameters
        ----------
        most
            The most that the cluster may cost in the middle, as the last, as the
            first, and alone; each of shape (M + 1, length + 1).
        """
        limits, middle, last = self.rooms(period)
        kept = np.zeros(self.count, dtype=np.bool_)
        for role, room, cost in zip(
            (_MIDDLE, _LAST, _FIRST, _ALONE),
            (middle, last, middle, last),
            most,
            strict=True,
        ):
            costs = self._costs(limits, room, role)
            sides = costs.sides + self.own_end
            spared(costs._replace(sides=sides), cost, kept)
        return kept

    def _rooms(self, period: int, behind: int = 1) -> tuple[Ints, Ints, Ints]:
        """Return limits, and the room in the middle and as the last cluster."""
        places = np.arange(self.most)
        between = self.warmups(places + behind, 1, known=False)
        middle = self._cumulated(self._slots(period, between), period)
        slots = self._slots(period, self.warmups(places))
        if self.most:
            within = self.within(period, self.warmups(places[:1]), "trail")
            slots[:, :1] = np.minimum(slots[:, :1], within)
        last = self._cumulated(slots, period)
        return self._limits(period), middle[:, None], last[:, None]

    def opening(self, period: int, stages: int) -> Ints:
        """Return the least fill of (m, l) as the first of several clusters.

        As p = ``stages``, it is known how many stages follow each of its own.
        """
        if self.steps.inside == self.steps.across == 0:
            # Warm-ups do not depend on the number of stages.
            return self.opened(period)[:stages]
        return self._opened(period, stages)

    def _opened(self, period: int, stages: int) -> Ints:
        slots = self.opening_slots(period)[:, : stages - 1].copy()
        first = self.warmups(np.array([stages - 1]), 1)
        within = self.within(period, first, "lead")
        slots[:, -1:] = np.minimum(slots[:, -1:], within)
        most = min(self.most, stages - 1)
        room = self._cumulated(slots[:, ::-1][:, :most], period)[:, None]
        return self._least(self._limits(period), room, _FIRST)

    def _opening_slots(self, period: int) -> Ints:
        """Return what fits on a stage that i + 1 others follow, i = 0..; (K, W).

        At least one of these is on another cluster.
        """
        following = np.arange(1, self.most_stages)
        return self._slots(period, self.warmups(following, 1))

    def alone(self, period: int) -> Ints:
        """Return the least fill of p stages with all body units, p = 0..most."""
        slots = self._slots(period, self.warmups(np.arange(self.most)))
        room = self._cumulated(slots, period)
        least = np.full(self.most_stages + 1, NEVER, dtype=np.int64)
        fills = self._least(self._limits(period), room[:, None], _ALONE)
        least[: self.most + 1] = fills[:, self.units.length]
        return least

    def _least(self, limits: Ints, room: Ints, role: Role) -> Ints:
        """Return the least fill of (m, l); shape (M + 1, length + 1).

        Parameters
        ----------
        limits
            Longest window over m stages, m = 0..M at least.
        room
            The most body units that m stages can hold, per strategy, and per l if it
            depends on l; shape (K, 1, M + 1) or (K, length + 1, M + 1).
        """
        size = (room.shape[2], self.units.length + 1)
        least = np.full(size, NEVER, dtype=np.int64)
        cheapest(self._costs(limits, room, role), least)
        return least

    def _costs(self, limits: Ints, room: Ints, role: Role) -> StageCosts:
        """Return the costs of stages; the parameters are those of ``_least``."""
        units = self.units
        ends = np.zeros(self.count, dtype=np.int64)
        sides, held = ends, 0
        if role.first:
            ends, held = ends + self.lead, held + int(units.lead.sum())
            sides = sides + self.first_end
        else:
            sides = sides + self.into
        if role.last:
            ends, held = ends + self.trail, held + int(units.trail.sum())
        else:
            sides = sides + self.out
        return StageCosts(
            run=self.run,
            inner=self.inner,
            ends=ends,
            sides=sides,
            room=room,
            limits=limits,
            stages_ok=self.stages_ok,
            units_ok=self.units_ok[held:],
        )

    def _cumulated(self, slots: Ints, period: int) -> Ints:
        """Return the most units on the first m slots; 0 if impossible; (K, M + 1)."""
        total = np.zeros((self.count, slots.shape[1] + 1), dtype=np.int64)
        able = np.logical_and.accumulate(slots >= 1, axis=1)
        able[:, 1:] &= self._keeping_up(period)[:, None]
        stages = np.arange(1, slots.shape[1] + 1)
        able &= stages <= self.rows.max_stages[:, None]
        total[:, 1:] = np.where(able, np.cumsum(slots, axis=1), 0)
        return total

    def warmups(
        self, following: Ints, crossed: int = 0, *, known: bool = True
    ) -> Warmups:
        """Return the warm-ups of stages by how many others follow.

        Parameters
        ----------
        following
            How many follow; the least, unless ``known``.
        crossed
            How many boundaries between clusters follow at least.
        """
        steps = self.steps
        fewest = 1 + steps.inside * (following - crossed) + steps.across * crossed
        behind = following
        if not known:
            behind = np.full_like(following, self.most_stages - 1)
        apart = np.minimum(behind, self.clusters - 1)
        more = steps.across - steps.inside
        return Warmups(fewest, 1 + steps.most * behind + more * apart)

    def between(self, period: int, stages: int) -> Ints:
        """Return the most body units of a stage that another of its cluster follows.

        By how many stages end with it, 1..``stages``, if there are as many in all;
        shape (K, stages + 1).
        """
        following = np.ones(stages + 1, dtype=np.int64)
        if len(self.weights):
            following = np.maximum(stages - np.arange(stages + 1), 1)
        return self._slots(period, self.warmups(following))

    def _slots(self, period: int, warmups: Warmups) -> Ints:
        """Return the most body units on stages with these warm-ups; (K, W)."""
        slots = np.empty((self.count, len(warmups.fewest)), dtype=np.int64)
        for i, warmup in enumerate(warmups.fewest):
            flight = min(int(warmup), self.flights)
            if self.steps.all_first:
                flight = self.microbatches
            slots[:, i] = self.fitting(flight)
        return np.minimum(slots, self.within(period, warmups))

    def within(self, period: int, warmups: Warmups, *ends: End) -> Ints:
        """Return the most body units on stages that keep to lambda; (K, 1 or W).

        Parameters
        ----------
        ends
            Ends of the model that they hold as well.
        """
        return self.keeping_to(period, *ends)[:, None]

    def _unit_times(self) -> UnitTimes:
        return unit_times(self.rows)

    def _within(self, period: int, *ends: End) -> Ints:
        """Return the most body units of a stage that keeps to lambda; (K,).

        Parameters
        ----------
        ends
            Ends of the model that it holds as well.
        """
        if self.microbatches == 1:
            return np.full(self.count, self.units.length, dtype=np.int64)
        held = sum(
            (getattr(self.units, end) for end in ends),
            start=np.zeros_like(self.units.lead),
        )
        room = period - self.tau @ held
        most: Ints = (self.busy <= room[:, None]).sum(axis=1) - 1
        return np.maximum(most, 0)

    def _keeping_up(self, period: int) -> NDArray[np.bool_]:
        """Return which strategies' inner boundaries keep to lambda; shape (K,)."""
        if self.microbatches == 1:
            return np.ones(self.count, dtype=np.bool_)
        keeping: NDArray[np.bool_] = self.inner_pace <= period
        return keeping

    def _limits(self, period: int) -> Ints:
        """Return the longest window over m stages of the cluster; (M + 1,)."""
        if self.microbatches == 1 or self.steps.all_first:
            return np.full(self.most + 1, NEVER, dtype=np.int64)
        step = self.steps.most
        # Python integers, as lambda comes from a certificate and may be huge.
        limits = [(1 + step * (m - 1)) * period for m in range(self.most + 1)]
        return np.array([min(limit, NEVER) for limit in limits], dtype=np.int64)

    def _fitting(self, flight: int) -> Ints:
        """Return the most body units that fit with ``flight`` in flight; (K,)."""
        rows, units = self.rows, self.units
        bytes_ = rows.state_bytes + flight * rows.activation_bytes
        most: Ints = (units.runs(bytes_) <= self._room()[:, None]).sum(axis=1) - 1
        return np.maximum(most, 0)

    def _room(self) -> Ints:
        """Return the bytes for body units on a stage; (K,)."""
        rows = self.rows
        short = rows.temporary_bytes[:, self.units.kinds].min(axis=1, initial=NEVER)
        room: Ints = self.usable - rows.fixed_bytes - short
        return room
