"""Lower bounds on the closed form, derived again: what a certificate rests on.

For one q and lambda in [low, high], every plan of p stages takes at least

    F_p(high) + (q - 1) low + (the least g of any stage),

where F_p(high) is the least fill when every cluster is looked at by itself: which of
its strategies hosts m stages with l body units most cheaply, given that every stage
and the cluster's own windows keep up with lambda = high and fit into memory. Adding
the clusters up, with one of them first and one last, gives F_p. An interval on which
that does not suffice is halved. Where principles are relaxed, ``wide_bound`` has F;
of several chunks a stage, ``chunks`` has what is more, for one p at a time.

Everything counts whole nanoseconds, so sums are exact. Boundaries between clusters
cost at least the least kappa out of the one plus the least kappa into the other.
"""

from __future__ import annotations

import time
from functools import lru_cache, partial
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.check.verify.chunks import Rounds, at_rest, is_sized
from hetopt.check.verify.dominance import without_replaced
from hetopt.check.verify.fills import NEVER, add, together
from hetopt.check.verify.hosting import Host
from hetopt.check.verify.simulated_bound import SimulatedHost
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
#: Intervals of lambda looked at for one q before giving up.
_MOST_INTERVALS = 2000
#: Intervals in which a bound fails before no more are looked at.
_MOST_FAILURES = 16
#: Where a search takes over, intervals are not cut until q - 1 times their width is
#: less than this share of the bound.
_SHARE = 1 / 128


class OutOfTime(Exception):
    """The time for all programs is over."""


#: By stage count, the lambdas in ns, from and to, at which a bound is not proven.
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
        By stage count: what every plan of it takes at least, in ps.
    principles
        What plans have to keep.
    objective
        What takes so long: the closed form, or the simulated time, of which
        ``simulated_bound`` has what takes the place of (q - 1) lambda.
    end
        Of the time, as ``time.monotonic`` has it.

    Raises
    ------
    OutOfTime
        The end was reached.
    """
    if objective == "simulated":
        return [
            p
            for group in _by_size(bounds)
            for p in sorted(
                _unproven(
                    partial(
                        _Relaxation,
                        problem,
                        table,
                        table.at(microbatches),
                        host=SimulatedHost,
                    ),
                    Rounds(min(1, microbatches - 1)),
                    group,
                    end=end,
                )
            )
        ]
    if not bounds:
        return []
    if not principles.relaxed:
        ranges = unproven_ranges(problem, table, microbatches, bounds, end=end, share=0)
        return sorted(ranges)
    wide = partial(WideRelaxation, problem, table, microbatches, principles=principles)
    return sorted(_unproven(wide, Rounds(microbatches - 1), bounds, end=end))


def unproven_ranges(
    problem: Problem,
    table: CostTable,
    microbatches: int,
    bounds: Mapping[int, int],
    *,
    end: float | None = None,
    share: float = _SHARE,
) -> Open:
    """Return where bounds on the closed form do not follow from the relaxation.

    Parameters
    ----------
    bounds
        As in ``unproven``, all principles kept.
    end
        Of the time, as ``time.monotonic`` has it.
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
        rounds = Rounds.of(part, max(group))
        failed |= _unproven(made, rounds, group, share=share, end=end)
    return failed


def _by_size(bounds: Mapping[int, int]) -> list[dict[int, int]]:
    """Group stage counts that are no further apart than twofold.

    The more stages there may be, the more warm-ups, and the less is known.
    """
    groups: dict[int, dict[int, int]] = {}
    for p, bound in bounds.items():
        groups.setdefault((p - 1).bit_length(), {})[p] = bound
    return list(groups.values())


def _unproven(
    made: Callable[[int], _Relaxation | WideRelaxation],
    rounds: Rounds,
    bounds: Mapping[int, int],
    *,
    share: float = 0,
    end: float | None = None,
) -> Open:
    """Cut lambda into intervals; see ``unproven``.

    Parameters
    ----------
    made
        Makes the relaxation of so many stages at most.
    rounds
        What is beside fill and g; with several chunks of the only stage count.
    """
    sized = lru_cache(maxsize=None)(made)
    failed: Open = {}
    # Beyond, lambda alone takes longer than is claimed.
    per_ns = PS_PER_NS * rounds.steps
    reach = min(NEVER, max(bounds.values()) // per_ns + 1) if per_ns else NEVER
    intervals, looked = [(0, reach, frozenset(bounds))], 0
    while intervals:
        low, high, open_ = intervals.pop()
        if not share:
            # One place where it fails is enough to know.
            open_ -= failed.keys()
        if not open_:
            continue
        if end is not None and time.monotonic() > end:
            raise OutOfTime
        # What fails so often is hardly true: a search looks at the rest of it.
        for p in [p for p in open_ if len(failed.get(p, ())) >= _MOST_FAILURES]:
            failed[p].append((low, high))
            open_ -= {p}
        if not open_:
            continue
        looked += 1
        # Of twice as many stages as needed at most: tables grow with them.
        size = 1 << (max(open_) - 1).bit_length()
        relaxation = sized(min(size, max(bounds)))
        wanted = {p: -(-bounds[p] // PS_PER_NS) - relaxation.least_sync for p in open_}
        for least in (relaxation.rough, relaxation.fill):
            fill = least(high, sorted(wanted))
            lacking = _lacking(fill, wanted, (low, high), rounds)
            wanted = {p: wanted[p] for p in lacking}
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


def _lacking(
    fill: Ints, wanted: Mapping[int, int], interval: tuple[int, int], rounds: Rounds
) -> dict[int, int]:
    """Return from which lambda on the same fill suffices, of those p it does not for.

    Parameters
    ----------
    wanted
        What T without g has to reach, by p.
    interval
        Of lambda; ``fill`` is the least up to its end.
    """
    low, high = interval
    enough = {
        p: rounds.enough(spent, int(fill[p]))
        for p, spent in wanted.items()
        if rounds.fits(int(fill[p]), high)
    }
    return {p: period for p, period in enough.items() if period > low}


class _Relaxation:
    """Least fills at one q."""

    def __init__(
        self,
        problem: Problem,
        table: CostTable,
        part: TableSlice,
        most_stages: int,
        host: type[Host] = Host,
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
        """Return what ``fill`` does or less, for all p at once."""
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

    def _all_but_one(self, period: int) -> list[tuple[Host, _Fills, Ints]]:
        """Return each cluster, the least fills of all others, and its own as first."""
        own, first = [], []
        for host in self.hosts:
            fills, opening = self._own(host, period)
            own.append(fills)
            first.append(opening)
        shape = (self.most_stages + 1, self.length + 1)
        nobody = _Fills(
            *(np.full(shape, NEVER, dtype=np.int64) for _ in _Fills._fields)
        )
        nobody.without[0, 0] = 0
        before = accumulate(own[:-1], _joined, initial=nobody)
        behind = accumulate(own[:0:-1], _joined, initial=nobody)
        others = map(_joined, before, [*behind][::-1])
        return [*zip(self.hosts, others, first, strict=True)]

    def _own(self, host: Host, period: int) -> tuple[_Fills, Ints]:
        """Return a cluster's least fills after another one, and before all others."""
        without, last, first = host.tables(period)
        if host.may_rest:
            without[0, 0] = 0
        if self.order is not None and host.name != self.order[1]:
            last[:] = NEVER
        return _Fills(last, without), first


class _Fills(NamedTuple):
    """Least fills of (stages, body units) on some clusters.

    Attributes
    ----------
    with_last
        One of them hosts the last stage.
    without
        None of them does.
    """

    with_last: Ints
    without: Ints


def _joined(some: _Fills, others: _Fills) -> _Fills:
    """Return the least fills on both."""
    both = _Fills(*(np.full_like(some.without, NEVER) for _ in _Fills._fields))
    add(some.with_last, others.without, both.with_last)
    add(some.without, others.with_last, both.with_last)
    add(some.without, others.without, both.without)
    return both
