"""The simulated times of one (p, q): bounds, and every plan within a limit."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hetopt.formulations.decision import Decision
from hetopt.formulations.space import restrict
from hetopt.schedule.schedules import MAX_DELTA
from hetopt.solvers.arrays.program import (
    CLUSTER,
    KAPPA,
    LEAD,
    STAGE_DEVICES,
    STOCK,
    SYNC,
    SYNC_FIXED,
    TAU,
    Offer,
)
from hetopt.solvers.simulated.bounds import BOTH, INFINITE, Limits, limits, shortest
from hetopt.solvers.simulated.fills import joints, prefixes, promising, suffixes
from hetopt.solvers.simulated.state import (
    LENGTH,
    LIMIT,
    MOST_ANSWERED,
    OPTION,
    PLANS,
    RUN_PLACE,
    RUN_STAGES,
    STEPS,
    VALUE,
    Levels,
    Walk,
    new_walk,
)
from hetopt.solvers.simulated.walk import CROWDED, DONE, FOUND, walk_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hetopt.formulations.program import ProgramData
    from hetopt.solvers.arrays.program import Ints

#: Intervals of the excess are at most this share of the limit wide.
_SEARCHED = 1 / 256
#: How many intervals the excess is cut into to begin with.
_FIRST = 8
#: Entries of one table over clusters, stages and units, and of all that a search has.
_MOST_ENTRIES, _MOST_IN_ALL = 2**24, 2**25
#: Stages tried between two looks at the clock.
_STEPS = 200_000


class Interrupted(Exception):
    """Out of time, or too large to be searched."""


@dataclass(frozen=True, slots=True)
class Range:
    """Lambda_0 in ns: floor <= lambda_0 <= ceiling; all there is unless h-1f1b."""

    floor: int
    ceiling: int


class View:
    """Options on offer of one (p, q), or of every p up to one, with their bounds."""

    def __init__(self, data: ProgramData, within: Range) -> None:
        self.data = data
        self.within = within
        self.offer = Offer(data, ())
        self.possible = self.offer.possible
        if not self.possible:
            return
        costs = self.costs = self.offer.costs
        self.short = shortest(costs.sums)
        self.joint = joints(costs)
        self.least_tau = int(self.short[BOTH, :, 1].min())
        self.least_sync = int(
            (
                costs.option[:, SYNC_FIXED]
                + costs.option[:, LEAD + SYNC]
                + np.diff(costs.sums[SYNC], axis=1).min(axis=1)
            ).min()
        )
        least, most = self.offer.deltas(within.floor, within.ceiling)
        self.delta = most
        same = costs.home[:, None] == costs.home[None, :]
        self.steps = np.array(
            [
                [int(least[:, kind].min(initial=MAX_DELTA)) for kind in (same, ~same)],
                [int(most[:, kind].max(initial=0)) for kind in (same, ~same)],
            ]
        )

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
        unit = np.diff(costs.sums[TAU], axis=1).min(axis=1)
        work = np.maximum(unit * costs.option[:, STAGE_DEVICES], 1)
        rate = 0.0
        for j, host in enumerate(costs.host):
            own = costs.option[:, CLUSTER] == j
            rate += float(host[STOCK] / work[own].min())
        batches = self.data.part.microbatches * self.data.chain.length
        return int(batches / rate * (1 - 1e-9))

    def level(self, limit: int, excess: int) -> Limits:
        """Return what stages hold with at most this excess, within the limit."""
        longest = min(self.within.ceiling, limit // self.data.part.microbatches)
        return limits(self.costs, self.short, self.steps, longest, excess)

    def fills(self, limit: int, low: int, high: int) -> tuple[Limits, Ints]:
        """Return ``suffixes`` of an interval of the excess."""
        level = self.level(limit, high)
        most = limit - low - self.least_sync
        table = suffixes(self.costs, self.short, self.steps, self.joint, level, most)
        return level, table

    def rest(self, level: Limits, most: int) -> Ints:
        """Return ``prefixes``."""
        return prefixes(self.costs, self.short, self.steps, self.joint, level, most)


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
    view = View(data, Range(0, INFINITE))
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
        value = fill + low + view.least_sync
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


class Search:
    """All plans of one (p, q) whose simulated time is within a limit.

    Parameters
    ----------
    limit
        Asked again and again: the largest simulated time of interest, in ns.
    found
        Called with every plan within the limit and its simulated time.
    end
        When to give up, by the monotonic clock.
    """

    def __init__(
        self,
        data: ProgramData,
        *,
        limit: Callable[[], int],
        found: Callable[[Decision, int], None],
        end: float | None,
    ) -> None:
        self.data = data
        self.simulated = 0
        self._limit = limit
        self._found = found
        self._end = end

    def run(self) -> None:
        """Find them all; raises Interrupted."""
        for within in self._ranges():
            view = View(self.data, within)
            levels = self._levels(view)
            if levels is not None:
                self._walk(view, levels)

    def _ranges(self) -> Iterator[Range]:
        """Ranges of lambda_0 in which every warm-up count is known."""
        if not self.data.rule.thresholds or self.data.stages == 1:
            yield Range(0, INFINITE)
            return
        offer = Offer(self.data, ())
        if not offer.possible:
            return
        most = self._limit() // self.data.part.microbatches
        most = max(most, int(offer.costs.edge[KAPPA].max(initial=0)))
        ends = [0, *(t for t in offer.thresholds() if 0 < t <= most), INFINITE]
        for floor, following in pairwise(ends):
            yield Range(floor, following - 1)

    def _check(self) -> None:
        if self._end is not None and time.monotonic() > self._end:
            raise Interrupted

    def _levels(self, view: View) -> Levels | None:
        """Cut the excess into intervals; narrow the view to what they leave."""
        if not view.possible:
            return None
        limit, p = self._limit(), self.data.stages
        share = max(_SEARCHED, view.entries / _MOST_IN_ALL)
        if share > 1 / _FIRST:
            # Too many clusters to tell apart which of them are left.
            raise Interrupted
        keep = np.zeros(len(view.offer.options), dtype=np.int64)
        intervals = []
        waiting = _intervals(limit)
        while waiting:
            self._check()
            low, high = waiting.pop()
            level, table = view.fills(limit, low, high)
            fill = int(table[:, p, 0].min())
            if fill + low + view.least_sync > limit:
                continue
            if high - low > share * limit:
                middle = (low + high) // 2
                waiting += [(middle + 1, high), (low, middle)]
                continue
            most = limit - low - view.least_sync
            rest = view.rest(level, most)
            promising(
                view.costs,
                view.short,
                view.steps,
                view.joint,
                level,
                table,
                rest,
                most,
                keep,
            )
            # Ascending: the last one is the widest.
            intervals.append((low, high))
        if not intervals or not keep.any():
            return None
        self._narrow(view, keep)
        if not view.possible:
            return None
        tables = []
        for low, high in intervals:
            level = view.level(limit, high)
            most = limit - low - view.least_sync
            rest = view.rest(level, most)
            tables.append((level, rest))
        caps = np.stack([level.caps for level, _ in tables])
        return Levels(
            low=np.array([low for low, _ in intervals], dtype=np.int64),
            high=np.array([high for _, high in intervals], dtype=np.int64),
            total=np.cumsum(caps, axis=-1),
            rest=np.stack([rest for _, rest in tables]),
            inner=tables[0][0].inner,
            knobs=np.array(
                [view.least_sync, view.within.floor, view.within.ceiling],
                dtype=np.int64,
            ),
            delta=view.delta,
        )

    def _narrow(self, view: View, keep: Ints) -> None:
        """Keep only some options."""
        part = self.data.part
        kept = [
            np.array(
                [
                    k
                    for (i, k), wanted in zip(view.offer.options, keep, strict=True)
                    if i == j and wanted
                ],
                dtype=np.int64,
            )
            for j in range(len(part.clusters))
        ]
        view.__init__(  # type: ignore[misc]
            replace(self.data, part=restrict(part, kept)), view.within
        )

    def _walk(self, view: View, levels: Levels) -> None:
        free = self.data.rule.free
        if free and self.data.part.microbatches > MOST_ANSWERED:
            raise Interrupted
        walk = new_walk(
            self.data.stages, self.data.part.microbatches, self._limit(), free=free
        )
        while True:
            self._check()
            walk.state[LIMIT] = self._limit()
            walk.state[STEPS] = _STEPS
            outcome = walk_on(view.costs, levels, walk)
            if outcome == FOUND:
                self._found(self._decision(view, walk), int(walk.state[VALUE]))
            if outcome == CROWDED:
                raise Interrupted
            if outcome == DONE:
                self.simulated += int(walk.state[PLANS])
                return

    def _decision(self, view: View, walk: Walk) -> Decision:
        chain, part = self.data.chain, view.data.part
        rows = walk.stage[1 : self.data.stages + 1][::-1]
        units = [int(row[LENGTH]) for row in rows]
        units[0] += sum(chain.lead)
        units[-1] += sum(chain.trail)
        runs = [row for row in rows if row[RUN_PLACE] == 0]
        options = [view.offer.options[int(row[OPTION])] for row in runs]
        warmups = None
        if self.data.rule.free:
            p = self.data.stages
            warmups = tuple(walk.warm.counts[p, 0, p:0:-1].tolist())
        return Decision(
            microbatches=part.microbatches,
            order=tuple(j for j, _ in options),
            strategies=tuple(part.clusters[j].strategies[k] for j, k in options),
            hosted=tuple(int(row[RUN_STAGES]) for row in runs),
            units=tuple(units),
            warmups=warmups,
        )
