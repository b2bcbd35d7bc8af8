"""A cheap valid lower bound for every (p, q), by dynamic programming.

For one q and a largest lambda, every cluster costs at least what its best strategy
costs for m stages and l body units. Adding up the clusters, in no particular order,
bounds the fill of every p at once. This ignores which clusters are neighbours, windows
of the period that cross clusters, and micro-batches in flight due to the stages of
other clusters.

The least fill falls as lambda grows while ``(q - 1) lambda`` rises, so a range of
lambda is cut into intervals, each bounded by its largest lambda in the fill and its
smallest in the period (MODEL.md section 6, item 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetopt.formulations.permitted import Permitted
from hetopt.problem.training.principles import PRUNED
from hetopt.solvers.bounds.cluster_costs import ALONE, ClusterCosts
from hetopt.solvers.bounds.mixed_costs import MixedCosts
from hetopt.solvers.bounds.sums import complete, min_plus

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.formulations.chain import Chain
    from hetopt.problem.training.pins import Pins
    from hetopt.problem.training.principles import Principles
    from hetopt.schedule.paths import Weights

    Costs = NDArray[np.float64]


#: With at most so many limits on units, by strategy and stages, lambdas at which all
#: limits are equal share their fills. With more limits, hardly any two have equal ones.
_FEW_CAPS = 64


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
        Slice at q with the strategies to consider.
    most_stages
        Largest p of interest.
    principles
        Principles that plans keep. If some are relaxed, clusters have no single
        strategy or no order, and so there are no ``choices``.
    weights
        Those of the excess over the fill that paths have, if the bounds are to be on
        the simulated time (``hetopt.schedule.paths``): its largest, over n - 1, takes
        the place of lambda. Windows and what transfers block are left out.
    """

    def __init__(
        self,
        *,
        table: CostTable,
        part: TableSlice,
        chain: Chain,
        pins: Pins,
        most_stages: int,
        principles: Principles = PRUNED,
        weights: Weights | None = None,
    ) -> None:
        self.part = part
        self.chain = chain
        self.most_stages = most_stages
        permitted = Permitted.of(pins, table.cluster_names)
        # A pinned order names every cluster once.
        self.consecutive = principles.consecutive or permitted.order is not None
        self.mixed = principles.sharing != "one"
        costs = MixedCosts if self.mixed else ClusterCosts
        self.clusters = [
            costs(
                table=table,
                part=part,
                chain=chain,
                permitted=permitted,
                j=j,
                most_stages=most_stages,
                consecutive=self.consecutive,
                weights=weights,
            )
            for j in range(len(table.cluster_names))
        ]
        # The first and the last step of the recursion are cheap, so the two clusters
        # with room for most stages go there.
        self.sequence = sorted(
            range(len(self.clusters)), key=lambda j: self.clusters[j].most_stages
        )
        if len(self.sequence) > 1:
            self.sequence = [self.sequence[-1], *self.sequence[:-1]]
        resting = [cluster.may_rest for cluster in self.clusters]
        self._may_be_alone = [
            all(resting[:j] + resting[j + 1 :]) for j in range(len(resting))
        ]
        # A cache of one number per p and lambda, which are read many times.
        self._fills: dict[float, Costs] = {}
        self._few = sum(map(_caps_of, self.clusters)) <= _FEW_CAPS
        self._first: dict[tuple[bytes, ...], float] = {}
        self._alikes: dict[float, float] = {}
        self._option_fills: dict[tuple[float, int], tuple[float, list[Costs]]] = {}
        self.least_sync = min(
            (float(cluster.least_sync) for cluster in self.clusters if cluster.count),
            default=0.0,
        )

    def least_period(self) -> float:
        """Return a lower bound on lambda over all p, in ns.

        As if all device time were used without loss; and no stage takes less time than
        one body unit.
        """
        rate = sum(cluster.best_rate for cluster in self.clusters)
        shortest = min(
            (cluster.shortest_unit for cluster in self.clusters), default=np.inf
        )
        return max(self.chain.length / rate if rate else np.inf, shortest)

    def fill(self, period: float) -> Costs:
        """Return the least fill for p = 0..most_stages at lambda <= ``period``, in ns.

        The clusters that host the first and the last stage have the embedding and the
        head beside their body units.
        """
        key = self._alike(period)
        if key not in self._fills:
            tables = [self.clusters[j].costs(period) for j in self.sequence]
            self._fills[key] = self._total(tables)
        return self._fills[key]

    def _alike(self, period: float) -> float:
        """Return a lambda known before, if possible, where all fills are the same.

        Costs depend on lambda by the most body units that stages can have. In small
        problems these numbers change seldom.
        """
        if not self._few:
            return period
        if period not in self._alikes:
            key = tuple(cluster.caps_key(period) for cluster in self.clusters)
            self._alikes[period] = self._first.setdefault(key, period)
        return self._alikes[period]

    def choices(self, period: float, stages: int) -> list[Choice] | None:
        """Return a relaxed optimum for p = ``stages``, or None if there is none."""
        tables = [self.clusters[j].costs(period) for j in self.sequence]
        states = [self._start()]
        for j, table in zip(self.sequence, tables, strict=True):
            states.append(self._join(states[-1], table, self.clusters[j].may_rest))
        taken, left, units = ALONE, stages, self.chain.length
        shared = states[-1].get(taken, self._empty())[left, units]
        alone = self._alone(tables)[:, stages]
        host = int(alone.argmin())
        if alone[host] <= shared:
            if not np.isfinite(alone[host]):
                return None
            return self._only(self.sequence[host], period, stages)
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

    def option_fill(self, period: float, stages: int) -> tuple[float, list[Costs]]:
        """Return the least fill of p = ``stages``, and by strategy of each cluster.

        The first is stronger than ``fill``: some cluster hosts the first stage, and for
        a given p the warm-up counts of its stages are known.
        """
        if not self._few:
            return self._option_fill(period, stages)
        key = (self._alike(period), stages)
        if key not in self._option_fills:
            self._option_fills[key] = self._option_fill(*key)
        return self._option_fills[key]

    def _option_fill(self, period: float, stages: int) -> tuple[float, list[Costs]]:
        tables = {j: self.clusters[j].costs(period) for j in self.sequence}
        prefix = [self._start()]
        for j in self.sequence[:-1]:
            prefix.append(self._join(prefix[-1], tables[j], self.clusters[j].may_rest))
        suffix = [self._start()]
        for j in self.sequence[:0:-1]:
            suffix.append(self._join(suffix[-1], tables[j], self.clusters[j].may_rest))
        suffix.reverse()
        least = np.inf
        bounds: list[Costs] = [np.empty(0)] * len(self.sequence)
        for index, j in enumerate(self.sequence):
            others = self._merge(prefix[index], suffix[index])
            bounds[j], opening = self.clusters[j].option_fill(period, others, stages)
            least = min(least, float(opening.min(initial=np.inf)))
        if self.mixed:
            # The bounds by strategy are weaker than that of a whole mix.
            least = max(least, float(self.fill(period)[stages]))
        return least, bounds

    # ------------------------------------------------------------- recursion

    def _alone(self, tables: list[dict[int, Costs]]) -> Costs:
        """Return the least fill with one cluster hosting everything.

        Returns
        -------
        By cluster, as in ``sequence``, and p; shape (J, most_stages + 1).
        """
        fill = np.full((len(tables), self.most_stages + 1), np.inf)
        for row, j, table in zip(fill, self.sequence, tables, strict=True):
            if self._may_be_alone[j] and ALONE in table:
                costs = table[ALONE][:, self.chain.length]
                row[: len(costs)] = costs
        return fill

    def _only(self, j: int, period: float, stages: int) -> list[Choice]:
        units = self.chain.length
        strategy = self.clusters[j].strategy(period, ALONE, stages, units)
        return [
            Choice(cluster=j, strategy=strategy, stages=stages, units=units, role=ALONE)
        ]

    def _fills_all(self, role: int) -> bool:
        """Whether a cluster in this role must be the only one."""
        return role == ALONE and self.consecutive

    def _empty(self) -> Costs:
        return np.full((self.most_stages + 1, self.chain.length + 1), np.inf)

    def _start(self) -> dict[int, Costs]:
        state = self._empty()
        state[0, 0] = 0.0
        return {0: state}

    def _total(self, tables: list[dict[int, Costs]]) -> Costs:
        state = self._start()
        for j, table in zip(self.sequence[:-1], tables[:-1], strict=True):
            state = self._join(state, table, self.clusters[j].may_rest)
        last = self.clusters[self.sequence[-1]]
        total: Costs = self._alone(tables).min(axis=0)
        units = self.chain.length
        for taken, before in state.items():
            if last.may_rest and taken == ALONE:
                total = np.minimum(total, before[:, units])
            for role, costs in tables[-1].items():
                if taken & role or taken | role != ALONE or self._fills_all(role):
                    continue
                complete(before, costs, total)
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
                if taken & role or self._fills_all(role):
                    continue
                after = joined.setdefault(taken | role, self._empty())
                min_plus(before, costs, after)
        return joined

    def _merge(
        self, left: dict[int, Costs], right: dict[int, Costs]
    ) -> dict[int, Costs]:
        merged: dict[int, Costs] = {}
        for taken, costs in left.items():
            for role, others in right.items():
                if not taken & role:
                    after = merged.setdefault(taken | role, self._empty())
                    min_plus(costs, others, after)
        return merged


def _caps_of(cluster: ClusterCosts) -> int:
    """Return of how many strategies and stages the costs have limits."""
    return cluster.count * cluster.most_stages


def _find(
    before: dict[int, Costs],
    table: dict[int, Costs],
    taken: int,
    stages: int,
    units: int,
    value: float,
) -> tuple[int, int, int]:
    """Return the (role, m, l) that leads from ``before`` to ``value``."""
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
