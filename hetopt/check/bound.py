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

from typing import TYPE_CHECKING

import numpy as np

from hetopt.check.hosting import NEVER, Host, add
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
    reach = max(bounds.values()) // (PS_PER_NS * steps) + 1 if steps else NEVER
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
        top = max(counts)
        tables = [host.tables(period) for host in self.hosts]
        for first, host in enumerate(self.hosts):
            if self.order is not None and host.name != self.order[0]:
                continue
            others = [i for i in range(len(self.hosts)) if i != first]
            with_last, without = self._others(others, tables, top)
            alone = host.alone(period)
            for p in counts:
                if without[0, 0] == 0:
                    total[p] = min(total[p], alone[p])
                costs = host.opening(period, p)
                for m in range(1, min(p, len(costs))):
                    reach = costs[m] + with_last[p - m, ::-1]
                    total[p] = min(total[p], int(reach.min()))
        return total

    def _others(
        self, others: list[int], tables: list[tuple[Ints, Ints]], top: int
    ) -> tuple[Ints, Ints]:
        """Return the least fill of (stages, body units) on these clusters.

        Once with one of them hosting the last stage, once with none; for up to
        ``top`` stages.
        """
        shape = (top + 1, self.length + 1)
        with_last = np.full(shape, NEVER, dtype=np.int64)
        without = with_last.copy()
        without[0, 0] = 0
        for i in others:
            host, (inner, last) = self.hosts[i], tables[i]
            may_last = self.order is None or host.name == self.order[1]
            new_with, new_without = with_last.copy(), without.copy()
            if not host.may_rest:
                new_with[:], new_without[:] = NEVER, NEVER
            add(with_last, inner, new_with)
            add(without, inner, new_without)
            if may_last:
                add(without, last, new_with)
            with_last, without = new_with, new_without
        return with_last, without
