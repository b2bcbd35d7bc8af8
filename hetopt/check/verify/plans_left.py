"""Search for plans below a claimed bound on the simulated time.

For a range of the largest excess (``simulated_bound``), ``labels`` finds the plan for
which fill, excess and end are least. If they reach the bound, no plan of that range is
below it. Otherwise all plans are listed for which they do not, and each is run as
``check.plan`` runs a plan: one below the bound refutes the claim, and if there is none,
the claim is confirmed. What is left open has too many of them, or free warm-up counts.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from hetopt.check.plan.plan import check_plan
from hetopt.check.plan.pricing import PricedStages, rows_of
from hetopt.check.plan.schedule.schedules import STEPS
from hetopt.check.plan.schedule.times import last_ends
from hetopt.check.verify.bound import OutOfTime
from hetopt.check.verify.chunks import at_rest, ways_back_ns
from hetopt.check.verify.findings import Found
from hetopt.check.verify.labels.data import PS_PER_NS, Path
from hetopt.check.verify.labels.ranges import Node
from hetopt.check.verify.search import MOST_CLUSTERS, LabelSearch
from hetopt.check.verify.simulated_bound import SimulatedHost
from hetopt.check.verify.written import pipeline_of
from hetopt.errors import HetoptError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Objective

    Ints = NDArray[np.int64]

#: Most labels of a range, those if all are kept, most plans that are run for one claim,
#: and most ranges.
_MOST_LABELS, _MOST_LISTED, _MOST_RUN, _MOST_RANGES = 200_000, 50_000, 500, 12
#: Share of the time left that one claim may take.
_SHARE = 1 / 16
#: Relative rounding error of a bound.
_ROUNDING = 1e-9


def search_simulated(
    problem: Problem,
    table: CostTable,
    microbatches: int,
    bound: tuple[int, int],
    ranges: Sequence[tuple[int, int]],
    end: float | None = None,
    objective: Objective = "simulated",
) -> Found:
    """Search one (p, q) for plans below a bound that paths support.

    Parameters
    ----------
    bound
        Stage count, and bound in ps.
    ranges
        Ranges of the largest excess in ns that are not settled yet.
    end
        Deadline on the clock of ``time.monotonic``; None: there is none. A share of the
        time until then is taken at most.
    objective
        What the bound is on.
    """
    if len(table.cluster_names) > MOST_CLUSTERS:
        return Found(open=True)
    now = time.monotonic()
    own_end = None if end is None else now + _SHARE * (end - now)
    with suppress(OutOfTime):
        bounds = dict([bound])
        search = _PlansLeft(problem, table, microbatches, bounds, own_end)
        return search.of(ranges, objective)
    return Found(open=True)


class _PlansLeft(LabelSearch):
    """Search of one (p, q)."""

    host = SimulatedHost

    def of(self, ranges: Sequence[tuple[int, int]], objective: Objective) -> Found:
        """Settle ranges of the largest excess."""
        self.objective = objective
        part = at_rest(self.table, self.microbatches, self.most)
        #: What the fill has beside its sums.
        self.late = ways_back_ns(part)
        self.ran, self.steps = 0, min(1, self.steps)
        rule = STEPS[self.table.schedule]
        if rule.most != rule.inside or part.shared is not None:
            # With longer transfers there may be more warm-ups, or other turns on links.
            self.whole = part
        self.pool = self.pool[:_MOST_LABELS]
        looked, p = 0, self.most
        nodes = [Node(low * PS_PER_NS, high * PS_PER_NS, (p,)) for low, high in ranges]
        while nodes:
            node, looked = nodes.pop(), looked + 1
            rows = self._open(node)
            if rows is None and not rule.free and looked < _MOST_RANGES:
                middle = (node.low + node.high) // 2
                nodes += node._replace(low=middle), node._replace(high=middle)
                continue
            if rows is None or self.ran > _MOST_RUN:
                return Found(open=True)
            if (plan := self._refuting(rows)) is not None:
                return Found(plan=plan)
        return Found(listed=self.ran)

    def _open(self, node: Node) -> Sequence[int] | None:
        """Return the labels of plans of a range to be run; None if they are too many.

        That is the one whose bound is least if its plan is quicker, otherwise all.
        """
        best = self._labels(node)
        if best == {}:
            return []
        rows = [] if best is None else [*best.values()]
        if self._refuting(rows) is not None:
            return rows
        if STEPS[self.table.schedule].free:
            return None
        every = self._all(node)
        self.ran += 0 if every is None else len(every)
        return every

    def _refuting(self, rows: Sequence[int]) -> Plan | None:
        """Return a plan of these labels that is valid, and quicker than the bound."""
        for row in filter(self._is_quicker, rows):
            plan = self._plan(row)
            with suppress(HetoptError):
                # Labels do not count all pins.
                check_plan(self.problem, self.table, plan)
                return plan
        return None

    def _all(self, node: Node) -> list[int] | None:
        """Return all labels of whole plans in a range; None if they are too many."""
        self.facts.path[Path.EVERY] = 1
        found = self._complete(node, self.pool[:_MOST_LISTED])
        if found is None:
            return None
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
        if self.objective == "simulated":
            ends = last_ends([priced.times], priced.warmups)
            ran = float(max(map(sum, zip(ends, priced.times.sync, strict=True))))
        else:
            ran = float(priced.closed_form_ns)
        return ran * PS_PER_NS * (1 + _ROUNDING) + 2 < self.bounds[self.most]
