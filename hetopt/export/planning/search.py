"""Finds the best plan that a launcher can run, with proof."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hetopt.cost.build import build_table
from hetopt.cost.table.ticks import TICK_S
from hetopt.cost.table_file.file import table_digest
from hetopt.export.planning.limits import branches, permitted
from hetopt.export.registry import limits_of
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.results.launch import Launch
from hetopt.results.priced_plan import PricedPlan
from hetopt.results.result import Result
from hetopt.results.settlement import OPTIMALITY_GAP, How, Settlement
from hetopt.solvers.race.merging import best_first
from hetopt.solvers.race.outcome import devices_used, mfu

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.cost.table.table import CostTable
    from hetopt.export.launcher import Limits
    from hetopt.problem.problem import Problem
    from hetopt.solvers.request import Request, Solve

    #: A problem with a table of some of its strategies.
    _Space = tuple[Problem, CostTable]

#: Seconds that a search gets even after the deadline.
_LEAST_S = 0.01
#: How a program was settled, from the weakest statement to the strongest.
_HOWS: tuple[How, ...] = (
    "unsettled",
    "solved",
    "refuted-by-search",
    "refuted-by-bound",
    "infeasible",
)


def solve_for(
    request: Request, *, launcher: str, asked: Problem, solve: Solve
) -> Result:
    """Find the best plan that a launcher can run, and what its limits cost.

    Parameters
    ----------
    request
        Under a schedule of the launcher; its deadline is for both searches together.
    launcher
        The name of a launcher that has limits.
    asked
        The problem under the schedule that the user asked for.
    """
    result = solve_launchable(request, limits_of(launcher), solve)
    return priced(result, request, launcher=launcher, asked=asked, solve=solve)


def priced(
    result: Result, request: Request, *, launcher: str, asked: Problem, solve: Solve
) -> Result:
    """Return a result with the best plan without limits beside it, for comparison.

    Parameters
    ----------
    result
        The best plan that the launcher can run.
    request, launcher, asked
        As for ``solve_for``.
    """
    left_s = _LEAST_S if result.interrupted else None
    without = solve(
        replace(
            request,
            problem=asked,
            table=build_table(asked),
            params=replace(request.params, top=1),
            deadline=request.deadline.within(left_s, least_s=_LEAST_S),
        )
    )
    best = without.best
    launch = Launch(
        launcher=launcher,
        schedule=asked.training.schedule if best is None else best.plan.schedule,
        closed_form_s=None if best is None else best.closed_form_s,
        iteration_time_s=None if best is None else best.iteration_time_s,
        proven=without.status == "optimal",
    )
    return replace(result, launch=launch)


def solve_launchable(request: Request, limits: Limits, solve: Solve) -> Result:
    """Find the best plan of those that a launcher can run.

    Branch and bound: a space is searched without the limits that concern several
    stages. If the launcher cannot run one of the best plans found, the space is split
    by the reason. The space with the least bound is split first; the last of the
    ``top`` best plans so far is the cutoff of all searches.

    Raises
    ------
    InputError
        As ``branches`` and the solver.
    """
    problem, table, deadline = request.problem, request.table, request.deadline
    search = _BranchAndBound(request, table_digest(table), limits, solve)
    whole = [(problem, part) for part in permitted(limits, problem, table)]
    if deadline.limit_s is not None:
        # One strategy on all stages: most launchers run such plans.
        for space in whole:
            search.take(search.solved(space, 0.0), space)
    search.visit_all(whole)
    search.split_all()
    for left, (result, space) in search.once_more():
        search.visit(space, left, known=result, last=True)
        search.split_all()
    return _merged(search.closed, search.best, table, deadline.elapsed_s())


@dataclass(slots=True)
class _BranchAndBound:
    """The best plans so far, the results of settled spaces, and the spaces to split.

    Attributes
    ----------
    waiting
        A heap of (bound in seconds, serial number, result, space).
    late
        Spaces whose plans can be run, but whose search did not end within its share of
        the time, with the results.
    """

    request: Request
    digest: str
    limits: Limits
    solve: Solve
    best: list[PricedPlan] = field(default_factory=list)
    closed: list[Result] = field(default_factory=list)
    waiting: list[tuple[float, int, Result, _Space]] = field(default_factory=list)
    late: list[tuple[Result, _Space]] = field(default_factory=list)
    pushed: int = 0

    def is_over(self) -> bool:
        """Whether time is up or the user interrupted."""
        return self.request.deadline.is_over() or any(
            one.interrupted for one in self.closed
        )

    def visit_all(self, spaces: Sequence[_Space], known: Result | None = None) -> None:
        """Search spaces; a time limit is shared by them and what comes after."""
        for left, space in zip(range(len(spaces), 0, -1), spaces, strict=True):
            self.visit(space, left + 1, known=known)

    def split_all(self) -> None:
        """Split the waiting spaces, least bound first, until none is worthwhile."""
        request, params = self.request, self.request.params
        if request.deadline.limit_s is not None:
            # Branches are many and small: starting workers for each takes longer.
            self.request = replace(request, params=replace(params, jobs=0))
        while self.waiting:
            bound, _, result, space = heapq.heappop(self.waiting)
            known = len(self.best) == params.top
            if self.is_over() or (known and bound > self.best[-1].closed_form_s):
                self.closed.append(result)
                continue
            self.visit_all(_split(self.limits, space, result), result)
        self.request = request

    def once_more(self) -> Iterator[tuple[int, tuple[Result, _Space]]]:
        """Yield the late spaces, least bound first, and how many are left."""
        late, self.late = self.late, []
        late.sort(key=lambda each: each[0].lower_bound_s or 0.0)
        for left, (result, space) in zip(range(len(late), 0, -1), late, strict=True):
            if self.is_over():
                self.closed.append(result)
            else:
                yield left, (result, space)
        self.closed += [result for result, _ in self.late]

    def visit(
        self,
        space: _Space,
        shares: int,
        *,
        known: Result | None = None,
        last: bool = False,
    ) -> None:
        """Search a space; close it, or queue it to be split or searched once more.

        Parameters
        ----------
        shares
            The space gets one of so many equal shares of the time that is left.
        known
            The result of an earlier search of it, or of a space that holds it.
        last
            Whether it is closed even if this search does not end.
        """
        left_s = self.request.deadline.left_s()
        result = self.solved(space, None if left_s is None else left_s / shares)
        if known is not None:
            result = _raised(result, known)
        open_ = "unsettled" in result.settled and not result.interrupted
        if not self.take(result, space):
            self.pushed += 1
            bound = result.lower_bound_s or 0.0
            heapq.heappush(self.waiting, (bound, self.pushed, result, space))
        elif open_ and not last and left_s is not None:
            self.late.append((result, space))
        else:
            self.closed.append(result)

    def solved(self, space: _Space, limit_s: float | None) -> Result:
        """Return the result of a search that takes at most so many seconds."""
        top, cutoff_s = self.request.params.top, self.request.cutoff_s
        if len(self.best) == top:
            # Keep equally good plans: the tie rule chooses among them.
            cutoff_s = self.best[-1].closed_form_s + TICK_S / PERIOD_SCALE / 2
        problem, part = space
        least_s = _LEAST_S if limit_s else 0.0
        return self.solve(
            replace(
                self.request,
                problem=problem,
                table=part,
                # A space that gets no time stays unsettled.
                deadline=self.request.deadline.within(limit_s, least_s=least_s),
                cutoff_s=cutoff_s,
            )
        )

    def take(self, result: Result, space: _Space) -> bool:
        """Keep the plans that can be run; return whether all can."""
        found = [] if result.best is None else [result.best, *result.alternatives]
        table = self.request.table
        runnable = [
            _signed(one, table, self.digest)
            for one in found
            if not branches(self.limits, *space, one.plan)
        ]
        self.best = best_first([*self.best, *runnable], table)
        del self.best[self.request.params.top :]
        return len(runnable) == len(found)


def _split(limits: Limits, space: _Space, result: Result) -> list[_Space]:
    """Return the branches of a space by the first of its plans that cannot be run."""
    plans = [] if result.best is None else [result.best, *result.alternatives]
    return next(found for one in plans if (found := branches(limits, *space, one.plan)))


def _signed(priced: PricedPlan, table: CostTable, digest: str) -> PricedPlan:
    """Return a plan of a narrower space as a plan of the whole table."""
    plan = replace(
        priced.plan, problem_digest=table.problem_digest, table_digest=digest
    )
    return replace(priced, plan=plan)


def _raised(result: Result, known: Result) -> Result:
    """Return a result with the bounds of another one that hold for its space too."""
    bounds = {(one.stages, one.microbatches): one.bound_s for one in known.settlements}
    settlements = tuple(
        replace(one, bound_s=max(one.bound_s, least))
        if one.bound_s is not None
        and (least := bounds.get((one.stages, one.microbatches))) is not None
        else one
        for one in result.settlements
    )
    least_s = min(
        (one.bound_s for one in settlements if one.bound_s is not None), default=None
    )
    return replace(result, settlements=settlements, lower_bound_s=least_s)


def _merged(
    results: Sequence[Result],
    best: Sequence[PricedPlan],
    table: CostTable,
    search_time_s: float,
) -> Result:
    """Return the result of several searches for their spaces together."""
    merged: dict[tuple[int, int], Settlement] = {}
    for result in results:
        for settlement in result.settlements:
            key = (settlement.stages, settlement.microbatches)
            merged[key] = _both(merged.get(key, settlement), settlement)
    bounds = [one.bound_s for one in merged.values() if one.bound_s is not None]
    first = replace(
        results[0], settlements=tuple(merged.values()), search_time_s=search_time_s
    )
    if not best:
        # A space whose plans cannot be run stays open if there was no time to split it.
        open_ = any(result.status != "infeasible" for result in results)
        return replace(
            first,
            status="unknown" if open_ else "infeasible",
            best=None,
            alternatives=(),
            tokens_per_s=None,
            mfu=None,
            mfu_used=None,
            lower_bound_s=min(bounds, default=None),
            gap=None,
            reason="stopped before a plan was found"
            if open_
            else f"nothing the launcher can run fits: {first.reason}",
        )
    value = best[0].closed_form_s
    bound = min([value, *bounds])
    gap = (value - bound) / value
    return replace(
        first,
        status="optimal" if gap <= OPTIMALITY_GAP else "feasible",
        best=best[0],
        alternatives=tuple(best[1:]),
        lower_bound_s=bound,
        gap=gap,
        reason=None,
        tokens_per_s=table.tokens / best[0].iteration_time_s,
        mfu=mfu(table, best[0], table.cluster_devices),
        mfu_used=mfu(table, best[0], devices_used(table, best[0])),
    )


def _both(one: Settlement, other: Settlement) -> Settlement:
    """Return the settlement of one (p, q) for two spaces together."""
    bounds = [each.bound_s for each in (one, other) if each.bound_s is not None]
    return replace(
        one,
        how=min(one.how, other.how, key=_HOWS.index),
        bound_s=min(bounds, default=None),
    )
