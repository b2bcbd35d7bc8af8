"""Search the hosts of chunks whose ends are pinned for plans below a claimed bound.

A stage takes at least all its passes and its g; before them the first micro-batch comes
through the first chunks of the stages before it, and after them its gradient goes back
through those. Hosts for which this reaches the bound are left out, stage by stage from
the first one on. Whole plans that are left are priced as ``check.plan`` prices plans.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from hetopt.check.plan.plan import check_plan
from hetopt.check.plan.schedule.times import last_ends
from hetopt.check.plan.uneven import PricedChunks, chunk_bytes, kinds_by_chunk
from hetopt.check.verify.bound import PS_PER_NS, OutOfTime
from hetopt.check.verify.findings import Found
from hetopt.check.verify.search import MOST_CLUSTERS
from hetopt.check.verify.written import written
from hetopt.errors import HetoptError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Objective

    #: Cluster and strategy of every stage.
    Hosts = tuple[tuple[int, int], ...]

#: Relative rounding error of a bound.
_ROUNDING = 1e-9


class _Row(NamedTuple):
    """What a stage takes on one host, in ns.

    Attributes
    ----------
    busy
        All its passes.
    first, last
        One forward and one backward pass of its first chunk.
    """

    busy: int
    first: int
    last: int
    sync: int


def search_hosts(
    problem: Problem,
    table: CostTable,
    microbatches: int,
    bound_ps: int,
    objective: Objective,
    end: float | None = None,
) -> Found:
    """Search all plans of a layout and one q for one below a bound.

    Parameters
    ----------
    bound_ps
        On the closed form or the simulated time.
    end
        Deadline on the clock of ``time.monotonic``; None: there is none.

    Raises
    ------
    OutOfTime
        The end was reached.
    """
    return _Search(problem, table, microbatches, bound_ps, objective, end).run()


@dataclass
class _Search:
    """The search below one bound."""

    problem: Problem
    table: CostTable
    microbatches: int
    bound_ps: int
    objective: Objective
    end: float | None

    def run(self) -> Found:
        """Price all plans that bounds leave."""
        self.part = self.table.at(self.microbatches)
        self.held = kinds_by_chunk(self.table)
        self.stages = [
            {
                (j, k): row
                for j, own in enumerate(self.part.clusters)
                for k in range(len(own.strategies))
                if (row := self._row(i, j, k)) is not None
            }
            for i in range(len(self.held))
        ]
        self.slowest = cache(self._slowest)
        listed = 0
        for hosts in self._hosts((), 0, 0):
            listed += 1
            if (plan := self._below(hosts)) is not None:
                return Found(plan=plan)
        return Found(listed=listed)

    def _is_below(self, time_ns: float) -> bool:
        return time_ns * PS_PER_NS * (1 + _ROUNDING) + 2 < self.bound_ps

    def _row(self, i: int, j: int, k: int) -> _Row | None:
        """Return what a stage takes on a host; None if it does not fit there."""
        own, chunks, q = self.part.clusters[j], self.held[i], self.microbatches
        shape = len(self.held), q, i
        if chunk_bytes(own, k, chunks, *shape) > self.table.usable_bytes[j]:
            return None
        forward, backward = (
            [sum(int(spent[k, kind]) for kind in kinds) for kinds in chunks]
            for spent in (own.forward_ns, own.backward_ns)
        )
        sync = int(own.sync_ns[k])
        sync += sum(
            int(own.sync_unit_ns[k, kind]) for kinds in chunks for kind in kinds
        )
        busy = q * (sum(forward) + sum(backward))
        row = _Row(busy, forward[0], backward[0], sync)
        return row if self._is_below(busy + sync) else None

    def _hosts(self, placed: Hosts, before: int, after: int) -> Iterator[Hosts]:
        """Yield hosts of all stages, given those of the first ones.

        Parameters
        ----------
        before
            Until the next stage can begin, without the boundary to it.
        after
            From the end of the next stage's last gradient's transfer to the end.
        """
        if self.end is not None and time.monotonic() > self.end:
            raise OutOfTime
        i = len(placed)
        if i == len(self.stages):
            yield placed
            return
        gone = {j for j, _ in placed}
        for (j, k), row in self.stages[i].items():
            most = int(self.part.clusters[j].max_stages[k])
            again = bool(placed) and placed[-1] == (j, k)
            if placed.count((j, k)) >= most or (j in gone and not again):
                continue
            kappa = self._kappa(i, placed[-1], (j, k)) if placed else 0
            begin = before + kappa
            rest = max(row.sync, after + kappa if placed else 0)
            room = most - placed.count((j, k)) - 1
            later = self._later(frozenset({*gone, j}), (j, k), i + 1, room)
            took = begin + max(row.busy + rest, row.first + later)
            if self._is_below(took):
                yield from self._hosts(
                    (*placed, (j, k)), begin + row.first, rest + row.last
                )

    def _slowest(self, gone: frozenset[int], i: int) -> float:
        """Return the least time of the slowest stage from i on, without some clusters.

        With many clusters any of them may come again.
        """
        if i == len(self.stages):
            return 0
        found = inf
        for (j, k), row in self.stages[i].items():
            room = int(self.part.clusters[j].max_stages[k]) - 1
            if j not in gone and room >= 0 and row.busy + row.sync < found:
                rest = self._later(gone | {j}, (j, k), i + 1, room)
                found = min(found, max(row.busy + row.sync, rest))
        return found

    def _later(
        self, gone: frozenset[int], host: tuple[int, int], i: int, room: int
    ) -> float:
        """Return the same if a host may go on for some stages."""
        if len(self.part.clusters) > MOST_CLUSTERS:
            gone = frozenset()
        longest, found = 0, inf
        for n in range(room + 1):
            found = min(found, max(longest, self.slowest(gone, i + n)))
            row = self.stages[i + n].get(host) if i + n < len(self.stages) else None
            if row is None:
                break
            longest = max(longest, row.busy + row.sync)
        return found

    def _kappa(self, i: int, here: tuple[int, int], there: tuple[int, int]) -> int:
        """Return what the first chunk's activations take to stage i."""
        cut = self.table.cuts[(self.table.layout or ())[i - 1] - 1]
        a, b = (int(self.part.clusters[j].layout[k]) for j, k in (here, there))
        return int(self.part.transfer_ns[cut, a, b])

    def _below(self, hosts: Hosts) -> Plan | None:
        """Return the plan of these hosts if it is valid and below the bound."""
        named = [(j, self.part.clusters[j].strategies[k]) for j, k in hosts]
        units = [sum(map(len, own)) for own in self.held]
        plan = written(self.problem, self.table, self.microbatches, named, units)
        priced = PricedChunks(self.problem, self.table, plan.pipeline, hosts)
        # It is below every simulated time.
        took = float(priced.closed_form_ns)
        if self._is_below(took) and self.objective == "simulated":
            ends = last_ends([priced.times], priced.warmups)
            took = max(map(sum, zip(ends, priced.times.sync, strict=True)))
        if self._is_below(took):
            # Hosts here need not keep to all pins.
            with suppress(HetoptError):
                check_plan(self.problem, self.table, plan)
                return plan
        return None
