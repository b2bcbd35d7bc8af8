"""The options on offer of one (p, q), and the range of lambda_0 of their plans."""

from __future__ import annotations

from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from hetopt.solvers.arrays.building import ArrayBuilder, most_stages
from hetopt.solvers.arrays.costs import Edge, HostColumn, Option, Sum
from hetopt.solvers.decisions.copies import canonical
from hetopt.solvers.decisions.identical import kept_leaders

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hetopt.formulations.decision import Decision
    from hetopt.formulations.program import ProgramData
    from hetopt.solvers.arrays.costs import Ints


class ProgramOptions:
    """Options on offer and their costs.

    Attributes
    ----------
    pairs
        (cluster, strategy's index) of each option.
    guests
        Clusters that may host a stage; ``costs`` numbers them by their place here.
    leaders
        First cluster of each one's group of identical clusters. Searches use the
        clusters of a group from the last to the first, seen from the end of the
        pipeline, and so find only one copy of each plan.
    possible
        Whether the pins alone permit any plan.
    """

    def __init__(
        self,
        data: ProgramData,
        excluded: Sequence[Decision],
        *,
        ordered: bool = False,
    ) -> None:
        self.data = data
        self.permitted = data.permitted
        rows = [
            np.flatnonzero(most_stages(data, j) > 0)
            for j in range(len(data.part.clusters))
        ]
        self.pairs = [(j, k) for j, own in enumerate(rows) for k in own.tolist()]
        self.guests = sorted({j for j, _ in self.pairs})
        self.leaders = kept_leaders(data)
        if ordered and not self._are_neighbours():
            self.leaders = tuple(range(len(data.names)))
        self.possible = bool(self.pairs) and self._can_rest()
        builder = ArrayBuilder(
            data=data,
            rows=rows,
            pairs=self.pairs,
            guests=self.guests,
            leaders=self.leaders,
        )
        self.costs = builder.costs(excluded)

    def _can_rest(self) -> bool:
        """Whether all clusters without an option on offer may stay unused."""
        return all(
            self.permitted.may_rest(j)
            for j in range(len(self.data.names))
            if j not in self.guests
        )

    def _are_neighbours(self) -> bool:
        """Whether the clusters of each group have consecutive numbers.

        The tie rule then compares two orders of clusters as two orders of groups.
        """
        groups = [self.leaders[j] for j in self.guests]
        return len(list(groupby(groups))) == len(set(groups))

    def canonical(self, decision: Decision) -> Decision:
        """Return the canonical copy of a plan, by ``leaders``."""
        return canonical(decision, self.leaders)

    def deltas(self, floor: int, ceiling: int) -> tuple[Ints, Ints]:
        """Return delta by cut class and layouts, for memory and for the period.

        They differ only if delta depends on times (``h-1f1b``) and the range of
        lambda_0 has a threshold: the first is the least delta over the range, the
        second the largest. Free warm-ups have delta 0.

        Parameters
        ----------
        floor, ceiling
            Range of lambda_0 in ns; read only if delta depends on times.
        """
        kappa, home, rule = self.costs.edge[Edge.KAPPA], self.costs.home, self.data.rule
        same = home[:, None] == home[None, :]
        least = np.where(same, rule.inside, rule.across) + np.zeros_like(kappa)
        most = least.copy()
        for threshold in rule.thresholds:
            least += threshold * kappa > ceiling
            most += threshold * kappa > floor
        return least, most

    @cached_property
    def joins(self) -> NDArray[np.bool_]:
        """Whether a boundary of a cut class may be between two layouts; (X, A, A).

        A run has one layout, unless principles are relaxed.
        """
        home, classes = self.costs.home, np.arange(len(self.costs.edge[Edge.KAPPA]))
        joins = home[:, None] != home[None, :]
        if self.data.principles.relaxed:
            joins |= True
        np.fill_diagonal(joins, val=True)
        seen = np.isin(classes, self.data.chain.cuts)
        found: NDArray[np.bool_] = seen[:, None, None] & joins
        return found

    def kappas(self, busiest: int, slowest: int) -> Ints:
        """Return each kappa that boundaries may have, ascending.

        Parameters
        ----------
        busiest, slowest
            Largest omega and kappa of interest, in ns.
        """
        kappa, omega = self.costs.edge
        found: Ints = np.unique(
            kappa[self.joins & (omega <= busiest) & (kappa <= slowest)]
        )
        return found

    def least_longest(self) -> int:
        """Return a lower bound in ns on the slowest stage's tau in any plan.

        Each cluster runs body units at most as fast as with all its devices on its best
        option.
        """
        costs = self.costs
        unit = np.diff(costs.sums[Sum.TAU], axis=1).min(axis=1)
        if not unit.all():
            return 0
        work = unit * costs.option[:, Option.DEVICES]
        rate = 0.0
        for j, host in enumerate(costs.host):
            own = costs.option[:, Option.CLUSTER] == j
            rate += float(host[HostColumn.DEVICES] / work[own].min())
        return int(self.data.chain.length / rate * (1 - 1e-9))

    def reach(self, longest: int, kappas: Ints) -> tuple[int, int]:
        """Return the least and the largest lambda_0 of plans, in ns.

        Parameters
        ----------
        longest
            Largest tau of a stage.
        kappas
            Each kappa that boundaries may have.
        """
        return self.least_longest(), max(longest, int(kappas.max(initial=0)))

    def thresholds(self, kappas: Ints) -> list[int]:
        """Return every lambda_0 (ns) at which some delta changes, ascending.

        Parameters
        ----------
        kappas
            Kappas of the boundaries of interest.
        """
        if self.data.stages == 1:
            return []
        ends = {int(t * value) for value in kappas for t in self.data.rule.thresholds}
        return sorted(ends)
