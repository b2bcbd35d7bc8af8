"""A search that is ready: the problem, its table and the branchings to begin with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hetopt.base.deadline import Deadline
from hetopt.cost.build import build_table
from hetopt.cost.table.table import CostTable
from hetopt.errors import CheckError, InputError
from hetopt.planning.objective import PATIENCE_S, decided
from hetopt.planning.solving import solve_for
from hetopt.results.launch import Launch
from hetopt.results.money import cost_of
from hetopt.solvers.kernels import kernels_for
from hetopt.solvers.params import DfsParams, MctsParams, RaceParams
from hetopt.solvers.refusals import ensure_packs
from hetopt.solvers.registry import solver as solver_of
from hetopt.solvers.request import Request
from hetopt.solvers.search.loop import LEAST_S
from hetopt.solvers.search.over import Over
from hetopt.solvers.search.search import TreeSearch

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.planning.asked import Search
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.principles import Principles
    from hetopt.results.front import Front
    from hetopt.results.result import Objective, Result
    from hetopt.solvers.progress import Progress
    from hetopt.solvers.registry import KernelSetName

#: A search that does not branch.
_ALONE = Over()


@dataclass(frozen=True, slots=True, kw_only=True)
class Posed:
    """What is asked, with what the search begins with.

    Attributes
    ----------
    asked
        What the user asks.
    problem, table
        The problem within the launcher's limits, and its latency table.
    over
        What is branched over.
    objective
        The time that is minimised, or that the cost is of.
    """

    asked: Search
    problem: Problem
    table: CostTable
    over: Over
    objective: Objective

    @classmethod
    def of(cls, asked: Search) -> Posed:
        """Return what is asked, ready to be searched.

        Raises
        ------
        InputError
            No plan can be as asked, the table is not this problem's, or counting
            devices does not show what fits the nodes.
        """
        problem, over = asked.over()
        table = _table_of(problem, asked.table)
        ensure_packs(problem, table, asked.principles)
        aim = decided(
            asked.time,
            problem,
            table,
            solver=asked.solver,
        )
        if asked.certified and not over.branches:
            _ensure_covered(table, aim, asked.principles)
        return cls(asked=asked, problem=problem, table=table, over=over, objective=aim)

    @property
    def kernels(self) -> tuple[KernelSetName, ...]:
        """The compiled functions that the search needs."""
        others = [each.schedule for each in self.over.schedules]
        return kernels_for(
            self.asked.solver,
            objective=self.objective,
            schedules=[self.problem.training.schedule, *others],
            limited=self.asked.time_limit_s is not None,
        )

    def request(
        self,
        on_progress: Callable[[Progress], None] | None = None,
        *,
        beside: int = 1,
    ) -> Request:
        """Return the request for the whole problem; its clock starts now.

        Parameters
        ----------
        beside
            See ``RaceParams``.
        """
        asked = self.asked
        shared: dict[str, Any] = {
            "jobs": asked.jobs,
            "top": asked.top,
            "on_progress": on_progress,
            "principles": asked.principles,
            "journal": asked.journal,
            "executor": asked.executor,
            "beside": beside,
        }
        params = RaceParams(**shared)
        if asked.solver == "dfs":
            params = DfsParams(**shared, cost=asked.cost or "closed")
        elif solver_of(asked.solver).samples:
            params = MctsParams(
                **shared, exploration=asked.exploration, iterations=asked.iterations
            )
        return Request(
            problem=self.problem,
            table=self.table,
            params=params,
            deadline=Deadline.after(asked.time_limit_s),
            seed=asked.seed,
        )

    def tree(self, request: Request) -> TreeSearch:
        """Return the search of everything that is asked."""
        return tree_of(
            request,
            solver=self.asked.solver,
            objective=self.asked.time,
            over=self.over,
        )

    def found_by(self, tree: TreeSearch) -> Result:
        """Search; for a launcher, also without its limits. It is not checked yet."""
        result = replace(found_by(tree), asked=self.asked.to_json())
        open_ = result.status not in ("optimal", "infeasible")
        unlimited = self.asked.time_limit_s is None and not result.interrupted
        if open_ and unlimited and tree.request.deadline.is_over():
            from hetopt.solvers.simulated.solver import ENDED

            result = replace(result, choice=ENDED % PATIENCE_S)
        if self.over.launcher is None:
            return result
        return self.with_cost_of_limits(result, tree.request)

    def with_cost_of_limits(self, result: Result, request: Request) -> Result:
        """Return a result with the best plan without the launcher's limits beside it.

        Parameters
        ----------
        result
            The best plan that the launcher can run.
        request
            The request that found it.
        """
        assert self.asked.limiting is not None
        whole, over = self.asked.without_limits().over()
        # Both searches together have the limit, with the moment after it in which a
        # first plan is still looked for, or the minute without one.
        deadline = Deadline()
        if result.interrupted:
            deadline = request.deadline.within(LEAST_S, least_s=LEAST_S)
        elif request.deadline.limit_s is not None:
            deadline = request.deadline
        time = "closed" if result.objective == "cost" else result.objective
        asked_time = "closed" if result.objective == "cost" else self.asked.time
        without = search(
            replace(
                request,
                problem=whole,
                table=build_table(whole),
                params=replace(request.params, top=1, journal=None),
                deadline=deadline,
            ),
            solver=self.asked.solver,
            objective=asked_time,
            over=over,
        )
        # A plan that the launcher can run is one without its limits, too.
        known = [each.best for each in (without, result) if each.best is not None]
        if self.over.measure == "time":
            known.sort(key=lambda each: each.time_s(time))
        best = next(iter(known), None)
        schedule = whole.training.schedule if best is None else best.plan.schedule
        launch = Launch(
            launcher=self.asked.limiting,
            schedule=schedule,
            closed_form_s=None if best is None else best.closed_form_s,
            iteration_time_s=None if best is None else best.iteration_time_s,
            proven=without.status == "optimal",
        )
        return replace(result, launch=launch)


def _ensure_covered(
    table: CostTable, objective: Objective, principles: Principles
) -> None:
    """Raise InputError if a search that does not branch can have no certificate."""
    from hetopt.check.verify.certificate import not_covered

    if not_covered(table, objective, principles) is not None:
        relaxed = " and ".join(principles.relaxed)
        msg = f"does not cover {table.schedule} with {relaxed} relaxed: leave it out"
        raise InputError(msg, field="certified")


def _table_of(problem: Problem, table: CostTable | str | None) -> CostTable:
    from hetopt.cost.table_file.file import ensure_made_for, read_table

    if table is None:
        return build_table(problem)
    if isinstance(table, CostTable):
        ensure_made_for(table, problem)
        return table
    return read_table(table, problem)


def search(
    request: Request,
    *,
    solver: str,
    objective: Objective | None,
    over: Over = _ALONE,
) -> Result:
    """Search everything that is asked; the result is not checked yet.

    Parameters
    ----------
    objective
        The time that is minimised; None: what ``decided`` says.
    over
        What to branch over.
    """
    return found_by(tree_of(request, solver=solver, objective=objective, over=over))


def found_by(tree: TreeSearch) -> Result:
    """Search a tree; the result is not checked yet."""
    result = tree.run()
    best = result.best
    if best is None or tree.over.branches:
        return result
    cost = cost_of(tree.request.problem, best.plan, best.iteration_time_s)
    return replace(result, cost=cost)


def tree_of(
    request: Request, *, solver: str, objective: Objective | None, over: Over
) -> TreeSearch:
    """Return the search of everything that is asked; see ``search``."""
    aim = decided(
        objective,
        request.problem,
        request.table,
        solver=solver,
    )
    # Divisions for several lengths are searched to the end, as in closed form.
    patient = objective is None and aim == "simulated" and not over.lengths
    if patient and over.branches and request.deadline.limit_s is None:
        # All searches together have the time that a single one has.
        request = replace(request, deadline=request.deadline.until(PATIENCE_S))
    solve = solve_for(solver, aim, PATIENCE_S if patient else None)
    return TreeSearch(request, solve, over, solver=solver, objective=aim)


def ensure_holds(problem: Problem, table: CostTable, result: Result) -> None:
    """Raise CheckError unless independent code confirms every claim of a result.

    Parameters
    ----------
    problem, table
        What was searched; the result's own, if it has them, go before.
    """
    if result.best is None:
        return
    from hetopt.check import check_result

    problem, table = result.problem or problem, result.table or table
    findings = check_result(problem, table, result.to_json())
    if findings:
        raise CheckError(list(findings))


def ensure_front_holds(problem: Problem, table: CostTable, front: Front) -> None:
    """Raise CheckError unless independent code confirms every claim of a front."""
    from hetopt.check.claims.front import check_front

    findings = check_front(problem, table, front.to_json())
    if findings:
        raise CheckError(findings)
