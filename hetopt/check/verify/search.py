"""Search for plans below a claimed bound that the relaxation does not prove.

For one upper limit h on lambda ``labels`` finds the least F(h), fill with g, of a plan
of p stages within the bound. If there is none, the bound holds for all lambda up to h.
Otherwise its plan is priced by ``check.plan``: one below the bound refutes the claim.
If it is not below, no better plan has its lambda, or a lambda for which F(h) is too
large, and h is lowered. With several chunks a stage (``chunks``) one p is searched at
a time, and only whether it has a plan at all.

It covers plans that keep all principles, and needs no solver. What it leaves open (too
many labels, or a label whose plan breaks a rule) is left to another engine.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hetopt.check.plan.plan import check_plan
from hetopt.check.verify.bound import OutOfTime
from hetopt.check.verify.chunks import at_rest, is_sized
from hetopt.check.verify.dominance import with_rows, without_replaced
from hetopt.check.verify.fills import NEVER
from hetopt.check.verify.findings import Found
from hetopt.check.verify.hosting import Host
from hetopt.check.verify.labels.data import PS_PER_NS, At
from hetopt.check.verify.labels.facts import label_facts
from hetopt.check.verify.labels.labels import extend
from hetopt.check.verify.labels.left_to_pay import left_to_pay
from hetopt.check.verify.labels.others import Others
from hetopt.check.verify.labels.ranges import Node, cut_alike
from hetopt.check.verify.written import written
from hetopt.errors import HetoptError
from hetopt.results.certificate import PS_S

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from hetopt.check.verify.labels.data import Left
    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Plan
    from hetopt.plans.strategy import Strategy
    from hetopt.problem.problem import Problem

    Ints = NDArray[np.int64]

#: With more clusters than this their sets are too many.
MOST_CLUSTERS = 6
#: Most labels of a search of one stage count, and of several together.
_MOST_LABELS, _MOST_TOGETHER = 6_000_000, 50_000
#: Removing strategies is repeated until at least this share of them remains.
_WORTH = 0.8
#: q - 1 times the width of a range of lambda is this share of the largest bound, or a
#: multiple of that if fewer strategies remain than the second number.
_SHARE, _FEW_STRATEGIES = 1 / 128, 64
#: Most searches with labels, per initial range and per stage count that is searched
#: alone; after that the remaining programs are left open.
_MOST_SETTINGS = 8
#: Ranges of which q - 1 times the width is a smaller share of the bound are not cut.
_NARROW = 1 / 1024
#: Labels kept per layer if only a plan is sought, not a proof.
_FEW_LABELS = 300
#: If q - 1 times the width of the open lambdas is a larger share of the bound, the
#: bound is probably false, and a plan is sought first.
_WIDE = 1 / 16


def search(
    problem: Problem,
    table: CostTable,
    microbatches: int,
    bounds: Mapping[int, int],
    ranges: Mapping[int, Sequence[tuple[int, int]]],
    end: float | None = None,
) -> dict[int, Found]:
    """Search one q for plans below bounds on the closed form.

    Parameters
    ----------
    bounds
        Bounds by stage count, in ps.
    ranges
        By stage count, the ranges of lambda in ns that are not settled yet.
    end
        Deadline on the clock of ``time.monotonic``; None: there is none.

    Raises
    ------
    OutOfTime
        The end was reached.
    """
    if len(table.cluster_names) > MOST_CLUSTERS:
        return {p: Found(open=True) for p in bounds}
    if not is_sized(table):
        return LabelSearch(problem, table, microbatches, bounds, end).run(ranges)
    found: dict[int, Found] = {}
    for p, bound in bounds.items():
        one = LabelSearch(problem, table, microbatches, {p: bound}, end)
        found |= one.run({p: ranges[p]})
        if found[p].plan is not None:
            return {p: found[p]}
    return found


class LabelSearch:
    """Search of one q."""

    host: type[Host] = Host

    def __init__(
        self,
        problem: Problem,
        table: CostTable,
        microbatches: int,
        bounds: Mapping[int, int],
        end: float | None,
    ) -> None:
        self.problem = problem
        self.table = table
        self.microbatches = microbatches
        self.bounds = bounds
        self.end = end
        self.most = max(bounds)
        #: If memory depends on the stage count, there is only one.
        part = at_rest(table, microbatches, self.most)
        self.steps = part.chunks * part.microbatches - 1
        self.whole = without_replaced(part)
        order = problem.pins.order
        self.used = [order is None or name in order for name in table.cluster_names]
        self.pool = np.zeros((_MOST_LABELS, len(At)), dtype=np.int64)
        self.found: dict[int, Found] = {}
        self.settings = 0
        #: By largest stage count, the hosts with all strategies.
        self.wide: dict[int, list[Host]] = {}

    def run(self, ranges: Mapping[int, Sequence[tuple[int, int]]]) -> dict[int, Found]:
        """Settle all stage counts."""
        nodes = []
        pairs = [pair for own in ranges.values() for pair in own]
        if pairs:
            everywhere = Node(
                min(low for low, _ in pairs) * PS_PER_NS,
                max(high for _, high in pairs) * PS_PER_NS,
                tuple(ranges),
            )
            self._narrow(everywhere, self._budgets(everywhere))
            self.whole = self.part
            self.wide.clear()
            strategies = sum(host.count for host in self.hosts)
            if strategies:
                share = _SHARE * max(1, _FEW_STRATEGIES // strategies)
                most = int(share * max(self.bounds[p] for p in ranges))
                width = most // self.steps + 1 if self.steps else NEVER
                nodes = cut_alike(ranges, width)
        for p, own in ranges.items() if nodes else ():
            width = sum(high - low for low, high in own) * PS_PER_NS * self.steps
            if width > _WIDE * self.bounds[p]:
                for low, high in own[:: max(1, len(own) // 4)]:
                    self._dive(Node(low * PS_PER_NS, high * PS_PER_NS, (p,)))
        self.settings = _MOST_SETTINGS * (1 + len(nodes))
        while nodes and not self._refuted:
            node = nodes.pop()
            counts = tuple(p for p in node.counts if p not in self.found)
            self.settings -= 1
            if self.settings < 0:
                self.found |= {p: Found(open=True) for p in counts}
            elif counts:
                nodes += self._settle(node._replace(counts=counts))
        if self._refuted:
            # One refuted bound is enough: the others do not matter any more.
            return {p: found for p, found in self.found.items() if found.plan}
        return {p: self.found.get(p, Found()) for p in self.bounds}

    @property
    def _refuted(self) -> bool:
        return any(found.plan is not None for found in self.found.values())

    def _dive(self, node: Node) -> None:
        """Look for plans below the bounds with few labels per layer."""
        if self._refuted:
            return
        for p, row in (self._labels(node, few=True) or {}).items():
            plan, value = self._priced(row)
            if plan is not None and self._is_below(value, p):
                self.found[p] = Found(plan=plan)

    def _settle(self, node: Node) -> list[Node]:
        """Search one range with labels; return the ranges that are still open."""
        best = self._labels(node)
        if best is None and len(node.counts) > 1:
            # Searched alone, each stage count has fewer strategies and fewer labels.
            self.settings += _MOST_SETTINGS * len(node.counts)
            return [node._replace(counts=(p,)) for p in node.counts]
        if best is None:
            width = self.steps * (node.high - node.low)
            if width < _NARROW * max(self.bounds[p] for p in node.counts):
                self.found |= {p: Found(open=True) for p in node.counts}
                return []
            self._dive(node)
            middle = (node.low + node.high) // 2
            return [node._replace(low=middle), node._replace(high=middle)]
        left: dict[int, int] = {}
        for p, row in best.items():
            high = self._go_on(p, row, node)
            if high is not None and high >= node.low:
                left[p] = high
        if not left:
            return []
        return [Node(node.low, max(left.values()), tuple(left))]

    def _go_on(self, p: int, row: int, node: Node) -> int | None:
        """Price the best plan of a range; return the new upper end, or None."""
        plan, value = self._priced(row)
        if plan is not None and self._is_below(value, p):
            self.found[p] = Found(plan=plan)
            return None
        label = self.pool[row]
        fill = int(label[At.FILL] + label[At.SYNC]) * PS_PER_NS
        # Lambda in whole ps, rounded up.
        own = -(-(value - fill) // max(1, self.steps))
        if plan is None or not self.steps or own > node.high:
            # Labels require less than plans do: see ``labels``.
            self.found[p] = Found(open=True)
            return None
        return min(own - 1, (self.bounds[p] - 1 - fill) // self.steps)

    def _priced(self, row: int) -> tuple[Plan | None, int]:
        """Return a label's plan and its closed form in ps; no plan if it is invalid."""
        plan = self._plan(row)
        try:
            checked = check_plan(self.problem, self.table, plan)
        except HetoptError:
            return None, 0
        return plan, round(checked.closed_form_s / PS_S)

    def _is_below(self, value: int, p: int) -> bool:
        """Whether a plan's closed form is below a bound by more than rounding."""
        slack = self.steps + 2 + 1e-9 * value
        return value + slack < self.bounds[p]

    # --- labels ---------------------------------------------------------------------

    def _labels(self, node: Node, *, few: bool = False) -> dict[int, int] | None:
        """Return the best label by stage count; None if labels are too many.

        Parameters
        ----------
        few
            Whether to keep only the most promising labels.
        """
        self._narrow(node, self._budgets(node))
        pool = self.pool if len(node.counts) == 1 else self.pool[:_MOST_TOGETHER]
        found = self._complete(node, pool, few=few)
        if found is None:
            return None
        return {
            p: int(rows[self.pool[rows][:, [At.FILL, At.SYNC]].sum(axis=1).argmin()])
            for p, rows in found.items()
        }

    def _complete(
        self, node: Node, pool: Ints, *, few: bool = False
    ) -> dict[int, Ints] | None:
        """Return the rows of labels of whole plans by stage count, once narrowed."""
        high = node.high if self.steps else NEVER
        left = left_to_pay(
            self.facts,
            self.hosts,
            self.used,
            (node.low, high),
            self._budgets(node)[: max(node.counts) + 1],
        )
        at, found = np.zeros(3, dtype=np.int64), {}
        for placed in range(max(node.counts)):
            if not extend(self.facts, left, pool, at, placed, high):
                return None
            at[0], at[1] = at[1], at[2]
            layer = pool[at[0] : at[1]]
            whole = np.flatnonzero(
                (layer[:, At.UNITS] == len(self.facts.kinds))
                & (layer[:, At.FILL] < NEVER)
            )
            if len(whole) and placed + 1 in node.counts:
                found[placed + 1] = at[0] + whole
            if at[0] == at[1]:
                break
            if few:
                _thin(layer, left, placed + 1)
            if self.end is not None and time.monotonic() > self.end:
                raise OutOfTime
        return found

    def _budgets(self, node: Node) -> Ints:
        """Return the most that F and g may be, in ns by stage count; -1 if not open."""
        budgets = np.full(self.most + 1, -1, dtype=np.int64)
        for p in node.counts:
            budget = (self.bounds[p] - 1 - self.steps * node.low) // PS_PER_NS
            budgets[p] = min(budget, NEVER // PS_PER_NS)
        return budgets

    def _narrow(self, node: Node, budgets: Ints) -> None:
        """Remove strategies that no plan within the budgets uses for lambda <= high.

        The boundary times of those that remain are larger, so this is repeated.
        """
        period = min(-(-node.high // PS_PER_NS), NEVER) if self.steps else NEVER
        most = max(node.counts)
        if most not in self.wide:
            self.wide[most] = self._hosts(self.whole, most)
        self.part, self.hosts = self.whole, self.wide[most]
        while True:
            before = sum(host.count for host in self.hosts)
            others = Others(self.hosts, self.used, self.problem, period, budgets, most)
            clusters = tuple(
                with_rows(host.rows, np.flatnonzero(host.kept(period, others.left(j))))
                for j, host in enumerate(self.hosts)
            )
            self.part = replace(self.part, clusters=clusters)
            self.hosts = self._hosts(self.part, most)
            if sum(host.count for host in self.hosts) >= _WORTH * before:
                break
        self.facts = label_facts(self.problem, self.table, self.part, self.hosts)

    def _hosts(self, part: TableSlice, most: int) -> list[Host]:
        return [
            self.host(self.problem, self.table, part, j, most)
            for j in range(len(part.clusters))
        ]

    # --- the plan of a label --------------------------------------------------------

    def _plan(self, row: int) -> Plan:
        return written(
            self.problem, self.table, self.part.microbatches, *self._stages(row)
        )

    def _stages(self, row: int) -> tuple[list[tuple[int, Strategy]], list[int]]:
        """Return cluster and strategy of each stage of a label, and its body units."""
        hosts, units = [], []
        while row >= 0:
            label = self.pool[row]
            o = int(label[At.OPTION])
            j = int(self.facts.cluster[o])
            k = o - int(np.searchsorted(self.facts.cluster, j))
            hosts.append((j, self.part.clusters[j].strategies[k]))
            units.append(int(label[At.HELD]))
            row = int(label[At.PARENT])
        return hosts, units


def _thin(layer: Ints, left: Left, placed: int) -> None:
    """Keep only the labels with the most slack."""
    place = left.place[layer[:, At.MASK], layer[:, At.OPTION]]
    slack = left.slack[place, placed, layer[:, At.UNITS]]
    slack = slack - layer[:, At.FILL] - layer[:, At.SYNC]
    if len(layer) > _FEW_LABELS:
        worst = np.argpartition(-slack, _FEW_LABELS)[_FEW_LABELS:]
        layer[worst, At.FILL] = NEVER
