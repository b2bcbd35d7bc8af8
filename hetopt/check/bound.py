"""Lower bounds on the closed form, derived again: what a certificate rests on.

For one q and lambda in [low, high], every plan of p stages takes at least

    F_p(high) + (q - 1) low + (the least g of any stage),

where F_p(high) is the least fill when every cluster is looked at by itself: which of
its strategies hosts m stages with l body units most cheaply, given that every stage
and the cluster's own windows keep up with lambda = high and fit into memory. Adding
the clusters up, with one of them first and one last, gives F_p. An interval on which
that does not suffice is halved. Where principles are relaxed, ``wide_bound`` has F.

Everything counts whole nanoseconds, so sums are exact. Boundaries between clusters
cost at least the least kappa out of the one plus the least kappa into the other.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.check.fills import NEVER, add
from hetopt.check.hosting import Host
from hetopt.check.simulated_bound import SimulatedHost
from hetopt.check.wide_bound import WideRelaxation
from hetopt.problem.principles import PRUNED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from hetopt.cost.table import CostTable
    from hetopt.problem.principles import Principles
    from hetopt.problem.problem import Problem
    from hetopt.result import Objective

    Ints = NDArray[np.int64]

#: Bounds are whole picoseconds, times of the table whole nanoseconds.
PS_PER_NS = 1000
#: Intervals of lambda looked at for one q before giving up.
_MOST_INTERVALS = 2000


def unproven(
    problem: Problem,
    table: CostTable,
    microbatches: int,
    bounds: Mapping[int, int],
    principles: Principles = PRUNED,
    objective: Objective = "closed",
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
    """
    if objective == "simulated":
        return [
            p
            for group in _by_size(bounds)
            for p in _unproven(
                _Relaxation(problem, table, microbatches, max(group), SimulatedHost),
                min(1, microbatches - 1),
                group,
            )
        ]
    if not bounds:
        return []
    most = max(bounds)
    relaxation = (
        WideRelaxation(problem, table, microbatches, most, principles)
        if principles.relaxed
        else _Relaxation(problem, table, microbatches, most)
    )
    return _unproven(relaxation, microbatches - 1, bounds)


def _by_size(bounds: Mapping[int, int]) -> list[dict[int, int]]:
    """Group stage counts that are no further apart than twofold.

    The more stages there may be, the more warm-ups, and the less is known.
    """
    groups: dict[int, dict[int, int]] = {}
    for p, bound in bounds.items():
        groups.setdefault((p - 1).bit_length(), {})[p] = bound
    return list(groups.values())


def _unproven(
    relaxation: _Relaxation | WideRelaxation, steps: int, bounds: Mapping[int, int]
) -> list[int]:
    """Cut lambda, which counts ``steps`` times, into intervals; see ``unproven``."""
    failed: set[int] = set()
    reach = NEVER
    if steps:
        # Beyond, lambda alone takes longer than is claimed.
        reach = min(reach, max(bounds.values()) // (PS_PER_NS * steps) + 1)
    intervals = [(0, reach, frozenset(bounds))]
    looked = 0
    while intervals:
        low, high, open_ = intervals.pop()
        looked += 1
        fill = relaxation.fill(high, sorted(open_))
        rest = steps * low + relaxation.least_sync
        # From which lambda on the same fill suffices; below it, it does not.
        enough = {
            p: -(-(-(-bounds[p] // PS_PER_NS) - int(fill[p]) - rest) // max(1, steps))
            for p in open_
        }
        missing = frozenset(p for p in open_ if enough[p] > 0)
        if not missing:
            continue
        if high - low <= 1 or not steps or looked > _MOST_INTERVALS:
            failed |= missing
            continue
        high = min(high, low + max(enough[p] for p in missing))
        middle = (low + high) // 2
        above = frozenset(p for p in missing if low + enough[p] > middle)
        intervals += [(middle, high, above), (low, middle, missing)]
        intervals = [(a, b, todo - failed) for a, b, todo in intervals]
    return sorted(failed)


class _Relaxation:
    """Least fills at one q."""

    def __init__(
        self,
        problem: Problem,
        table: CostTable,
        microbatches: int,
        most_stages: int,
        host: type[Host] = Host,
    ) -> None:
        part = table.at(microbatches)
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

    def fill(self, period: int, counts: Sequence[int]) -> Ints:
        """Return the least fill of each of these p at lambda <= ``period``."""
        total = np.full(self.most_stages + 1, NEVER, dtype=np.int64)
        if not self.hosts or not counts:
            return total
        for host, others in zip(
            self.hosts, self._others(period, max(counts)), strict=True
        ):
            if self.order is not None and host.name != self.order[0]:
                continue
            alone = host.alone(period)
            for p in counts:
                if others.without[0, 0] == 0:
                    total[p] = min(total[p], alone[p])
                costs = host.opening(period, p)
                for m in range(1, min(p, len(costs))):
                    reach = costs[m] + others.with_last[p - m, ::-1]
                    total[p] = min(total[p], int(reach.min()))
        return total

    def _others(self, period: int, top: int) -> list[_Fills]:
        """Return the least fills of all others, per cluster, up to ``top`` stages."""
        own = [self._own(host, period) for host in self.hosts]
        shape = (top + 1, self.length + 1)
        nobody = _Fills(
            *(np.full(shape, NEVER, dtype=np.int64) for _ in _Fills._fields)
        )
        nobody.without[0, 0] = 0
        before = accumulate(own[:-1], _joined, initial=nobody)
        behind = accumulate(own[:0:-1], _joined, initial=nobody)
        return [*map(_joined, before, [*behind][::-1])]

    def _own(self, host: Host, period: int) -> _Fills:
        """Return the least fills of one cluster that does not host the first stage."""
        without, last = host.tables(period)
        if host.may_rest:
            without[0, 0] = 0
        if self.order is not None and host.name != self.order[1]:
            last[:] = NEVER
        return _Fills(last, without)


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
