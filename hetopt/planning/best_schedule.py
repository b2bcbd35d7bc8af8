"""The best plan over all named schedules, with proof.

Schedules are searched one after the other. The time of the best plan so far is the
cutoff of all later searches, most of which then end by their bounds. The problem's own
schedule comes first: of equally good plans the first one found is reported.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hetopt.base.interruption import requested
from hetopt.cost.build import build_table
from hetopt.errors import InputError
from hetopt.planning.schedule_variants import run_by, schedule_variants
from hetopt.results.per_schedule import ScheduleBound
from hetopt.results.settlement import OPTIMALITY_GAP
from hetopt.solvers.race.device_time import least_times_s
from hetopt.solvers.race.merging import value_of, with_plans
from hetopt.solvers.refusals import ensure_keeps, ensure_plans
from hetopt.solvers.registry import solver as solver_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from hetopt.cost.table.table import CostTable
    from hetopt.planning.schedule_variants import ScheduleVariant
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import ScheduleName
    from hetopt.results.per_schedule import ScheduleStatus
    from hetopt.results.result import Result, Status
    from hetopt.solvers.progress import Progress
    from hetopt.solvers.request import Request, Solve

#: How often a schedule is searched under a time limit: once within its share, and once
#: more with the time that others did not use.
_ROUNDS = 2
#: Seconds that a search gets at least, even if the time is up.
_LEAST_S = 0.01
_LATE = "not searched: it was stopped before"


@dataclass(frozen=True, slots=True, kw_only=True)
class BestSchedule:
    """The best plan over all schedules.

    Attributes
    ----------
    problem, table
        Problem and table under the plan's schedule; the first searched if there is no
        plan.
    """

    problem: Problem
    table: CostTable
    result: Result


@dataclass(frozen=True, slots=True, kw_only=True)
class _Searched:
    """The result of the searches under one variant."""

    problem: Problem
    table: CostTable
    result: Result
    search_time_s: float


def best_schedule(
    request: Request,
    solve: Solve,
    *,
    solver: str,
    launcher: tuple[str, Collection[ScheduleName]] | None = None,
    variants: tuple[ScheduleVariant, ...] | None = None,
) -> BestSchedule:
    """Find the best plan over all schedules, and prove how good it is.

    Parameters
    ----------
    request
        Its problem and table have any schedule that can divide the model
        (``under_any``); its deadline is for all searches together.
    solve
        Function that minimises a time under one schedule.
    solver
        Name of its solver.
    launcher
        Name and schedules of the launcher that has to run the plan; None: any.
    variants
        Variants to search, in this order; None: ``schedule_variants`` of the problem.

    Raises
    ------
    InputError
        No schedule can be searched; it says why the first one cannot, or that the
        launcher runs none.
    """
    if variants is None:
        variants = schedule_variants(request.problem)
    search = _ScheduleSearch(request, solve, solver, variants)
    if launcher is not None:
        search.keep_to(*launcher)
    search.run()
    return search.outcome()


class _ScheduleSearch:
    """Searches variants until all are settled, or the time is up."""

    def __init__(
        self,
        request: Request,
        solve: Solve,
        solver: str,
        variants: tuple[ScheduleVariant, ...],
    ) -> None:
        self._request, self._solve, self._solver = request, solve, solver
        self._variants = variants
        self._searched: dict[ScheduleVariant, _Searched] = {}
        self._passed_over: dict[ScheduleVariant, str] = {}
        self._errors: list[InputError] = []

    def keep_to(self, launcher: str, schedules: Collection[ScheduleName]) -> None:
        """Pass over the schedules that a launcher cannot run.

        Raises
        ------
        InputError
            It cannot run any.
        """
        able = run_by(self._variants, launcher, schedules)
        for variant in self._variants:
            if variant not in able:
                self._passed_over[variant] = f"{launcher} does not run it"

    def run(self) -> None:
        """Search every variant, and unsettled ones again while there is time.

        Raises
        ------
        InputError
            All variants were passed over.
        """
        limited = self._request.deadline.limit_s is not None
        again = limited and solver_of(self._solver).proves
        for _ in range(_ROUNDS if again else 1):
            waiting = [each for each in self._variants if self._is_open(each)]
            for done, variant in enumerate(waiting):
                if self._searched and self._is_over():
                    return
                self._search(variant, len(waiting) - done)
        if not self._searched:
            raise self._errors[0]

    def outcome(self) -> BestSchedule:
        """Return the best plan, with the lower bound over all variants."""
        bounds = tuple(self._bound(each) for each in self._variants)
        best = self._best()
        found = self._searched[best] if best else next(iter(self._searched.values()))
        counting = [each.lower_bound_s for each in bounds if each.counts]
        known = [each for each in counting if each is not None]
        least = min(known) if known and len(known) == len(counting) else None
        result = replace(
            found.result,
            lower_bound_s=least,
            search_time_s=self._request.deadline.elapsed_s(),
            schedules=bounds,
            interrupted=self._is_interrupted(),
        )
        if best is None:
            result = self._without_plan(result, possible=bool(counting))
        elif least is None:
            result = replace(result, status="feasible", gap=None)
        else:
            value = self._value(best)
            least = min(least, value)
            gap = (value - least) / value
            proven = result.status == "optimal" and gap <= OPTIMALITY_GAP
            status: Status = "optimal" if proven else "feasible"
            result = replace(result, status=status, lower_bound_s=least, gap=gap)
        return BestSchedule(problem=found.problem, table=found.table, result=result)

    # ------------------------------------------------------------ one search

    def _search(self, variant: ScheduleVariant, waiting: int) -> None:
        """Search one variant within its share of the time, and keep the result.

        Parameters
        ----------
        waiting
            Number of variants still to be searched, including this one.
        """
        request, began_s = self._request, time.monotonic()
        share_s = self._share_s(variant, waiting)
        try:
            problem = variant.of(request.problem)
            ensure_plans(self._solver, variant.schedule)
            ensure_keeps(variant.schedule, request.params.principles)
            table = request.table
            if problem != request.problem:
                table = build_table(problem)
            result = self._solve(
                replace(
                    request,
                    problem=problem,
                    table=table,
                    params=replace(request.params, on_progress=self._telling()),
                    deadline=request.deadline.within(share_s, least_s=_LEAST_S),
                    cutoff_s=self._cutoff_s(),
                )
            )
        except InputError as error:
            self._passed_over[variant] = _reason(error)
            self._errors.append(error)
            return
        taken_s = time.monotonic() - began_s
        before = self._searched.get(variant)
        if before is not None:
            result = _together(before.result, result, table)
            taken_s += before.search_time_s
        self._searched[variant] = _Searched(
            problem=problem, table=table, result=result, search_time_s=taken_s
        )

    def _share_s(self, variant: ScheduleVariant, waiting: int) -> float | None:
        """Return the seconds that a search may take; see ``_search``."""
        left_s = self._request.deadline.left_s()
        if left_s is None:
            return None
        if variant in self._searched:
            return left_s / waiting
        # Half of the time for the first plan, as it is the cutoff of all others. Then
        # one part more than there are searches, as they end a little late.
        return left_s / (2 if self._best() is None else waiting + 1)

    def _telling(self) -> Callable[[Progress], None] | None:
        """Return ``on_progress`` with times since the start of all searches."""
        told, deadline = self._request.params.on_progress, self._request.deadline
        if told is None:
            return None

        def tell(progress: Progress) -> None:
            told(replace(progress, elapsed_s=deadline.elapsed_s()))

        return tell

    # ------------------------------------------------------------ what is known

    def _best(self) -> ScheduleVariant | None:
        """Return the variant of the best plan, of equal ones the first, or None."""
        able = [each for each in self._variants if not math.isinf(self._value(each))]
        return min(able, key=self._value, default=None)

    def _value(self, variant: ScheduleVariant) -> float:
        """Return the objective of a variant's best plan; inf if none is known."""
        known = self._searched.get(variant)
        return math.inf if known is None else _value(known.result)

    def _cutoff_s(self) -> float | None:
        best = self._best()
        return self._request.cutoff_s if best is None else self._value(best)

    def _is_interrupted(self) -> bool:
        ended = any(each.result.interrupted for each in self._searched.values())
        return ended or requested() is not None

    def _is_over(self) -> bool:
        return self._is_interrupted() or self._request.deadline.is_over()

    def _is_open(self, variant: ScheduleVariant) -> bool:
        return self._bound(variant).status in ("feasible", "unknown")

    def _bound(self, variant: ScheduleVariant) -> ScheduleBound:
        """Return what is known of a variant, given the best plan so far."""
        known = self._searched.get(variant)
        of = partial(ScheduleBound, **asdict(variant))
        if known is None and (reason := self._passed_over.get(variant)) is not None:
            return of(status="passed-over", reason=reason)
        if known is None:
            least_s = self._device_time_s()
            status: ScheduleStatus = "refuted" if self._excludes(least_s) else "unknown"
            return of(status=status, lower_bound_s=least_s, reason=_LATE)
        result, value = known.result, self._value(variant)
        status = result.status
        if status in ("feasible", "unknown") and variant != self._best():
            status = "refuted" if self._excludes(result.lower_bound_s) else status
        return of(
            status=status,
            objective_s=None if math.isinf(value) else value,
            lower_bound_s=result.lower_bound_s,
            search_time_s=known.search_time_s,
        )

    def _excludes(self, bound_s: float | None) -> bool:
        """Whether a bound excludes plans better than the best so far."""
        best = self._best()
        if best is None or bound_s is None:
            return False
        return bound_s >= self._value(best) * (1 - OPTIMALITY_GAP)

    def _device_time_s(self) -> float:
        """Return a lower bound on the time of plans of any schedule."""
        table = self._request.table
        least_s = float(least_times_s(table, np.array([table.cluster_devices]))[0])
        return least_s if math.isfinite(least_s) else 0.0

    def _without_plan(self, result: Result, *, possible: bool) -> Result:
        if not possible:
            return replace(result, status="infeasible", lower_bound_s=None)
        reasons = [
            each.result.reason
            for each in self._searched.values()
            if each.result.status == "unknown"
        ]
        reason = next(iter(reasons), _LATE)
        return replace(result, status="unknown", reason=reason)


def _reason(error: InputError) -> str:
    """Return why a schedule cannot be searched, with the field of the problem."""
    is_option = error.field is None or error.field.startswith("--")
    return error.message if is_option else f"{error.field}: {error.message}"


def _together(before: Result, after: Result, table: CostTable) -> Result:
    """Return the merged result of two searches of one variant."""
    if after.status == "infeasible":
        return after
    rest = max((before, after), key=lambda each: each.lower_bound_s or 0.0)
    owner = min((before, after), key=_value)
    owner = replace(
        owner,
        settlements=rest.settlements,
        lower_bound_s=rest.lower_bound_s,
        interrupted=after.interrupted,
    )
    return owner if owner.best is None else with_plans(owner, [owner.best], table)


def _value(result: Result) -> float:
    """Return the objective of a result's best plan; inf if it has none."""
    return math.inf if result.best is None else value_of(result.best, result.objective)
