"""The tasks of the race for the least simulated time, as a worker runs them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hetopt.base.deadline import Deadline, Interrupted
from hetopt.errors import SolverError
from hetopt.formulations.chain import Chain
from hetopt.formulations.paths import Simulated
from hetopt.formulations.program import ProgramData
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.formulations.space import undominated
from hetopt.problem.training.principles import PRUNED
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.decisions.copies import canonical
from hetopt.solvers.decisions.identical import leaders
from hetopt.solvers.decisions.pricer import Pricer
from hetopt.solvers.race.messages import Found, Verdict
from hetopt.solvers.simulated.search import SimulatedSearch, survey

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.formulations.decision import Decision
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Time
    from hetopt.solvers.arrays.costs import Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedSpec:
    """What every worker gets at its start; the ``top`` best plans are wanted."""

    problem: Problem
    table: CostTable
    top: int
    objective: Time = "simulated"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundTimesTask:
    """Bound the simulated time of every p of one q in a range.

    Attributes
    ----------
    least, most
        The range of p.
    limit
        Largest simulated time of interest, in ns.
    share
        Largest width of the excess's intervals, as a share of the limit.
    """

    microbatches: int
    least: int
    most: int
    limit: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchTask:
    """Report every plan of one (p, q) that is among the best so far."""

    microbatches: int
    stages: int
    bound: int
    time_limit_s: float | None


def make(
    payload: SimulatedSpec, shared: Any, say: Callable[[Any], None]
) -> Callable[[Any], Any]:
    """Return the function that runs tasks in this process."""
    return SimulatedWorker(payload, shared, say).run


class SimulatedWorker:
    """Runs tasks for one problem."""

    def __init__(
        self, payload: SimulatedSpec, shared: Any, say: Callable[[Any], None]
    ) -> None:
        self.problem = payload.problem
        self.table = payload.table
        self.top = payload.top
        self.chain = Chain.of(payload.table)
        # The next best plans may use dominated strategies; if warm-up counts are free,
        # so may the best plan, with other counts. Which strategies lengthen no path is
        # known under plain schedules.
        rule = rule_of(payload.table.schedule)
        self._lists = payload.top > 1 or rule.free or not rule.is_plain
        pricer = Pricer(payload.problem, payload.table)
        self._time_ns = pricer.time_of(payload.objective)
        self._known: dict[int, tuple[TableSlice, Simulated]] = {}
        self._shared = shared
        self._say = say

    def run(self, task: Any) -> Any:
        """Run one task."""
        match task:
            case BoundTimesTask():
                return self._bound(task)
            case SearchTask():
                return self._search(task)
            case _:
                msg = f"unknown task {task!r}"
                raise SolverError(msg)

    def useful(self, part: TableSlice, limit: int, stages: int) -> TableSlice:
        """Return a slice without dominated strategies."""
        if self._lists:
            return part
        of_interest = Simulated(limit, stages)
        return undominated(self.table, part, self.chain, simulated=of_interest)

    def _part(self, q: int, limit: int, stages: int) -> TableSlice:
        """Return the useful slice at q, of what a task of wider interest left."""
        part, wider = self._known.get(q, (None, Simulated(-1, 0)))
        if part is not None and limit <= wider.limit_ns and stages <= wider.stages:
            return self.useful(part, limit, stages)
        part = self.useful(self.table.at(q), limit, stages)
        self._known[q] = part, Simulated(limit, stages)
        return part

    def _data(self, part: TableSlice, stages: int) -> ProgramData:
        rules = self.problem.rules
        return ProgramData.of(
            self.table, part, self.chain, rules, stages=stages, cutoff=0
        )

    def _bound(self, task: BoundTimesTask) -> Ints:
        part = self._part(task.microbatches, task.limit, task.most)
        # Stages of fewer hold less.
        data = replace(self._data(part, task.least), stages=task.most)
        return survey(data, task.limit, task.share, alone=task.least == task.most)

    def _search(self, task: SearchTask) -> Verdict:
        best: dict[tuple[object, ...], int] = {}
        within = int(self._shared.value) // PERIOD_SCALE
        groups = leaders(
            self.table,
            self.table.at(task.microbatches),
            self.problem.rules,
            PRUNED,
        )

        def limit() -> int:
            # The parent may not have handled this worker's latest plans yet.
            return min(int(self._shared.value) // PERIOD_SCALE, within)

        def found(decision: Decision, value: int) -> None:
            nonlocal within
            own = canonical(decision, groups)
            best[own.shape] = min(value, best.get(own.shape, value))
            if len(best) >= self.top:
                within = min(within, sorted(best.values())[self.top - 1])
            self._say(Found(decision=own, value=value * PERIOD_SCALE))

        def search(
            part: TableSlice, useful: Callable[[TableSlice], TableSlice]
        ) -> SimulatedSearch:
            of = SimulatedSearch(
                self._data(part, task.stages),
                limit=limit,
                found=found,
                simulate=self._time_ns,
                useful=useful,
                deadline=deadline,
            )
            of.run()
            return of

        q, deadline = task.microbatches, Deadline.after(task.time_limit_s)
        part = self._part(q, limit(), task.stages)
        try:
            done = search(part, lambda part: self.useful(part, limit(), task.stages))
            if done.alone <= limit() and not self._lists:
                # With dominated strategies transfers may take other turns on links.
                done = search(self.table.at(q), lambda part: part)
        except Interrupted:
            return Verdict(closed=False, searched=True, bound=task.bound)
        # All plans within the limit were visited: the best of them is optimal.
        bound = min([limit() + 1, *best.values()]) * PERIOD_SCALE
        return Verdict(closed=True, searched=done.simulated > 0, bound=bound)
