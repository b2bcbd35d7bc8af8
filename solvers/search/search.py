"""One search over everything that is asked: a tree of problems, and its leaves' solver.

From the root down a search branches over the nodes to rent, the schedule, the division
into pipelines, and last over spaces of plans that a launcher can run. What is not asked
is left out; with nothing left the tree is one leaf.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from hetopt.cost.table_file.file import table_digest
from hetopt.results.result import Result
from hetopt.schedule.orders import FOLDS
from hetopt.solvers.lengths.outcome import solve_lengths
from hetopt.solvers.progress import Progress
from hetopt.solvers.race.merging import together
from hetopt.solvers.registry import solver as solver_of
from hetopt.solvers.search.answer import front_of, result_of
from hetopt.solvers.search.branchings.divisions import Divisions
from hetopt.solvers.search.branchings.fleets import Fleets
from hetopt.solvers.search.branchings.runnable import STRATEGIES, Runnable
from hetopt.solvers.search.branchings.schedules import (
    Schedules,
    ranks_of,
    spaces_of,
)
from hetopt.solvers.search.journal import Journal, Returned
from hetopt.solvers.search.loop import Loop
from hetopt.solvers.search.node import Leaf, Node, is_settled
from hetopt.solvers.search.space import Space

if TYPE_CHECKING:
    from hetopt.base.deadline import Deadline
    from hetopt.errors import InputError
    from hetopt.results.front import Front
    from hetopt.results.result import Objective
    from hetopt.solvers.request import Request, Solve
    from hetopt.solvers.search.branchings.schedules import ScheduleVariant
    from hetopt.solvers.search.over import Over

#: Why schedules that repeat a building block are not compared in closed form.
_TOO_SHORT = "its closed form is too short to compare: minimise the simulated time"
#: Shortest searches for which workers are started.
_WORKERS_S = 5.0
#: Bounds of values in floating point are off by less than this share of them.
_ROUNDING = 1e-9


class TreeSearch:
    """Searches the tree of what is asked.

    Attributes
    ----------
    request
        The request for the whole problem; its deadline is for all searches together.
    root, loop
        The tree, and its search.

    Parameters
    ----------
    solve
        Minimises a time of one problem.
    solver
        Name of its solver.
    objective
        The time that it minimises.

    Raises
    ------
    InputError
        What is asked is not possible for this problem.
    """

    def __init__(
        self,
        request: Request,
        solve: Solve,
        over: Over,
        *,
        solver: str,
        objective: Objective,
    ) -> None:
        self.request, self.over = request, over
        self.solver, self.objective = solver, objective
        self.proves = solver_of(solver).proves
        self._solve = solve
        self._space = Space.of(request.problem, request.table)
        self._made = 0
        self._journal: Journal | None = None
        # What the last search of a leaf returned, until the journal has it.
        self._returned: Returned | None = None
        if over.schedules:
            self._schedules, self._passed_over = self._variants()
            self._ranks = ranks_of(self._schedules)
        self.root = self._fleets()
        self.loop = Loop(self.root, request.deadline, self._tell, cutoff=self.cutoff)

    def run(self) -> Result:
        """Search, and return the result; it is not checked yet.

        Raises
        ------
        InputError
            The solver cannot do what is asked, or the journal cannot be used.
        """
        failure = self._run()
        if not isinstance(self.root, Leaf):
            return replace(result_of(self), journal_failure=failure)
        result = self.root.result
        assert result is not None
        return result if failure is None else replace(result, journal_failure=failure)

    def front(self) -> Front:
        """Search for the front of time and price, and return it."""
        failure = self._run()
        return replace(front_of(self), journal_failure=failure)

    def _run(self) -> InputError | None:
        """Search, and return why the journal is not whole, if so."""
        path = self.request.params.journal
        if path is None:
            self.loop.run()
            return None
        self._journal = Journal(path, self._header(), self._progress)
        try:
            self.loop.run()
            return self._journal.failure
        finally:
            self._journal.close()

    def _header(self) -> dict[str, Any]:
        """Return what a journal is of."""
        params = self.request.params
        return {
            "problem_digest": self.request.table.problem_digest,
            "table_digest": table_digest(self.request.table),
            "objective": self.objective,
            "over": list(self.over.to_json()),
            "relaxed": list(params.principles.relaxed),
            "top": params.top,
        }

    @property
    def cutoff(self) -> float:
        """Plans of this value or a larger one are of no interest."""
        limit = self.request.cutoff_s
        if limit is None or self.over.measure == "front":
            return math.inf
        return math.nextafter(limit, math.inf)

    @property
    def is_refuted(self) -> bool:
        """Whether no plan is of interest."""
        return self.root.bound >= self.cutoff * (1 - _ROUNDING)

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped it."""
        return self.loop.interrupted

    @property
    def failure(self) -> InputError | None:
        """Why the solver cannot search the first leaf that it cannot, if any."""
        return self.loop.failure

    def schedule_of_best(self) -> Node | None:
        """Return the node of the best plan's schedule; without a plan, of the first."""
        root = self.root
        if not isinstance(root, Schedules):
            return None
        nodes = [root.known.nodes[index] for index in sorted(root.known.nodes)]
        return min(nodes, key=lambda node: node.value, default=None)

    # --------------------------------------------------------------- the nodes

    def _variants(
        self,
    ) -> tuple[dict[ScheduleVariant, Space], dict[ScheduleVariant, str]]:
        """Return problems under each schedule, and why others are passed over."""
        launcher, passed = self.over.launcher, {}
        for each in self.over.schedules:
            why = None if launcher is None else launcher.passed_over(each)
            if why is None and FOLDS.get(each.schedule) and self.objective == "closed":
                why = _TOO_SHORT
            if why is not None:
                passed[each] = why
        able = [each for each in self.over.schedules if each not in passed]
        known, others = spaces_of(self._space, able)
        return known, {**passed, **others}

    def _fleets(self) -> Node:
        over = self.over
        if over.spending is None:
            return self._scheduled(self._space)
        return Fleets(
            self._space,
            self._scheduled,
            over.spending,
            over.measure,
            top=self.request.params.top,
            divided=over.divides or over.lengths,
        )

    def _scheduled(self, space: Space) -> Node:
        if not self.over.schedules:
            return self._divided(space)
        return Schedules(
            space,
            self._divided,
            self.over.schedules,
            self._schedules,
            self._passed_over,
            ranks=self._ranks,
            top=self.request.params.top,
            divided=self.over.divides,
        )

    def _divided(self, space: Space) -> Node:
        top, over = self.request.params.top, self.over
        if over.lengths:
            return self._leaf(space, 0.0, top)
        if not over.divides:
            return self._one(space, top)
        return Divisions(
            space,
            self._one,
            over.pipelines,
            self.objective,
            cuts=self.request.params.principles.sharing == "one",
            top=top,
            quick=self.request.deadline.limit_s is not None,
            together=None if over.launcher is None else over.launcher.together,
        )

    def _one(self, space: Space, top: int) -> Node:
        """Return the node of one pipeline."""
        launcher = self.over.launcher
        if launcher is None:
            return self._leaf(space, 0.0, top)
        return Runnable(
            space,
            lambda own, least: self._leaf(own, least, top),
            launcher,
            top=top,
            rule=STRATEGIES,
            quick=self.request.deadline.limit_s is not None,
        )

    def _leaf(self, space: Space, least: float, top: int) -> Leaf:
        self._made += 1
        return Leaf(space, self._searched, least, top=top, proves=self.proves)

    # ---------------------------------------------------------------- a search

    def _searched(self, leaf: Leaf, cutoff: float, deadline: Deadline) -> Result:
        """Return the result of a search of a leaf."""
        request, (problem, table) = self.request, leaf.space.asked
        params: Any = request.params
        told = params.on_progress
        if leaf is not self.root:
            short = deadline.limit_s is not None and deadline.limit_s < _WORKERS_S
            params = replace(
                params,
                top=leaf.top,
                jobs=0 if short and params.executor == "process" else params.jobs,
                on_progress=told and (lambda own: told(self._progress(own))),
            )
        known = None
        if self._journal is not None:
            known, is_answer = self._journal.known(leaf, cutoff)
            if known is not None and is_answer:
                return known
        solve: Solve = self._solve
        if self.over.lengths:
            solve = partial(
                solve_lengths,
                most=self.over.pipelines,
                objective=self.objective,
                whole=self.request.problem,
            )
        result = solve(
            replace(
                request,
                problem=problem,
                table=table,
                params=params,
                deadline=deadline,
                cutoff_s=None if math.isinf(cutoff) else cutoff,
                memory=leaf.memory,
                journal=self._journal,
            )
        )
        ended = self.proves and is_settled(result)
        if known is not None and not ended:
            result = together(known, result, table, leaf.top)
        self._returned = Returned(leaf, cutoff, result, ended)
        return result

    def _tell(self) -> None:
        """Report and keep what is known after a search."""
        if self._journal is not None and self._returned is not None:
            self._journal.returned(self._returned)
        self._returned = None
        told = self.request.params.on_progress
        # A single leaf reports by itself.
        if told is not None and not isinstance(self.root, Leaf):
            told(self._progress(None))

    def _progress(self, own: Progress | None) -> Progress:
        """Return the progress of the search, with what its leaf's has found so far."""
        root, over, known = self.root, self.over, []
        if own is not None and isinstance(root, Leaf):
            return replace(own, elapsed_s=self.request.deadline.elapsed_s())
        # A leaf may find what is none of the problem, or what the launcher cannot run.
        comparable = over.measure == "time" and not (over.divides or over.launcher)
        if own is not None and own.incumbent_s is not None and comparable:
            known.append(own.incumbent_s)
        if root.best:
            known.append(root.best[0].time_s)
        best_s, bound_s, gap = min(known, default=None), None, None
        if self.over.measure == "time" and best_s is not None:
            bound_s = min(root.bound, best_s)
            gap = (best_s - bound_s) / best_s
        return Progress(
            elapsed_s=self.request.deadline.elapsed_s(),
            incumbent_s=best_s,
            bound_s=bound_s,
            gap=gap,
            settled=sum(1 for each in root.searched() if each.ended),
            programs=self._made + root.open_leaves(self.cutoff),
        )
