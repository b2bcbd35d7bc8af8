"""The dynamic program's search over lambda: from a label setting to a proof.

The label setting (``dp.labels``) answers one question: what is the least fill and
gradient synchronisation F(h) of a plan whose lambda is at most h? The objective is
F + (q - 1) lambda, and F falls as h grows. A *node* is a range [low, high] of lambda
in which better plans may lie. Nothing in it costs less than F(high) + (q - 1) low, so:

* a cheap bound on F(high) may close the node;
* a wide node is cut in two, because that bound may be (q - 1) (high - low) too low;
* otherwise F(high) is computed. Its plan has some lambda' <= high, and no plan with
  lambda in [lambda', high] costs less. Nor is a plan better if F(high) plus (q - 1)
  times its lambda reaches the best objective so far. The search goes on below both.

Lambdas are multiples of 1 / PERIOD_SCALE ticks, so the search ends. Under gpipe the
paces are part of a label, and one label setting closes its node; with a single
micro-batch lambda does not count.

Under ``h-1f1b`` delta depends on lambda_0 = max(max tau, max kappa), and a node has a
range of lambda_0 too. If some delta changes inside that range, the label setting uses
the least delta for memory and the largest for the period: F is then a lower bound,
and its plan, priced exactly, may be infeasible. In that case the range is cut at such
a threshold. Without a threshold inside, the deltas are exact: no tau or kappa may
exceed the range, and one has to reach its lower end.
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hetopt.base.deadline import Interrupted
from hetopt.errors import SolverError
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.solvers.arrays.costs import Edge, Fact, HostColumn
from hetopt.solvers.arrays.options import ProgramOptions
from hetopt.solvers.arrays.windows import INFINITE
from hetopt.solvers.decisions.exact import exact_value
from hetopt.solvers.dp.bounds import RangeLimits, Scalar, empty_limits, limit, shortest
from hetopt.solvers.dp.budget import Cursor
from hetopt.solvers.dp.buffers import most_new
from hetopt.solvers.dp.found import Labelled, Node, cut, decision_of, everything
from hetopt.solvers.dp.label_pool import Label
from hetopt.solvers.dp.labels import LabelPhase, walk
from hetopt.solvers.dp.prices import look_around

if TYPE_CHECKING:
    from hetopt.formulations.decision import Decision
    from hetopt.formulations.program import ProgramData
    from hetopt.solvers.dp.buffers import Buffers
    from hetopt.solvers.race.engine import EngineRun

#: Ranges of lambda are cut until (q - 1) times their width is this share of the cutoff.
_WIDTH = 1 / 128
#: Steps of the label setting between two checks of the clock.
_STEPS = 300_000


class LabelSearch:
    """Searches one program.

    Parameters
    ----------
    ordered
        Whether ``first`` will be called, which applies the tie rule.

    Attributes
    ----------
    best, value
        The best plan found and its objective.
    bound
        Valid lower bound on the objective of plans within the cutoff.
    """

    def __init__(
        self,
        data: ProgramData,
        how: EngineRun,
        *,
        ordered: bool,
        buffers: Buffers,
    ) -> None:
        self.data = data
        self._buffers = buffers
        self.best: Decision | None = None
        self.value: int | None = None
        self.bound = data.objective_min
        self._how = how
        self._options = ProgramOptions(data, how.excluded, ordered=ordered)
        self._more = data.part.passes - 1
        self._gpipe = data.rule.all_first
        self._steady = self._more > 0 and not self._gpipe
        if not self._options.possible:
            return
        self._short = np.zeros_like(self._options.costs.sums)
        shortest(self._options.costs.sums, self._short)
        self._scratch = np.zeros((3, data.chain.length + 1), dtype=np.int64)
        self._whole, self._thresholds = everything(self._options, steady=self._steady)
        buffers.begin(len(self._options.costs.host), len(self._options.costs.stock))
        self._price = np.zeros(len(self._options.costs.host), dtype=np.int64)

    # ------------------------------------------------------------------ search

    def run(self) -> None:
        """Find the best plan within the cutoff; raises Interrupted if stopped."""
        cutoff = self.data.cutoff
        nodes: list[tuple[int, int, Node]] = []
        count = 0

        def push(node: Node, bound: int) -> None:
            nonlocal count
            count += 1
            heapq.heappush(nodes, (bound, count, node))

        for node in self._start():
            push(node, self.data.objective_min)
        while nodes:
            bound, _, node = heapq.heappop(nodes)
            self.bound = max(self.bound, min(bound, cutoff))
            self._check()
            limit = cutoff if self.value is None else self.value - 1
            if bound > limit:
                break
            if self._steady:
                node = replace(node, high=min(node.high, limit // self._more))
            limits = self._limits(node, limit)
            bound = max(bound, self._bound(limits, node))
            if bound > limit:
                continue
            if self._more * (node.high - node.low) > _WIDTH * limit:
                for half in cut(node):
                    push(half, bound)
                continue
            plan = self._set_labels(limits, self._budget(node, limit))
            if plan is None:
                continue
            for other in self._go_on(node, plan, limit):
                spent = self._spent(plan.total, node.low)
                spent += self._more * (other.low - node.low)
                push(other, max(bound, spent))
        self.bound = cutoff + 1 if self.value is None else self.value

    def first(self, value: int) -> Decision | None:
        """Return the first plan of at most this objective by the tie rule."""
        nodes = self._start()
        best: Decision | None = None
        while nodes:
            node = nodes.pop()
            if self._steady:
                node = replace(node, high=min(node.high, value // self._more))
            limits = self._limits(node, value)
            if self._bound(limits, node) > value:
                continue
            if self._more * (node.high - node.low) > _WIDTH * value:
                nodes += cut(node)
                continue
            budget = self._budget(node, value)
            if self._steady:
                plan = self._set_labels(limits, budget)
                if plan is None:
                    continue
                high = self._longest(node, plan, value)
                if high < node.high:
                    nodes.append(replace(node, high=high))
                    continue
                if self._inside(node):
                    nodes += self._halves(node)
                    continue
                # Every plan within this budget at this lambda costs at most ``value``.
                # Fill and g are whole ns: go on where lambda leaves room for one more.
                budget = value - self._more * node.high
                beyond = (budget // PERIOD_SCALE + 1) * PERIOD_SCALE
                high = (value - beyond) // self._more
                nodes.append(replace(node, high=min(high, node.high - 1)))
            limits.scalars[Scalar.ORDERED] = 1
            plan = self._set_labels(limits, budget)
            if plan is not None and (
                best is None or self.key(plan.decision) < self.key(best)
            ):
                best = plan.decision
        return best

    def _start(self) -> list[Node]:
        return [self._whole] if self._options.possible else []

    def _check(self) -> None:
        if self._how.stop() or self._how.deadline.is_over():
            raise Interrupted

    def _spent(self, total: int, low: int) -> int:
        """Return the least objective with this total, and lambda at least ``low``."""
        return total + self._more * low

    def _budget(self, node: Node, limit: int) -> int:
        """Return the largest total that a label may have."""
        return limit - self._more * node.low if self._steady else limit

    def _longest(self, node: Node, plan: Labelled, limit: int) -> int:
        """Return the largest lambda within a limit, given the node's best plan."""
        left = limit - self._spent(plan.total, node.low)
        return node.low + left // self._more

    def _bound(self, limits: RangeLimits, node: Node) -> int:
        """Return a cheap bound on the objective within a node."""
        if node.high < node.low or node.ceiling < node.floor:
            return INFINITE * PERIOD_SCALE
        stages, length = self.data.stages, self.data.chain.length
        fill = int(limits.rest[-1, stages, length])
        if self._options.costs.facts[Fact.PRICED]:
            fill -= int(limits.price @ self._options.costs.host[:, HostColumn.DEVICES])
            fill = max(fill, int(limits.rest[0, stages, length]))
        return self._spent(PERIOD_SCALE * fill, node.low)

    def _go_on(self, node: Node, plan: Labelled, limit: int) -> list[Node]:
        """Record the plan of a node; return the nodes still to be searched."""
        if plan.value is not None and plan.value <= limit:
            self.best, self.value = plan.decision, plan.value
            self._how.found(plan.decision)
            limit = plan.value - 1
        if not self._steady:
            if plan.value != plan.total:
                msg = f"labels cost {plan.total}, the plan {plan.value}"
                raise SolverError(msg)
            return []
        high = self._longest(node, plan, limit)
        if plan.value is not None:
            own = (plan.value - plan.total) // self._more
            if own <= node.high:
                return [replace(node, high=min(high, own - 1))]
        if not self._inside(node):
            msg = (
                "label setting found a plan that is infeasible in its range of "
                f"lambda: {plan.decision}"
            )
            raise SolverError(msg)
        return self._halves(replace(node, high=min(high, node.high)))

    # --------------------------------------------------------------- lambda_0

    def _inside(self, node: Node) -> list[int]:
        """Return the lambda_0 of the node's range at which some delta changes."""
        return [t for t in self._thresholds if node.floor < t <= node.ceiling]

    def _halves(self, node: Node) -> list[Node]:
        """Cut the range of lambda_0 where some delta changes."""
        inside = self._inside(node)
        middle = inside[len(inside) // 2]
        return [replace(node, ceiling=middle - 1), replace(node, floor=middle)]

    # ------------------------------------------------------------------ labels

    def _look_around(self, limits: RangeLimits, most: int) -> None:
        shape = limits.rest.shape
        limits.price[:] = self._price
        look_around(
            self._options.costs,
            limits,
            self._scratch,
            np.zeros(shape, dtype=np.int64),
            np.zeros((2, len(self._price)), dtype=np.int64),
            most,
        )
        self._price[:] = limits.price

    def _limits(self, node: Node, most_ticks: int) -> RangeLimits:
        costs = self._options.costs
        period = node.high if self._steady else INFINITE
        stage = INFINITE
        if self._more:
            stage = min(node.high // PERIOD_SCALE, node.ceiling)
        pace = -(-node.low // PERIOD_SCALE)
        scalars = np.array(
            [period, stage, node.ceiling, node.floor, pace, 0, node.low],
            dtype=np.int64,
        )
        longest = max(stage, int(costs.edge[Edge.KAPPA].max(initial=0)))
        delta = np.stack(
            self._options.deltas(node.floor, min(node.ceiling, longest)), axis=0
        )
        limits = empty_limits(costs, scalars, delta)
        most = (most_ticks - self._more * node.low) // PERIOD_SCALE
        limit(costs, self._short, limits, self._scratch, most)
        if costs.facts[Fact.PRICED]:
            self._look_around(limits, most)
        return limits

    def _set_labels(self, limits: RangeLimits, budget: int) -> Labelled | None:
        """Return the best plan within the budget, None if there is none."""
        costs = self._options.costs
        buffers, more = self._buffers, most_new(costs, limits)
        progress = np.array([LabelPhase.CLEAR, 0, 0, budget, 0, more], dtype=np.int64)
        for placed in range(self.data.stages):
            progress[Cursor.PHASE] = LabelPhase.CLEAR
            while progress[Cursor.PHASE] != LabelPhase.DONE:
                self._check()
                if not buffers.widen(more):
                    raise Interrupted
                progress[Cursor.WORK] = _STEPS
                walk(costs, limits, placed, buffers.memory(), progress)
            buffers.next_layer()
        pool = buffers.pool
        best = pool.label[0]
        if best[Label.OPTION] < 0:
            return None
        fill = int(best[Label.FILL])
        total = int(best[Label.TOTAL])
        if self._gpipe:
            pace = int(best[Label.DELAY] + best[Label.FLAG])
            total = fill + int(max(best[Label.SYNC], best[Label.LAST_SYNC]))
            total = PERIOD_SCALE * (total + self._more * pace)
        decision = decision_of(pool.label, self._options)
        return Labelled(
            decision=decision,
            total=total,
            value=exact_value(decision, self.data),
        )

    def key(self, decision: Decision) -> tuple[object, ...]:
        """Return the tie rule's key, with strategies numbered as in this program."""
        clusters = self.data.part.clusters
        return (
            decision.devices,
            decision.order,
            tuple(
                clusters[j].row(strategy)
                for j, strategy in zip(decision.order, decision.strategies, strict=True)
            ),
            decision.hosted,
            decision.units,
        )
