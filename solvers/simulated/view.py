"""Options on offer within a range of lambda_0, and bounds on their plans."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetopt.schedule.orders import FOLDED_CHUNKS
from hetopt.schedule.schedules import MAX_DELTA
from hetopt.solvers.arrays.costs import Edge
from hetopt.solvers.arrays.least import shortest, unlike
from hetopt.solvers.arrays.on_paths import Beside, beside, on_paths, trips
from hetopt.solvers.arrays.options import ProgramOptions
from hetopt.solvers.arrays.windows import INFINITE
from hetopt.solvers.simulated.bounds import at_ends, limits
from hetopt.solvers.simulated.fills import suffixes
from hetopt.solvers.simulated.runs import (
    Runs,
    joints,
    leading,
    longest_occupancy,
    worths,
)

if TYPE_CHECKING:
    from hetopt.formulations.program import ProgramData
    from hetopt.solvers.arrays.costs import Ints


@dataclass(frozen=True, slots=True)
class Range:
    """Lambda_0 in ns: floor <= lambda_0 <= ceiling; unlimited unless h-1f1b."""

    floor: int
    ceiling: int


class View:
    """Options on offer of one (p, q), or of every p up to one, with their bounds.

    If warm-ups depend on lambda_0, the bounds hold for a range of it: ``within``, or
    else the range of all plans of at most ``limit`` ns.
    """

    def __init__(
        self, data: ProgramData, limit: int, within: Range | None = None
    ) -> None:
        self.data = data
        self.options = ProgramOptions(data, ())
        self.possible = self.options.possible
        if not self.possible:
            return
        costs = self.costs = on_paths(self.options.costs, self.options)
        self._trips = trips(costs, self.options)
        self.unlike = unlike(data.chain)
        self.short = [shortest(costs, first) for first in sorted({0, self.unlike})]
        self.ends = at_ends(costs)
        self._apart = costs.home[:, None] != costs.home[None, :]
        self._span(self._reach(limit) if within is None else within)

    def over(self, within: Range) -> View:
        """Return the view of a range of lambda_0."""
        view = copy(self)
        view._span(within)
        return view

    def _span(self, within: Range) -> None:
        """Set all that depends on lambda_0."""
        costs, self.within = self.costs, within
        used = self.options.joins & (costs.edge[Edge.KAPPA] <= within.ceiling)
        self.beside = beside(costs, used)
        self.inner = self.beside[Beside.INSIDE]
        # The longest omega of these links; most excesses permit all of them.
        self.slowest = int(costs.edge[Edge.OMEGA].max(initial=0, where=used))
        self.joint = joints(costs, INFINITE, within.ceiling)
        self.worth = worths(costs, self.joint, self.inner, self.ends)
        least, most = self.options.deltas(within.floor, within.ceiling)
        self.delta = most
        # Without a boundary of a kind, its steps are not read.
        kinds = used & ~self._apart, used & self._apart
        self.steps = np.array(
            [
                [least.min(initial=MAX_DELTA, where=kind) for kind in kinds],
                [most.max(initial=0, where=kind) for kind in kinds],
            ]
        )

    def _reach(self, limit: int) -> Range:
        """Return the range of lambda_0 of plans within the limit."""
        if not self.data.rule.thresholds or self.data.stages == 1:
            return Range(0, INFINITE)
        kappas = self._kappas(limit, limit)
        longest = limit // self.data.part.microbatches
        return Range(*self.options.reach(longest, kappas))

    def _kappas(self, limit: int, excess: int) -> Ints:
        """Return each kappa that plans within a limit and an excess may have."""
        return self.options.kappas(longest_occupancy(self.costs, excess), limit // 2)

    def middle(self, limit: int, excess: int) -> int | None:
        """Return the median of the thresholds of lambda_0 within the range.

        None if there is none above its floor.

        Parameters
        ----------
        limit, excess
            Largest simulated time and excess of interest, in ns.
        """
        floor, ceiling = self.within.floor, self.within.ceiling
        ends = self.options.thresholds(self._kappas(limit, excess))
        inner = [end for end in ends if floor < end <= ceiling]
        return inner[len(inner) // 2] if inner else None

    def least_excess(self, limit: int) -> int:
        """Return the least excess of plans within the limit.

        A lambda_0 longer than any stage is the kappa of a link, whose own excess is
        q - 1 occupancies.
        """
        kappa, omega = self.costs.edge
        q, within = self.data.part.microbatches, self.within
        if within.floor <= limit // q:
            return 0
        slow = self.options.joins & (kappa >= within.floor) & (kappa <= within.ceiling)
        return (q - 1) * int(omega.min(initial=INFINITE // q, where=slow))

    @property
    def entries(self) -> int:
        """Return the size of a table over clusters, stages and units."""
        stages, units = self.data.stages + 1, self.data.chain.length + 1
        return stages * units << len(self.costs.host)

    def capacity(self) -> int:
        """Return a lower bound on the simulated time of every p, without a table."""
        return self.data.part.passes * self.options.least_longest()

    def runs(self, limit: int, excess: int) -> Runs:
        """Return runs with at most this excess, within the limit."""
        costs, part = self.costs, self.data.part
        # Of one chunk, of which folded stages have two.
        passes = part.passes * (1 if part.pairs is None else FOLDED_CHUNKS)
        longest = min(self.within.ceiling, limit // passes)
        level = limits(costs, self.short, self.steps, self.beside, longest, excess)
        joint, worth = self.joint, self.worth
        if self.slowest > longest_occupancy(costs, excess):
            joint = joints(costs, excess, self.within.ceiling)
            worth = worths(costs, joint, self.inner, self.ends)
        best = leading(costs, worth, level)
        short, steps = self.short[0], self.steps
        return Runs(costs, short, steps, joint, level, self.ends, best, self.unlike)

    def trips(self, runs: Runs, limit: int) -> int:
        """Return the least time of trips through all stages; 0 if there are none.

        INFINITE if it is above the limit. Their number of stages is the largest p.
        """
        least, level = 0, runs.level
        busiest, ceiling = level.excess, self.within.ceiling
        for costs in self._trips:
            joint = joints(costs, busiest, ceiling)
            best = leading(costs, worths(costs, joint, self.inner, self.ends), level)
            own = runs._replace(costs=costs, joint=joint, leading=best)
            least = max(least, int(suffixes(own, limit)[:, -1, 0].min()))
            if least > limit:
                break
        return least

    def fills(self, limit: int, low: int, high: int) -> tuple[Runs, Ints]:
        """Return ``suffixes`` of an interval of the excess."""
        runs = self.runs(limit, high)
        return runs, suffixes(runs, limit - low)
