"""The simulated times of one (p, q): bounds, and every plan within a limit."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hetopt.deadline import Deadline, Interrupted
from hetopt.formulations.chain import Chain
from hetopt.formulations.decision import Decision
from hetopt.formulations.restricting import restrict
from hetopt.schedule.schedules import MAX_DELTA
from hetopt.solvers.arrays.costs import Edge, Fact, HostColumn, Option, Sum
from hetopt.solvers.arrays.program import Offer
from hetopt.solvers.arrays.windows import INFINITE
from hetopt.solvers.simulated.bounds import at_ends, inside, limits, shortest
from hetopt.solvers.simulated.fills import prefixes, promising, suffixes
from hetopt.solvers.simulated.runs import (
    Runs,
    joints,
    leading,
    longest_occupancy,
    worths,
)
from hetopt.solvers.simulated.state import (
    MOST_ANSWERED,
    Levels,
    Placed,
    Walk,
    WalkState,
    new_walk,
)
from hetopt.solvers.simulated.walk import WalkEnd, walk_on

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hetopt.cost.table import CostTable, TableSlice
    from hetopt.formulations.program import ProgramData
    from hetopt.problem.problem import Problem
    from hetopt.solvers.arrays.costs import Costs, Ints

#: Intervals of the excess are at most this share of the limit wide.
_SEARCHED = 1 / 256
#: How many intervals the excess is cut into to begin with.
_FIRST = 8
#: Entries of one table over clusters, stages and units, and of all that a search has.
_MOST_ENTRIES, _MOST_IN_ALL = 2**24, 2**25
#: Stages tried between two looks at the clock.
_STEPS = 50_000


@dataclass(frozen=True, slots=True)
class Range:
    """Lambda_0 in ns: floor <= lambda_0 <= ceiling; all there is unless h-1f1b."""

    floor: int
    ceiling: int


class View:
    """Options on offer of one (p, q), or of every p up to one, with their bounds.

    Where warm-ups depend on lambda_0, it is one for all lambda_0 there may be within
    ``limit`` ns until ``over`` says less.
    """

    def __init__(self, data: ProgramData, limit: int) -> None:
        self.data = data
        self.offer = Offer(data, ())
        self.possible = self.offer.possible
        if not self.possible:
            return
        costs = self.costs = self.offer.costs
        self.short = shortest(costs.sums)
        self.ends = at_ends(costs)
        apart = costs.home[:, None] != costs.home[None, :]
        seen = np.isin(np.arange(costs.edge.shape[1]), _classes(costs))
        # Between clusters, and within the runs of a strategy.
        self._joins = seen[:, None, None] & (apart | np.eye(len(apart), dtype=bool))
        self._apart = apart
        self._span(self._reach(limit))

    def over(self, within: Range) -> View:
        """Return the view of a range of lambda_0."""
        view = copy(self)
        view._span(within)
        return view

    def _span(self, within: Range) -> None:
        """Set all that depends on lambda_0."""
        costs, self.within = self.costs, within
        used = self._joins & (costs.edge[Edge.KAPPA] <= within.ceiling)
        self.inner = inside(costs, within.ceiling)
        # Over all links; most excesses leave room for each of them.
        self.slowest = int(costs.edge[Edge.OMEGA].max(initial=0, where=used))
        self.joint = joints(costs, INFINITE, within.ceiling)
        self.worth = worths(costs, self.joint, self.inner, self.ends)
        least, most = self.offer.deltas(within.floor, within.ceiling)
        self.delta = most
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
        q = self.data.part.microbatches
        # Some stage is at least as slow as when all devices share the units evenly.
        return Range(self.capacity() // q, max(limit // q, *self._hops(limit, limit)))

    def _hops(self, limit: int, excess: int) -> list[int]:
        """Return every kappa of plans within a limit and an excess, ascending."""
        kappa, omega = self.costs.edge
        fits = omega <= longest_occupancy(self.costs, excess)
        fits &= self._joins & (kappa <= limit // 2)
        return [0, *np.unique(kappa[fits]).tolist()]

    def middle(self, limit: int, excess: int) -> int | None:
        """Return a lambda_0 at which warm-ups change, None if there is none.

        Parameters
        ----------
        limit, excess
            Of the plans of interest, in ns.
        """
        if self.data.stages == 1:
            return None
        floor, ceiling = self.within.floor, self.within.ceiling
        ends = {
            int(threshold * kappa)
            for kappa in self._hops(limit, excess)
            for threshold in self.data.rule.thresholds
        }
        inner = sorted(end for end in ends if floor < end <= ceiling)
        return inner[len(inner) // 2] if inner else None

    def least_excess(self, limit: int) -> int:
        """Return the least excess of plans within the limit.

        A lambda_0 above what stages can take is that of a link, which is as busy.
        """
        kappa, omega = self.costs.edge
        q, (floor, ceiling) = (
            self.data.part.microbatches,
            (
                self.within.floor,
                self.within.ceiling,
            ),
        )
        if floor <= limit // q:
            return 0
        slow = self._joins & (kappa >= floor) & (kappa <= ceiling)
        return (q - 1) * int(omega.min(initial=INFINITE // q, where=slow))

    @property
    def entries(self) -> int:
        """Return the size of a table over clusters, stages and units."""
        stages, units = self.data.stages + 1, self.data.chain.length + 1
        return stages * units << len(self.costs.host)

    def capacity(self) -> int:
        """Return a bound on the simulated time of every p, without any table.

        Each cluster runs body units at most as fast as with all its devices on its
        best option; every one runs q times.
        """
        costs = self.costs
        unit = np.diff(costs.sums[Sum.TAU], axis=1).min(axis=1)
        work = np.maximum(unit * costs.option[:, Option.DEVICES], 1)
        rate = 0.0
        for j, host in enumerate(costs.host):
            own = costs.option[:, Option.CLUSTER] == j
            rate += float(host[HostColumn.DEVICES] / work[own].min())
        batches = self.data.part.microbatches * self.data.chain.length
        return int(batches / rate * (1 - 1e-9))

    def runs(self, limit: int, excess: int) -> Runs:
        """Return runs with at most this excess, within the limit."""
        longest = min(self.within.ceiling, limit // self.data.part.microbatches)
        costs = self.costs
        level = limits(costs, self.short, self.steps, self.inner, longest, excess)
        joint, worth = self.joint, self.worth
        if self.slowest > longest_occupancy(costs, excess):
            joint = joints(costs, excess, self.within.ceiling)
            worth = worths(costs, joint, self.inner, self.ends)
        best = leading(costs, worth, level)
        return Runs(costs, self.short, self.steps, joint, level, self.ends, best)

    def fills(self, limit: int, low: int, high: int) -> tuple[Runs, Ints]:
        """Return ``suffixes`` of an interval of the excess."""
        runs = self.runs(limit, high)
        return runs, suffixes(runs, limit - low)


def is_searchable(problem: Problem, table: CostTable) -> bool:
    """Whether clusters are few enough to tell apart which of them are left."""
    units = Chain.of(table).length
    most = max((p for p in problem.stage_counts if p <= units), default=1)
    entries = (most + 1) * (units + 1) << len(problem.clusters)
    return entries * _FIRST <= _MOST_IN_ALL


def survey(data: ProgramData, limit: int, share: float) -> Ints:
    """Return a lower bound on the simulated time by p, in ns.

    At most ``limit + 1``, which stands for 'no plan within the limit'; INFINITE
    where no plan exists at all.

    Parameters
    ----------
    data
        Of one q; ``stages`` is the largest p of interest.
    share
        Of the limit: how wide intervals of the excess may be.
    """
    bounds = np.full(data.stages + 1, INFINITE, dtype=np.int64)
    view = View(data, limit)
    if not view.possible:
        return bounds
    if view.entries > _MOST_ENTRIES:
        bounds[1:] = min(view.capacity(), limit + 1)
        return bounds
    bounds[1:] = limit + 1
    waiting = _intervals(limit)
    while waiting:
        low, high = waiting.pop()
        _, table = view.fills(limit, low, high)
        fill = table[:, :, 0].min(axis=0)
        value = fill + low
        if (value > limit).all():
            continue
        if high - low > share * limit:
            middle = (low + high) // 2
            waiting += [(middle + 1, high), (low, middle)]
            continue
        bounds = np.minimum(bounds, np.where(value <= limit, value, limit + 1))
    bounds[0] = INFINITE
    return bounds


def _intervals(limit: int) -> list[tuple[int, int]]:
    """Cut 0..limit into intervals; the first one is the last of the list."""
    ends = [limit * n // _FIRST for n in range(_FIRST + 1)]
    return [(low + (low > 0), high) for low, high in pairwise(ends)][::-1]


class SimulatedSearch:
    """All plans of one (p, q) whose simulated time is within a limit.

    Parameters
    ----------
    limit
        Asked again and again: the largest simulated time of interest, in ns.
    found
        Called with every plan within the limit and its simulated time.
    useful
        Returns a slice without strategies that others of it make useless.
    """

    def __init__(
        self,
        data: ProgramData,
        *,
        limit: Callable[[], int],
        found: Callable[[Decision, int], None],
        useful: Callable[[TableSlice], TableSlice],
        deadline: Deadline,
    ) -> None:
        self.data = data
        self.simulated = 0
        self._useful = useful
        self._limit = limit
        self._found = found
        self._deadline = deadline

    def run(self) -> None:
        """Find them all; raises Interrupted."""
        view = View(self.data, self._limit())
        waiting = [view] if view.possible else []
        while waiting:
            view, limit = waiting.pop(), self._limit()
            narrowed, intervals = self._narrowed(view, limit)
            if not (intervals and narrowed.possible):
                continue
            middle = narrowed.middle(limit, intervals[-1][1])
            if middle is None:
                # Every warm-up count is known.
                self._walk(narrowed, _levels(narrowed, intervals, limit))
                continue
            within = narrowed.within
            waiting += [
                narrowed.over(Range(middle, within.ceiling)),
                narrowed.over(Range(within.floor, middle - 1)),
            ]

    def _check(self) -> None:
        if self._deadline.is_over():
            raise Interrupted

    def _narrowed(self, view: View, limit: int) -> tuple[View, list[tuple[int, int]]]:
        """Cut the excess into intervals; return a view of what they leave, and them."""
        p = self.data.stages
        share = max(_SEARCHED, view.entries / _MOST_IN_ALL)
        if share > 1 / _FIRST:
            # Too many clusters to tell apart which of them are left.
            raise Interrupted
        keep = np.zeros(len(view.offer.options), dtype=np.int64)
        intervals = []
        waiting = _intervals(limit)
        least = view.least_excess(limit)
        while waiting:
            self._check()
            low, high = waiting.pop()
            if high < least:
                continue
            runs, table = view.fills(limit, low, high)
            fill = int(table[:, p, 0].min())
            if fill + low > limit:
                continue
            if high - low > share * limit:
                middle = (low + high) // 2
                waiting += [(middle + 1, high), (low, middle)]
                continue
            most = limit - low
            promising(runs, table, prefixes(runs, most), most, keep)
            # Ascending: the last one is the widest.
            intervals.append((low, high))
        kept: list[list[int]] = [[] for _ in view.data.part.clusters]
        for (j, k), wanted in zip(view.offer.options, keep, strict=True):
            if wanted:
                kept[j].append(k)
        rows = [np.array(own, dtype=np.int64) for own in kept]
        # Fewer strategies have fewer layouts beside them.
        part = self._useful(restrict(view.data.part, rows))
        narrowed = View(replace(view.data, part=part), limit)
        if narrowed.possible:
            narrowed = narrowed.over(view.within)
        return narrowed, intervals

    def _walk(self, view: View, levels: Levels) -> None:
        free = self.data.rule.free
        if free and self.data.part.microbatches > MOST_ANSWERED:
            raise Interrupted
        walk = new_walk(
            self.data.stages, self.data.part.microbatches, self._limit(), free=free
        )
        while True:
            self._check()
            walk.state[WalkState.LIMIT] = self._limit()
            walk.state[WalkState.STEPS] = _STEPS
            outcome = walk_on(view.costs, levels, walk)
            if outcome == WalkEnd.FOUND:
                self._found(
                    self._decision(view, walk), int(walk.state[WalkState.VALUE])
                )
            if outcome == WalkEnd.CROWDED:
                raise Interrupted
            if outcome == WalkEnd.DONE:
                self.simulated += int(walk.state[WalkState.PLANS])
                return

    def _decision(self, view: View, walk: Walk) -> Decision:
        chain, part = self.data.chain, view.data.part
        rows = walk.stage[1 : self.data.stages + 1][::-1]
        units = [int(row[Placed.LENGTH]) for row in rows]
        units[0] += sum(chain.lead)
        units[-1] += sum(chain.trail)
        runs = [row for row in rows if row[Placed.RUN_PLACE] == 0]
        options = [view.offer.options[int(row[Placed.OPTION])] for row in runs]
        warmups = None
        if self.data.rule.free:
            p = self.data.stages
            warmups = tuple(walk.warm.counts[p, 0, p:0:-1].tolist())
        return Decision(
            microbatches=part.microbatches,
            order=tuple(j for j, _ in options),
            strategies=tuple(part.clusters[j].strategies[k] for j, k in options),
            hosted=tuple(int(row[Placed.RUN_STAGES]) for row in runs),
            units=tuple(units),
            warmups=warmups,
        )


def _classes(costs: Costs) -> Ints:
    """Return the classes of cuts that a pipeline may have."""
    found: Ints = np.unique(costs.cut[1 : int(costs.facts[Fact.L])])
    return found


def _levels(view: View, intervals: Sequence[tuple[int, int]], limit: int) -> Levels:
    """Return what the walk looks ahead with."""
    count = len(intervals)
    shape = 1 << len(view.costs.host), view.data.stages + 1, view.data.chain.length + 1
    onward = np.full((count + 1, *shape), INFINITE, dtype=np.int64)
    rest = np.empty((count, *shape), dtype=np.int64)
    caps = []
    for k, (low, high) in reversed(list(enumerate(intervals))):
        runs = view.runs(limit, high)
        caps.append(runs.level.caps)
        rest[k] = prefixes(runs, limit - low)
        onward[k] = np.minimum(onward[k + 1], rest[k] + low)
    forward = np.diff(view.costs.sums[Sum.FORWARD], axis=1).min(axis=0)
    ends = [view.within.floor, view.within.ceiling]
    return Levels(
        low=np.array([low for low, _ in intervals], dtype=np.int64),
        high=np.array([high for _, high in intervals], dtype=np.int64),
        total=np.cumsum(np.stack(caps[::-1]), axis=-1),
        rest=rest,
        onward=onward,
        forward=np.concatenate([[0], np.cumsum(forward)]),
        inner=view.inner,
        ends=view.ends,
        scalars=np.array(ends, dtype=np.int64),
        delta=view.delta,
    )
