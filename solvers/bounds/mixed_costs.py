"""Least cost of the part of a pipeline on one cluster whose stages may differ.

Where P4 is relaxed, the m stages on a cluster are a mix of strategies that share its
devices. Stages are added from the last to the first, as their memory depends on how
many follow, over (devices available, body units); the order of tensor degrees is
ignored. At each boundary, the stage on either side counts the least kappa that its
layout may have there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.solvers.bounds.cluster_costs import ALONE, FIRST, LAST, ClusterCosts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.solvers.bounds.cluster_costs import Costs


class MixedCosts(ClusterCosts):
    """Least cost of m stages with l body units, each with its own strategy."""

    def __init__(self, *, table: CostTable, part: TableSlice, **options: Any) -> None:
        super().__init__(table=table, part=part, **options)
        devices = self.cluster.devices
        step = int(np.gcd.reduce(devices)) if self.count else 1
        self.size = devices // step
        self.room = table.cluster_devices[options["j"]] // step
        self.sizes = sorted({int(size) for size in self.size})
        units = np.arange(self.chain.length + 1)
        #: l - x by l and x; where that is negative, an index past the end.
        self.left = units[:, None] - units
        self.left[self.left < 0] = self.chain.length + 1

    def _boundaries(self, part: TableSlice, j: int) -> None:
        """Set the least kappa on either side of a stage, within the cluster as well."""
        super()._boundaries(part, j)
        layout = self.cluster.layout
        classes = list(self.chain.cut_classes)
        self.enter = self.leave = np.zeros(self.count)
        if not classes or not self.count:
            return
        near = np.unique(layout)
        if not self.consecutive:
            near = np.unique(np.concatenate([own.layout for own in part.clusters]))
        kappa = part.transfer_ns[classes]
        self.enter = kappa[:, near][:, :, layout].min(axis=(0, 1))
        self.leave = kappa[:, layout][:, :, near].min(axis=(0, 2))

    def strategy(self, period: float, role: int, stages: int, units: int) -> int:
        """Raise NotImplementedError: a mix has no single strategy."""
        raise NotImplementedError

    def caps_key(self, period: float) -> bytes:
        """Return what is equal for lambdas at which all costs and bounds are equal."""
        if not self.count:
            return b""
        lead, trail = self.held
        ends = (0, lead, trail, lead + trail)
        return b"".join(self._within(period - end).tobytes() for end in ends)

    # ----------------------------------------------------------------- one stage

    def _stage(
        self, period: float, warm: NDArray[np.int64], *, first: int, last: int
    ) -> Costs:
        """Return the cost of one stage with l body units; shape (K, L + 1).

        Parameters
        ----------
        warm
            Most body units that memory permits, per strategy.
        first, last
            1 for the first (last) stage of the pipeline, 0 for that of the cluster's
            part only, -1 for any other.
        """
        ends = np.zeros(self.count)
        held = sides = ends
        for place, unit, busy, across, within in (
            (first, self.lead, self.held[0], self.before, self.enter),
            (last, self.trail, self.held[1], self.after, self.leave),
        ):
            if place == 1:
                ends, held = ends + unit, held + busy
            else:
                sides = sides + (across if place == 0 else within)
        cap = warm
        if self.passes > 1:
            cap = np.minimum(cap, self._within(period - held))
        units = np.arange(self.chain.length + 1)
        cost: Costs = self.run + (ends + sides)[:, None]
        cost[(units > cap[:, None]) | (units < 1)] = np.inf
        return cost

    def _by_size(self, cost: Costs) -> Costs:
        """Return the least cost over strategies of each size; shape (sizes, L + 1)."""
        return np.array([cost[self.size == size].min(axis=0) for size in self.sizes])

    # ----------------------------------------------------------------- all stages

    def _costs(self, period: float) -> dict[int, Costs]:
        if not self.count or not self.most_stages:
            return {}
        costs: dict[int, Costs] = {}
        for last in sorted({role & LAST for role in self.roles}):
            roles = [role for role in self.roles if role & LAST == last]
            for role, least in self._from_last(period, last, roles).items():
                costs[role] = np.where(self._pinned[role], least, np.inf)
        return costs

    def _from_last(
        self, period: float, last: int, roles: list[int]
    ) -> dict[int, Costs]:
        """Return the least cost of (m, l) by role; all roles have the same LAST bit."""
        shape = (self.most_stages + 1, self.chain.length + 1)
        least = {role: np.full(shape, np.inf) for role in roles}
        closing = int(bool(last))
        behind = self._nothing()
        known: dict[tuple[int, int, bytes], Costs] = {}

        def stage(first: int, r: int) -> Costs:
            warm = self._memory[roles[0]][:, r]
            at_end = -1 if r else closing
            key = (first, at_end, warm.tobytes())
            if key not in known:
                cost = self._stage(period, warm, first=first, last=at_end)
                known[key] = self._by_size(cost)
            return known[key]

        for r in range(self.most_stages):
            for role in roles:
                opening = stage(int(bool(role & FIRST)), r)
                least[role][r + 1] = self._add_first(behind, opening)
            behind = self._add(behind, stage(-1, r))
            if not np.isfinite(behind).any():
                break
        return least

    def _nothing(self) -> Costs:
        state = np.full((self.room + 1, self.chain.length + 1), np.inf)
        state[:, 0] = 0.0
        return state

    def _add(self, behind: Costs, stage: Costs) -> Costs:
        """Add a stage before those of ``behind``; over (devices, units)."""
        after = np.full_like(behind, np.inf)
        devices, units = behind.shape
        for size, cost in zip(self.sizes, stage, strict=True):
            for x in np.flatnonzero(np.isfinite(cost)):
                if size < devices:
                    target = after[size:, x:]
                    reach = behind[: devices - size, : units - x] + cost[x]
                    np.minimum(target, reach, out=target)
        return after

    def _add_first(self, behind: Costs, stage: Costs) -> Costs:
        """Add the first stage before those of ``behind``, using up to all devices."""
        least = np.full(self.chain.length + 1, np.inf)
        for size, cost in zip(self.sizes, stage, strict=True):
            if size <= self.room:
                row = np.append(behind[self.room - size], np.inf)
                least = np.minimum(least, (row[self.left] + cost).min(axis=1))
        return least

    # ------------------------------------------------------------ by strategy

    def option_fill(
        self, period: float, others: dict[int, Costs], stages: int
    ) -> tuple[Costs, Costs]:
        """Return the least fill of a pipeline that uses a strategy; see the base class.

        Every stage gets the memory limit of the cluster's last one, so that any of them
        may be the one with this strategy.
        """
        anyhow, opening = np.full(self.count, np.inf), np.full(self.count, np.inf)
        for role in self.roles if self.count and self.most_stages else ():
            rest = others.get(ALONE & ~role)
            if rest is None:
                continue
            least = self._with_each(period, role, rest, stages)
            anyhow = np.minimum(anyhow, least)
            if role & FIRST:
                opening = np.minimum(opening, least)
        return anyhow, opening

    def _with_each(self, period: float, role: int, rest: Costs, stages: int) -> Costs:
        opens, closes = int(bool(role & FIRST)), int(bool(role & LAST))
        warm = self._memory[role][:, 0]

        def stage(first: int, last: int) -> Costs:
            return self._stage(period, warm, first=first, last=last)

        alone, head = stage(opens, closes), stage(opens, -1)
        inside, tail = stage(-1, -1), stage(-1, closes)
        bounds = self._combine(self._nothing(), alone, rest, role, 1, stages)
        # The other stages of the mix include neither end of it, one, or both.
        middle = before = self._nothing()
        for m in range(2, min(self.most_stages, stages) + 1):
            for one, others_ in (
                (head, self._add(middle, self._by_size(tail))),
                (tail, self._add(middle, self._by_size(head))),
            ):
                found = self._combine(others_, one, rest, role, m, stages)
                bounds = np.minimum(bounds, found)
            if m > 2:
                both = self._add(
                    self._add(before, self._by_size(tail)), self._by_size(head)
                )
                found = self._combine(both, inside, rest, role, m, stages)
                bounds = np.minimum(bounds, found)
            before, middle = middle, self._add(middle, self._by_size(inside))
        return bounds

    def _combine(
        self,
        mix: Costs,
        one: Costs,
        rest: Costs,
        role: int,
        m: int,
        stages: int,
    ) -> Costs:
        """Return the least cost of a mix, a stage and the other clusters; (K,)."""
        permitted = self._pinned[role][m]
        others = np.where(permitted, rest[stages - m, ::-1], np.inf)
        bounds = np.full(self.count, np.inf)
        for size in self.sizes:
            if size > self.room or not np.isfinite(others).any():
                continue
            # Cost of everything else where the stage holds x units.
            row = np.append(mix[self.room - size], np.inf)
            around = (row[self.left] + others[:, None]).min(axis=0)
            which = self.size == size
            bounds[which] = (one[which] + around).min(axis=1)
        return bounds
