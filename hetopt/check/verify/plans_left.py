"""Search for plans below a claimed bound on the simulated time.

For a range of the largest excess (``simulated_bound``), ``labels`` finds the plan for
which fill, excess and end are least. If they reach the bound, no plan of that range is
below it. Otherwise all plans are listed for which they do not, and each is run as
``check.plan`` runs a plan: one below the bound refutes the claim, and if there is none,
the claim is confirmed. What is left open has too many of them, or free warm-up counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.check.plan.plan import check_plan
from hetopt.check.plan.pricing import PricedStages, rows_of
from hetopt.check.plan.schedule.schedules import STEPS
from hetopt.check.plan.schedule.times import last_ends
from hetopt.check.verify.chunks import Rounds, at_rest
from hetopt.check.verify.findings import Found
from hetopt.check.verify.labels.data import PS_PER_NS, Path
from hetopt.check.verify.labels.ranges import Node
from hetopt.check.verify.search import MOST_CLUSTERS, LabelSearch
from hetopt.check.verify.simulated_bound import SimulatedHost
from hetopt.check.verify.written import pipeline_of, written
from hetopt.errors import HetoptError
from hetopt.results.certificate import PS_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem

    Ints = NDArray[np.int64]

#: Most labels if all are kept, and most plans that are run for one claim.
_MOST_LISTED, _MOST_RUN = 100_000, 1_000
#: Ranges that are a smaller share of the bound are not cut before plans are listed.
_NARROW = 1 / 1024
#: Relative rounding error of a bound.
_ROUNDING = 1e-9


def search_simulated(
    problem: Problem,
    tables: tuple[CostTable, CostTable],
    microbatches: int,
    bound: tuple[int, int],
    ranges: Sequence[tuple[int, int]],
    end: float | None = None,
) -> Found:
    """Search one (p, q) for plans below a bound on the simulated time.

    Parameters
    ----------
    tables
        The table that plans are priced with, and the one without shared links: no plan
        takes longer with it.
    bound
        Stage count, and bound in ps.
    ranges
        Ranges of the largest excess in ns that are not settled yet.
    end
        Deadline on the clock of ``time.monotonic``; None: there is none.

    Raises
    ------
    OutOfTime
        The end was reached.
    """
    table, searched = tables
    if len(table.cluster_names) > MOST_CLUSTERS:
        return Found(open=True)
    return _PlansLeft(problem, searched, microbatches, dict([bound]), end).of(
        ranges, table
    )


class _PlansLeft(LabelSearch):
    """Search of one (p, q)."""

    host = SimulatedHost

    def of(self, ranges: Sequence[tuple[int, int]], table: CostTable) -> Found:
        """Settle ranges of the largest excess; ``table`` is that of prices."""
        part, steps = (
            at_rest(self.table, self.microbatches, self.most),
            self.rounds.steps,
        )
        #: What the fill has beside its sums.
        self.late = 2 * (part.chunks - 1) * self.rounds.back
        self.rounds = Rounds(min(1, steps))
        self.steps = self.rounds.steps
        if STEPS[table.schedule].most != STEPS[table.schedule].inside:
            # With longer transfers there may be more warm-ups, and less to wait for.
            self.whole = part
        ran, width = 0, _NARROW * self.bounds[self.most]
        nodes = [
            Node(low * PS_PER_NS, high * PS_PER_NS, (self.most,))
            for low, high in ranges
        ]
        while nodes:
            node = nodes.pop()
            best = self._labels(node)
            if best == {}:
                continue
            rows: Sequence[int] = [] if best is None else [*best.values()]
            if not any(map(self._is_quicker, rows)):
                if node.high - node.low > width:
                    middle = (node.low + node.high) // 2
                    nodes += node._replace(low=middle), node._replace(high=middle)
                    continue
                rows = self._all(node)
                ran += len(rows)
                if not rows or ran > _MOST_RUN:
                    return Found(open=True, listed=ran)
            for row in filter(self._is_quicker, rows):
                plan = self._refuting(row, table)
                return Found(plan=plan, open=plan is None, listed=ran)
        return Found(listed=ran)

    def _all(self, node: Node) -> list[int]:
        """Return all labels of whole plans in a range; none if they are too many."""
        if self.facts.path[Path.FREE]:
            return []
        self.facts.path[Path.EVERY] = 1
        found = self._complete(node, self.pool[:_MOST_LISTED]) or {}
        return [int(row) for rows in found.values() for row in rows]

    def _budgets(self, node: Node) -> Ints:
        return np.maximum(super()._budgets(node) - self.late, -1)

    def _is_quicker(self, row: int) -> bool:
        """Whether a label's plan fits into memory, and takes less than the bound."""
        part = self.part.microbatches, *self._stages(row)
        pipeline = pipeline_of(self.problem, self.table, *part)
        rows, _ = rows_of(self.problem, self.table, pipeline)
        priced = PricedStages(self.problem, self.table, pipeline, rows)
        if any(priced.findings()):
            return False
        ends = last_ends([priced.times], priced.warmups)
        ran = max(map(sum, zip(ends, priced.times.sync, strict=True)))
        return ran * PS_PER_NS * (1 + _ROUNDING) + 2 < self.bounds[self.most]

    def _refuting(self, row: int, table: CostTable) -> Plan | None:
        """Return a label's plan; None unless it is valid, and quicker as priced."""
        part = self.part.microbatches, *self._stages(row)
        plan = written(self.problem, table, *part)
        try:
            time_s = check_plan(self.problem, table, plan).iteration_time_s
        except HetoptError:
            return None
        below = time_s / PS_S * (1 + _ROUNDING) + 2 < self.bounds[self.most]
        return plan if below else None
