"""Lower bounds on the closed form, derived again to confirm a certificate.

For one q and lambda in [low, high], every plan of p stages takes at least

    F_p(high) + (q - 1) low + (the least g of any stage),

where F_p(high) is the least fill if every cluster is treated by itself: the cheapest of
its strategies for m stages with l body units, given that every stage and the cluster's
own windows keep to lambda = high and fit into memory. The sum over clusters, with one
of them first and one last, gives F_p. An interval on which the bound is not reached is
halved. If principles are relaxed, ``wide_bound`` has F. Where memory depends on p,
that is done for one p at a time. With several chunks a stage lambda only shows that
there is no plan.

Everything counts whole nanoseconds, so sums are exact. Boundaries between clusters
cost at least the least kappa out of the one plus the least kappa into the other.
"""

from __future__ import annotations

import time
from functools import lru_cache, partial
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from hetopt.check.plan.schedule.schedules import STEPS
from hetopt.check.verify.chunks import at_rest, is_sized, of_paths
from hetopt.check.verify.dominance import without_replaced
from hetopt.check.verify.fills import NEVER, Fills, joined, together
from hetopt.check.verify.hosting import Host
from hetopt.check.verify.simulated_bound import SimulatedHost, trip_counts
from hetopt.check.verify.wide_bound import WideRelaxation
from hetopt.problem.training.principles import PRUNED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.principles import Principles
    from hetopt.results.result import Objective

    Ints = NDArray[np.int64]

#: Bounds are whole picoseconds, times of the table whole nanoseconds.
PS_PER_NS = 1000
#: Most intervals of lambda examined for one q.
_MOST_INTERVALS = 2000
#: A bound that fails in this many intervals is not examined further.
_MOST_FAILURES = 16
#: If a search follows, intervals are not cut once q - 1 times their width is
#: less than this share of the bound.
_SHARE = 1 / 128
#: The same for the width of an excess.
_FINE = 1 / 64


class OutOfTime(Exception):
    """The deadline for all programs has passed."""


#: By stage count, the ranges of lambda in ns on which a bound is not proven.
Open = dict[int, list[tuple[int, int]]]


def unproven(
    problem: Problem,
    table: CostTable,
    microbatches: int,
    bounds: Mapping[int, int],
    principles: Principles = PRUNED,
    objective: Objective = "closed",
    end: float | None = None,
) -> list[int]:
    """Return the stage counts whose bound does not follow from the relaxation.

    Parameters
    ----------
    bounds
        Claimed lower bound by stage count, in ps.
    principles
        Principles that plans have to keep.
    objective
        What the bounds are on: the closed form or the simulated time. If they are
        bounds of paths, the excess of ``simulated_bound`` replaces (q - 1) lambda.
    end
        Deadline on the clock of ``time.monotonic``; None: there is none.

    Raises
    ------
    OutOfTime
        The end was reached.
    """
    if of_paths(table, objective):
        return sorted(
            p
            for group in _groups(table, bounds)
            for p in _excesses(
                problem,
                table,
                microbatches,
                group,
                principles,
                end,
                _FINE if principles.relaxed else 0,
            )
        )
    if not bounds:
        return []
    if not principles.relaxed:
        ranges = unproven_ranges(problem, table, microbatches, bounds, end=end, share=0)
        return sorted(ranges)
    wide = partial(WideRelaxation, problem, table, microbatches, principles=principles)
    return sorted(_unproven(wide, microbatches - 1, bounds, end=end))


def unproven_ranges(
    problem: Problem,
    table: CostTable,
    microbatches: int,
    bounds: Mapping[int, int],
    *,
    end: float | None = None,
    share: float = _SHARE,
) -> Open:
    """Return the lambdas at which bounds do not follow from the relaxation.

    Parameters
    ----------
    bounds
        As in ``unproven``, for plans that keep all principles.
    end
        Deadline on the clock of ``time.monotonic``; None: there is none.
    share
        Intervals of lambda are not cut once (q - 1) times their width is less than
        this share of the bound.

    Raises
    ------
    OutOfTime
        The end was reached.
    """
    if not bounds:
        return {}
    groups = [bounds]
    if is_sized(table):
        groups = [{p: bound} for p, bound in bounds.items()]
    failed: Open = {}
    for group in groups:
        part = at_rest(table, microbatches, max(group))
        made = partial(_Relaxation, problem, table, part)
        steps = part.chunks * microbatches - 1
        failed |= _unproven(made, steps, group, share=share, end=end)
    return failed


def unproven_excess(
    problem: Problem,
    table: CostTable,
    microbatches: int,
    bounds: Mapping[int, int],
    *,
    principles: Principles = PRUNED,
    end: float | None = None,
) -> Open:
    """Return the excesses at which bounds on simulated times do not follow.

    The parameters are those of ``unproven_ranges``; each p is bounded alone.
    """
    failed: Open = {}
    for p, bound in bounds.items():
        rest = {p: bound}, principles, end, _FINE
        failed |= _excesses(problem, table, microbatches, *rest)
    return failed


def _excesses(
    problem: Problem,
    table: CostTable,
    microbatches: int,
    bounds: Mapping[int, int],
    principles: Principles,
    end: float | None,
    share: float = 0,
) -> Open:
    """Return the ranges of the largest excess with a fill that is too small."""
    part = at_rest(table, microbatches, max(bounds))
    made: Callable[[int], _Relaxation | WideRelaxation]
    made = partial(_Relaxation, problem, table, part, host=SimulatedHost)
    if principles.relaxed:
        wide = partial(WideRelaxation, problem, table, microbatches)
        made = partial(wide, principles=principles, objective="simulated")
    steps, again = min(1, microbatches * table.chunks - 1), []
    if table.pairs is not None and not principles.relaxed:
        # Their number depends on p, of which there is one.
        rule, (p,) = STEPS[table.schedule], bounds
        for counts in trip_counts(rule, microbatches, p):
            host = partial(SimulatedHost, counts=counts)
            one = partial(_Relaxation, problem, table, part, p, host)
            again.append(lru_cache(maxsize=None)(one))
    return _unproven(made, steps, bounds, again, share=share, end=end)


def _groups(table: CostTable, bounds: Mapping[int, int]) -> list[dict[int, int]]:
    """Group stage counts that differ by less than a factor of two.

    More possible stages mean more possible warm-ups, and weaker bounds. If memory
    depends on p, each is alone.
    """
    groups: dict[int, dict[int, int]] = {}
    for p, bound in bounds.items():
        size = p if is_sized(table) else (p - 1).bit_length()
        groups.setdefault(size, {})[p] = bound
    return list(groups.values())


def _unproven(
    made: Callable[[int], _Relaxation | WideRelaxation],
    steps: int,
    bounds: Mapping[int, int],
    again: Sequence[Callable[[], _Relaxation]] = (),
    *,
    share: float = 0,
    end: float | None = None,
) -> Open:
    """Cut lambda into intervals; see ``unproven``.

    Parameters
    ----------
    made
        Makes the relaxation, given the largest stage count.
    steps
        Factor of lambda in T.
    again
        Make relaxations whose fill alone is a bound.
    """
    sized = lru_cache(maxsize=None)(made)
    failed: Open = {}
    # For larger lambda, (q - 1) lambda alone exceeds the claimed bounds.
    per_ns = PS_PER_NS * steps
    reach = min(NEVER, max(bounds.values()) // per_ns + 1) if per_ns else NEVER
    intervals, looked = [(0, reach, frozenset(bounds))], 0
    while intervals:
        low, high, open_ = intervals.pop()
        if not share:
            # If ranges are not needed, one failure is enough.
            open_ -= failed.keys()
        if not open_:
            continue
        if end is not None and time.monotonic() > end:
            raise OutOfTime
        # A bound that fails so often is probably false: the rest is left to a search.
        for p in [p for p in open_ if len(failed.get(p, ())) >= _MOST_FAILURES]:
            failed[p].append((low, high))
            open_ -= {p}
        if not open_:
            continue
        looked += 1
        # For at most twice as many stages as needed, as tables grow with them.
        size = 1 << (max(open_) - 1).bit_length()
        relaxation = sized(min(size, max(bounds)))
        wanted = {p: -(-bounds[p] // PS_PER_NS) - relaxation.least_sync for p in open_}
        lacking = _unreached(relaxation, again, wanted, (low, high), steps)
        if not lacking:
            continue
        largest = max(bounds[p] for p in lacking)
        width = 1 + (int(largest * share) // per_ns if per_ns else 0)
        if high - low <= width or not per_ns or looked > _MOST_INTERVALS:
            for p, enough in lacking.items():
                failed.setdefault(p, []).append((low, min(high, enough)))
            continue
        high = min(high, max(lacking.values()))
        middle = (low + high) // 2
        above = frozenset(p for p, enough in lacking.items() if enough > middle)
        intervals += [(middle, high, above), (low, middle, frozenset(lacking))]
    return failed


def _unreached(
    relaxation: _Relaxation | WideRelaxation,
    again: Sequence[Callable[[], _Relaxation]],
    wanted: Mapping[int, int],
    interval: tuple[int, int],
    steps: int,
) -> dict[int, int]:
    """Return ``_lacking`` of all that is known of an interval."""
    lacking, (low, high) = {}, interval
    for least in (relaxation.rough, relaxation.fill):
        fill = least(high, sorted(wanted))
        lacking = _lacking(fill, wanted, low, steps)
        wanted = {p: wanted[p] for p in lacking}
    for trips in again:
        if lacking:
            fill = trips().fill(high, sorted(lacking))
            lacking = {p: e for p, e in lacking.items() if fill[p] < wanted[p]}
    return lacking


def _lacking(
    fill: Ints, wanted: Mapping[int, int], low: int, steps: int
) -> dict[int, int]:
    """Return, for each p with too small a fill, the lambda from which it suffices.

    Parameters
    ----------
    wanted
        The value that T without g has to reach, by p.
    low
        Lower end of lambda; ``fill`` is the least fill up to its upper end.
    """
    enough = {
        p: -(-(spent - int(fill[p])) // max(1, steps)) for p, spent in wanted.items()
    }
    return {p: period for p, period in enough.items() if period > low}


class _Relaxation:
    """Least fills at one q, with every cluster treated by itself."""

    def __init__(
        self,
        problem: Problem,
        table: CostTable,
        part: TableSlice,
        most_stages: int,
        host: Callable[..., Host] = Host,
    ) -> None:
        part = without_replaced(part)
        self.most_stages = most_stages
        order = problem.pins.order
        self.hosts = [
            host(problem, table, part, j, most_stages)
            for j in range(len(table.cluster_names))
            if order is None or table.cluster_names[j] in order
        ]
        self.order = None if order is None else (order[0], order[-1])
        self.length = self.hosts[0].units.length if self.hosts else 0
        self.least_sync = min((host.least_sync for host in self.hosts), default=0)

        self._others = lru_cache(maxsize=1)(self._all_but_one)

    def rough(self, period: int, counts: Sequence[int]) -> Ints:
        """Return a lower bound on ``fill``, for all p at once."""
        total = np.full(self.most_stages + 1, NEVER, dtype=np.int64)
        if not self.hosts or not counts:
            return total
        for host, others, opening in self._others(period):
            if self.order is not None and host.name != self.order[0]:
                continue
            if others.without[0, 0] == 0:
                np.minimum(total, host.alone(period), out=total)
            together(opening, others.with_last, 0, total)
        return total

    def fill(self, period: int, counts: Sequence[int]) -> Ints:
        """Return the least fill of each of these p at lambda <= ``period``."""
        total = np.full(self.most_stages + 1, NEVER, dtype=np.int64)
        if not self.hosts or not counts:
            return total
        for host, others, _ in self._others(period):
            if self.order is not None and host.name != self.order[0]:
                continue
            if others.without[0, 0] == 0:
                alone = host.alone(period)
                total[[*counts]] = np.minimum(total, alone)[[*counts]]
            for p in counts:
                opening = host.opening(period, p)
                together(opening, others.with_last, p, total[: p + 1])
        return total

    def _all_but_one(self, period: int) -> list[tuple[Host, Fills, Ints]]:
        """Return each cluster, the others' least fills, and its own as the first."""
        own, first = [], []
        for host in self.hosts:
            fills, opening = self._own(host, period)
            own.append(fills)
            first.append(opening)
        shape = (self.most_stages + 1, self.length + 1)
        nobody = Fills(*(np.full(shape, NEVER, dtype=np.int64) for _ in Fills._fields))
        nobody.without[0, 0] = 0
        before = accumulate(own[:-1], joined, initial=nobody)
        behind = accumulate(own[:0:-1], joined, initial=nobody)
        others = map(joined, before, [*behind][::-1])
        return [*zip(self.hosts, others, first, strict=True)]

    def _own(self, host: Host, period: int) -> tuple[Fills, Ints]:
        """Return a cluster's least fills behind another one, and as the first."""
        without, last, first = host.tables(period)
        if host.may_rest:
            without[0, 0] = 0
        if self.order is not None and host.name != self.order[1]:
            last[:] = NEVER
        return Fills(last, without), first
