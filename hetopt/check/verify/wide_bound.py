"""The least fill if P3 or P4 is relaxed: stage by stage, not cluster by cluster.

The m stages of a cluster are added from its last to its first, so that the least number
of stages after each is known; each has a strategy of its own as long as the devices
suffice (P4 relaxed), or all have one (only P3 relaxed). The order of tensor degrees is
ignored. A boundary costs the stages on either side at least the least kappa that their
layouts may have there, and memory holds at least one micro-batch. For simulated times
the excess of paths (``simulated_bound``) is limited instead of lambda.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.check.verify.fills import NEVER, add
from hetopt.check.verify.hosting import Host
from hetopt.check.verify.simulated_bound import SimulatedHost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hetopt.check.verify.hosting import End
    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.principles import Principles
    from hetopt.results.result import Objective

    Ints = NDArray[np.int64]
    #: Whether a cluster hosts the first stage, and the last.
    Ends = tuple[bool, bool]

#: Roles of clusters, as ``Ends``.
_BOTH = (True, True)
_ROLES = ((False, False), (False, True), (True, False), _BOTH)


class WideRelaxation:
    """Least fills at one q, without regard to which stages are neighbours."""

    def __init__(
        self,
        problem: Problem,
        table: CostTable,
        microbatches: int,
        most_stages: int,
        principles: Principles,
        objective: Objective = "closed",
    ) -> None:
        part = table.at(microbatches)
        host = _Excessive if objective == "simulated" else _Mixed
        self.most_stages = most_stages
        order = problem.pins.order
        # A pinned order names every cluster once.
        self.consecutive = principles.consecutive or order is not None
        self.hosts = [
            host(
                problem,
                table,
                part,
                j,
                most_stages,
                consecutive=self.consecutive,
                shared=principles.sharing == "one",
            )
            for j in range(len(table.cluster_names))
            if order is None or table.cluster_names[j] in order
        ]
        self.ends = None if order is None else (order[0], order[-1])
        self.length = self.hosts[0].units.length if self.hosts else 0
        self.least_sync = min((host.least_sync for host in self.hosts), default=0)

    def fill(self, period: int, counts: Sequence[int]) -> Ints:
        """Return the least fill of each of these p at lambda <= ``period``."""
        total = np.full(self.most_stages + 1, NEVER, dtype=np.int64)
        if not self.hosts or not counts:
            return total
        shape = (max(counts) + 1, self.length + 1)
        start = np.full(shape, NEVER, dtype=np.int64)
        start[0, 0] = 0
        states = {(False, False): start}
        for host in self.hosts:
            rest = all(other.may_rest for other in self.hosts if other is not host)
            tables = host.fills(period, self._roles(host))
            if self.consecutive and _BOTH in tables:
                # No other cluster can then host a stage.
                alone = tables.pop(_BOTH)[: max(counts) + 1, self.length]
                if rest:
                    np.minimum(total[: len(alone)], alone, out=total[: len(alone)])
            after: dict[Ends, Ints] = {}
            if host.may_rest:
                after = {taken: state.copy() for taken, state in states.items()}
            for taken, state in states.items():
                for role, costs in tables.items():
                    if any(a and b for a, b in zip(taken, role, strict=True)):
                        continue
                    both = (taken[0] or role[0], taken[1] or role[1])
                    target = after.setdefault(both, np.full_like(start, NEVER))
                    add(state, costs, target)
            states = after
        if _BOTH in states:
            reached = states[_BOTH][:, self.length]
            np.minimum(total[: len(reached)], reached, out=total[: len(reached)])
        return total

    #: No cheaper lower bound is known.
    rough = fill

    def _roles(self, host: Host) -> list[Ends]:
        if self.ends is None:
            return list(_ROLES)
        return [(host.name == self.ends[0], host.name == self.ends[1])]


class _Mixed(Host):
    """What one cluster can host, with every stage treated by itself."""

    def __init__(
        self,
        problem: Problem,
        table: CostTable,
        part: TableSlice,
        j: int,
        most: int,
        *,
        consecutive: bool,
        shared: bool,
    ) -> None:
        super().__init__(problem, table, part, j, most)
        self.shared = shared
        layout = self.rows.layout
        near = [layout] if consecutive else [own.layout for own in part.clusters]
        self.enter = self.leave = np.zeros(self.count, dtype=np.int64)
        kappa = part.transfer_ns[sorted(set(table.cuts))]
        if len(kappa) and self.count:
            beside = np.unique(np.concatenate(near))
            self.enter = kappa[:, beside][:, :, layout].min(axis=(0, 1))
            self.leave = kappa[:, layout][:, :, beside].min(axis=(0, 2))
        devices = np.asarray(self.rows.devices, dtype=np.int64)
        step = int(np.gcd.reduce(devices)) if self.count else 1
        self.size = devices // step
        self.budget = table.cluster_devices[j] // step

    def fills(self, period: int, roles: Sequence[Ends]) -> dict[Ends, Ints]:
        """Return the least fill of (m, l) in each role; shape (M + 1, length + 1)."""
        shape = (self.most + 1, self.units.length + 1)
        least = {role: np.full(shape, NEVER, dtype=np.int64) for role in roles}
        for last in sorted({role[1] for role in roles}):
            behind = self._start()
            for r in range(self.most):
                for role in roles:
                    if role[1] == last:
                        opening = self._stage(period, r, first=role[0], last=last)
                        least[role][r + 1] = self._closed(behind, opening, r + 1)
                within = self._stage(period, r, first=None, last=last)
                behind = self._added(behind, within)
                if (behind >= NEVER).all():
                    break
        for role, costs in least.items():
            costs[~self._permitted(role)] = NEVER
        return least

    def _stage(self, period: int, r: int, *, first: bool | None, last: bool) -> Ints:
        """Return the cost of a stage that r of its cluster follow; (K, length + 1).

        Parameters
        ----------
        first, last
            Whether the cluster hosts the pipeline's first stage, and its last one;
            ``first`` is None if this stage is not the cluster's first.
        """
        following = np.array([r if last else r + 1])
        warmups = self.warmups(following, 0 if last else 1, known=False)
        ends = np.zeros(self.count, dtype=np.int64)
        sides = ends
        held: list[End] = []
        if first is None:
            sides = sides + self.enter
        elif first:
            ends = ends + self.lead + self.first_end
            held.append("lead")
        else:
            sides = sides + self.into
        if r:
            sides = sides + self.leave
        elif last:
            ends = ends + self.trail
            held.append("trail")
        else:
            sides = sides + self.out
        cap = np.minimum(
            self._slots(period, warmups), self.within(period, warmups, *held)
        )[:, 0]
        counts = np.arange(self.units.length + 1)
        fits = (counts >= 1) & (counts <= cap[:, None])
        return np.where(fits, self.run + (ends + sides)[:, None], NEVER)

    def _permitted(self, role: Ends) -> NDArray[np.bool_]:
        """Return which (m, l) the user's pins permit."""
        ends = self.units.lead.sum() * role[0] + self.units.trail.sum() * role[1]
        units = self.units_ok[ends : ends + self.units.length + 1]
        return np.outer(self.stages_ok, units)

    # --- by the devices that are left, or by the strategy that all stages share -----

    def _start(self) -> Ints:
        """Return the costs of no stage, by devices or strategy; (., length + 1)."""
        rows = self.count if self.shared else self.budget + 1
        state = np.full((rows, self.units.length + 1), NEVER, dtype=np.int64)
        state[:, 0] = 0
        return state

    def _added(self, behind: Ints, cost: Ints) -> Ints:
        """Return the costs with one more stage before those of ``behind``."""
        after = np.full_like(behind, NEVER)
        length = self.units.length
        if self.shared:
            for n in range(1, length + 1):
                reach = behind[:, : length + 1 - n] + cost[:, n : n + 1]
                np.minimum(after[:, n:], reach, out=after[:, n:])
            return np.minimum(after, NEVER)
        for size, row in self._by_size(cost):
            for n in _held(row):
                reach = behind[: self.budget + 1 - size, : length + 1 - n] + row[n]
                np.minimum(after[size:, n:], reach, out=after[size:, n:])
        return np.minimum(after, NEVER)

    def _closed(self, behind: Ints, cost: Ints, stages: int) -> Ints:
        """Return the least costs with the first of m stages before ``behind``."""
        least = np.full(self.units.length + 1, NEVER, dtype=np.int64)
        if self.shared:
            able = self.rows.max_stages >= stages
            if able.any():
                found = self._added(behind, cost)[able].min(axis=0)
                np.minimum(least, found, out=least)
            return least
        for size, row in self._by_size(cost):
            before = behind[self.budget - size]
            for n in _held(row):
                reach = before[: self.units.length + 1 - n] + row[n]
                np.minimum(least[n:], reach, out=least[n:])
        return least

    def _by_size(self, cost: Ints) -> list[tuple[int, Ints]]:
        """Return the least cost among strategies with equally many devices."""
        return [
            (int(size), cost[self.size == size].min(axis=0))
            for size in np.unique(self.size)
            if size <= self.budget
        ]


class _Excessive(_Mixed, SimulatedHost):
    """The same where stages keep to a largest excess instead of lambda."""

    def __init__(
        self,
        problem: Problem,
        table: CostTable,
        part: TableSlice,
        j: int,
        most: int,
        *,
        consecutive: bool,
        shared: bool,
    ) -> None:
        super().__init__(
            problem, table, part, j, most, consecutive=consecutive, shared=shared
        )
        # A stage beside another one of its cluster may have another layout.
        self.beside = np.minimum(self.beside, np.minimum(self.enter, self.leave))
        if not consecutive and self.clusters > 1:
            # Every boundary may be between two clusters.
            self.clusters = most


def _held(row: Ints) -> list[int]:
    """Return the numbers of units that a stage can hold."""
    return [int(n) for n in np.flatnonzero(row < NEVER)]
