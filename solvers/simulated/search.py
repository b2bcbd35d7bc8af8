"""Simulated times of one (p, q): lower bounds, and every plan within a limit."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.base.deadline import Deadline, Interrupted
from hetopt.formulations.chain import Chain
from hetopt.formulations.decision import Decision
from hetopt.formulations.restricting import restrict
from hetopt.solvers.arrays.costs import Fact, Sum
from hetopt.solvers.arrays.on_paths import Beside
from hetopt.solvers.arrays.windows import INFINITE
from hetopt.solvers.simulated.fills import prefixes, promising
from hetopt.solvers.simulated.state import (
    MOST_ANSWERED,
    Levels,
    Placed,
    Walk,
    WalkState,
    new_walk,
)
from hetopt.solvers.simulated.view import Range, View
from hetopt.solvers.simulated.walk import WalkEnd, walk_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.formulations.program import ProgramData
    from hetopt.problem.problem import Problem
    from hetopt.solvers.arrays.costs import Ints
    from hetopt.solvers.simulated.runs import Runs

#: Largest width of the excess's intervals, as a share of the limit.
_SEARCHED = 1 / 256
#: Number of intervals that the excess is first cut into.
_FIRST = 8
#: Most entries of one table over clusters, stages and units, and of a search's tables.
_MOST_ENTRIES, _MOST_IN_ALL = 2**24, 2**25
#: Stages tried between two checks of the clock.
_STEPS = 50_000


def is_searchable(problem: Problem, table: CostTable) -> bool:
    """Whether there are few enough clusters for tables over their subsets."""
    units = Chain.of(table).length
    most = max((p for p in problem.stage_counts if p <= units), default=1)
    entries = (most + 1) * (units + 1) << len(problem.clusters)
    return entries * _FIRST <= _MOST_IN_ALL


def survey(data: ProgramData, limit: int, share: float, *, alone: bool = False) -> Ints:
    """Return a lower bound on the simulated time by p, in ns.

    At most ``limit + 1``, which stands for 'no plan within the limit'; INFINITE
    where no plan exists at all.

    Parameters
    ----------
    data
        Program of one q; its ``stages`` is the largest p of interest.
    share
        Largest width of the excess's intervals, as a share of the limit.
    alone
        Whether the largest p is the only one.
    """
    bounds = np.full(data.stages + 1, INFINITE, dtype=np.int64)
    view = View(data, limit)
    if not view.possible:
        return bounds
    if not alone:
        # Any stage may be the first of fewer.
        view.beside[Beside.BEFORE] = 0
    if view.entries > _MOST_ENTRIES:
        bounds[1:] = min(view.capacity(), limit + 1)
        return bounds
    bounds[1:] = limit + 1
    first = data.stages if alone else 0
    for each in _intervals(view, limit, share, first):
        value = np.maximum(each.table[:, :, 0].min(axis=0) + each.low, each.trips)
        bounds = np.minimum(bounds, np.where(value <= limit, value, limit + 1))
    bounds[0] = INFINITE
    return bounds


class _Interval(NamedTuple):
    """An interval of the excess with its ``View.fills`` and ``View.trips``."""

    low: int
    high: int
    runs: Runs
    table: Ints
    trips: int


def _intervals(
    view: View,
    limit: int,
    share: float,
    first: int,
    least: int = 0,
    check: Callable[[], None] = lambda: None,
) -> Iterator[_Interval]:
    """Yield intervals of the excess, ascending.

    They are no wider than ``share`` of the limit, reach ``least``, and have a fill of
    ``first`` or more stages within the limit. Without ``first`` there are no trips.
    """
    ends = [limit * n // _FIRST for n in range(_FIRST + 1)]
    waiting = [(low + (low > 0), high) for low, high in pairwise(ends)][::-1]
    if first:
        # Often there is none at all.
        _, table = view.fills(limit, 0, limit)
        reach = limit - table[:, first:, 0].min()
        waiting = [(low, high) for low, high in waiting if low <= reach]
    while waiting:
        check()
        low, high = waiting.pop()
        if high < least:
            continue
        runs, table = view.fills(limit, low, high)
        if table[:, first:, 0].min() + low > limit:
            continue
        trips = view.trips(runs, limit) if first else 0
        if trips > limit:
            continue
        if high - low > share * limit:
            middle = (low + high) // 2
            waiting += [(middle + 1, high), (low, middle)]
            continue
        yield _Interval(low, high, runs, table, trips)


class SimulatedSearch:
    """All plans of one (p, q) whose simulated time is within a limit.

    Parameters
    ----------
    limit
        Called repeatedly: returns the largest simulated time of interest, in ns.
    found
        Called with every plan within the limit and its simulated time.
    simulate
        Returns a plan's simulated time, in ns, or a bound above the limit given; for
        schedules that are bounded by paths alone until all stages are placed.
    useful
        Returns a slice without dominated strategies.

    Attributes
    ----------
    simulated
        Whole pipelines simulated.
    alone
        The least time of a plan whose transfers take turns on links, without these.
    """

    def __init__(
        self,
        data: ProgramData,
        *,
        limit: Callable[[], int],
        found: Callable[[Decision, int], None],
        simulate: Callable[[Decision, int], int],
        useful: Callable[[TableSlice], TableSlice],
        deadline: Deadline,
    ) -> None:
        self.data = data
        self.simulated, self.alone = 0, INFINITE
        self._useful = useful
        self._limit = limit
        self._found = found
        self._simulate = simulate
        self._deadline = deadline

    def run(self) -> None:
        """Find them all; raises Interrupted if time or memory runs out."""
        view = View(self.data, self._limit())
        waiting = [view] if view.possible else []
        while waiting:
            view, limit = waiting.pop(), self._limit()
            narrowed, intervals = self._narrowed(view, limit)
            if not (intervals and narrowed.possible):
                continue
            middle = narrowed.middle(limit, intervals[-1][1])
            if middle is None:
                # No threshold is left, so every delta is known exactly.
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
        """Return a view of the useful options, and the useful intervals of excess."""
        p = self.data.stages
        share = max(_SEARCHED, view.entries / _MOST_IN_ALL)
        if share > 1 / _FIRST:
            # Too many clusters for tables over their subsets.
            raise Interrupted
        keep = np.zeros(len(view.options.pairs), dtype=np.int64)
        intervals = []
        least = view.least_excess(limit)
        for each in _intervals(view, limit, share, p, least, self._check):
            most, runs = limit - each.low, each.runs
            promising(runs, each.table, prefixes(runs, most), most, keep)
            # Ascending: the last one is the widest.
            intervals.append((each.low, each.high))
        kept: list[list[int]] = [[] for _ in view.data.part.clusters]
        for (j, k), wanted in zip(view.options.pairs, keep, strict=True):
            if wanted:
                kept[j].append(k)
        rows = [np.array(own, dtype=np.int64) for own in kept]
        # With fewer strategies there are fewer layouts next to one: more are dominated.
        part = self._useful(restrict(view.data.part, rows))
        return View(replace(view.data, part=part), limit, view.within), intervals

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
                decision = self._decision(view, walk)
                value = int(walk.state[WalkState.VALUE])
                if not view.costs.facts[Fact.ENDS]:
                    value = self._simulate(decision, self._limit())
                elif view.data.part.shared is not None:
                    alone, value = value, self._simulate(decision, self._limit())
                    if value > alone:
                        self.alone = min(self.alone, alone)
                if value <= self._limit():
                    self._found(decision, value)
            if outcome == WalkEnd.CROWDED:
                raise Interrupted
            if outcome == WalkEnd.DONE:
                self.simulated += int(walk.state[WalkState.PLANS])
                return

    def _decision(self, view: View, walk: Walk) -> Decision:
        chain, part = self.data.chain, view.data.part
        rows = walk.stage[1 : self.data.stages + 1][::-1]
        units = [int(row[Placed.LENGTH]) for row in rows]
        runs = [row for row in rows if row[Placed.RUN_PLACE] == 0]
        pairs = [view.options.pairs[int(row[Placed.OPTION])] for row in runs]
        warmups = None
        if self.data.rule.free:
            p = self.data.stages
            warmups = tuple(walk.warm.counts[p, 0, p:0:-1].tolist())
        return Decision(
            microbatches=part.microbatches,
            order=tuple(j for j, _ in pairs),
            strategies=tuple(part.clusters[j].strategies[k] for j, k in pairs),
            hosted=tuple(int(row[Placed.RUN_STAGES]) for row in runs),
            units=chain.with_ends(units),
            warmups=warmups,
        )


def _levels(view: View, intervals: Sequence[tuple[int, int]], limit: int) -> Levels:
    """Return the lower bounds that the walk uses."""
    count = len(intervals)
    shape = 1 << len(view.costs.host), view.data.stages + 1, view.data.chain.length + 1
    onward = np.full((count + 1, *shape), INFINITE, dtype=np.int64)
    rest = np.empty((count, *shape), dtype=np.int64)
    caps = []
    for k, (low, high) in reversed(list(enumerate(intervals))):
        runs = view.runs(limit, high)
        caps.append(runs.level.caps[: len(view.costs.host)])
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
