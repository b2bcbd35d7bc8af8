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
        Clusters that may host anything; in ``costs`` they are numbered anew.
    leaders
        Groups of identical clusters that labels tell apart in one way only: those
        of a group are used from the last to the first, seen from the end of the
        pipeline. Plans are the canonical ones' copies then.
    possible
        Whether the pins alone leave anything to choose.
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
        self.pairs = [
            (j, k)
            for j, cluster in enumerate(data.part.clusters)
            for k in range(len(cluster.strategies))
            if most_stages(data, self.permitted.stages[j], j, k) > 0
        ]
        self.guests = sorted({j for j, _ in self.pairs})
        self.leaders = kept_leaders(data)
        if ordered and not self._are_neighbours():
            self.leaders = tuple(range(len(data.names)))
        self.possible = bool(self.pairs) and self._can_rest()
        builder = ArrayBuilder(
            data=data, pairs=self.pairs, guests=self.guests, leaders=self.leaders
        )
        self.costs = builder.costs(excluded)

    def _can_rest(self) -> bool:
        """Whether clusters with nothing on offer need not host."""
        return all(
            self.permitted.may_rest(j)
            for j in range(len(self.data.names))
            if j not in self.guests
        )

    def _are_neighbours(self) -> bool:
        """Whether nothing stands between identical clusters in the tie rule.

        Then it compares two orders of clusters as it does those of their groups.
        """
        groups = [self.leaders[j] for j in self.guests]
        return len(list(groupby(groups))) == len(set(groups))

    def canonical(self, decision: Decision) -> Decision:
        """Return the copy of a plan that stands for its copies, by ``leaders``."""
        return canonical(decision, self.leaders)

    def deltas(self, floor: int, ceiling: int) -> tuple[Ints, Ints]:
        """Return delta by cut class and layouts, for memory and for the period.

        They differ only where times decide (``h-1f1b``) and lambda_0 is not known
        well enough: the first is the least that any lambda_0 of the range has, the
        second the most. Free ones are 0, as memory may have it.

        Parameters
        ----------
        floor, ceiling
            Range of lambda_0 in ns; read only where times decide.
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
        """Whether a boundary may be at a class of cuts, between two layouts.

        Within a run there is one layout, unless principles are relaxed.
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
            Most ns that a link is taken, and that kappa lasts.
        """
        kappa, omega = self.costs.edge
        found: Ints = np.unique(
            kappa[self.joins & (omega <= busiest) & (kappa <= slowest)]
        )
        return found

    def least_longest(self) -> int:
        """Return what the slowest stage takes at least, whatever the plan, in ns.

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
            Most that a stage takes.
        kappas
            That boundaries may have.
        """
        return self.least_longest(), max(longest, int(kappas.max(initial=0)))

    def thresholds(self, kappas: Ints) -> list[int]:
        """Return every lambda_0 (ns) at which some delta changes, ascending.

        Parameters
        ----------
        kappas
            Of the boundaries of interest.
        """
        if self.data.stages == 1:
            return []
        ends = {int(t * value) for value in kappas for t in self.data.rule.thresholds}
        return sorted(ends)
