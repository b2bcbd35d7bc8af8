"""The best plan that a launcher can run, with proof."""

from __future__ import annotations

import heapq
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.cost.build import build_table
from hetopt.cost.table import TICK_S
from hetopt.cost.table_file import table_digest
from hetopt.export.limits import LIMITS, Limits, branches, permitted
from hetopt.formulations.program import PERIOD_SCALE
from hetopt.result import OPTIMALITY_GAP, How, Launch, PricedPlan, Result, Settlement
from hetopt.solvers.merging import best_first
from hetopt.solvers.outcome import devices_used, mfu

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.cost.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.solvers.params import RaceParams
    from hetopt.solvers.racing import Solve

    #: Plans of a problem by a narrowed table.
    _Space = tuple[Problem, CostTable]

#: From what says least of a program to what says most.
_HOWS: tuple[How, ...] = (
    "unsettled",
    "solved",
    "refuted-by-search",
    "refuted-by-bound",
    "infeasible",
)


def solve_for(
    problem: Problem,
    table: CostTable,
    params: RaceParams,
    *,
    launcher: str,
    asked: Problem,
    solve: Solve,
    time_limit_s: float | None,
    seed: int,
) -> Result:
    """Find the best plan that a launcher can run, and what its limits cost.

    Parameters
    ----------
    problem, table
        With a schedule of the launcher's.
    launcher
        A name in ``LIMITS``.
    asked
        The problem with the schedule that the user asked for.
    time_limit_s
        For both searches together.
    """
    began = time.monotonic()
    result = solve_launchable(
        problem,
        table,
        params,
        LIMITS[launcher],
        solve,
        time_limit_s=time_limit_s,
        seed=seed,
    )
    left_s = None
    if time_limit_s is not None:
        left_s = max(time_limit_s - (time.monotonic() - began), 0.01)
    if result.interrupted:
        left_s = 0.01
    without = solve(
        asked,
        build_table(asked),
        replace(params, top=1),
        time_limit_s=left_s,
        seed=seed,
    )
    best = without.best
    launch = Launch(
        launcher=launcher,
        schedule=asked.training.schedule,
        closed_form_s=None if best is None else best.closed_form_s,
        iteration_time_s=None if best is None else best.iteration_time_s,
        proven=without.status == "optimal",
    )
    return replace(result, launch=launch)


def solve_launchable(
    problem: Problem,
    table: CostTable,
    params: RaceParams,
    limits: Limits,
    solve: Solve,
    *,
    time_limit_s: float | None,
    seed: int,
) -> Result:
    """Find the best plan of those that a launcher can run.

    Branch and bound: a space is searched as if its stages had nothing in common; if
    one of its best plans cannot be run, the space is split by what is wrong with
    that one. The space of least bound comes first, and the best plans so far are the
    cutoff of all others.

    Raises
    ------
    InputError
        As ``branches`` and the solver.
    """
    began = time.monotonic()
    best: list[PricedPlan] = []
    closed: list[Result] = []
    waiting: list[tuple[float, int, Result, _Space]] = []
    digest = table_digest(table)
    count = 0

    def search(space: _Space) -> None:
        nonlocal best, count
        left_s = None
        if time_limit_s is not None:
            # A space that gets no time says what is known of it: nothing.
            left_s = max(time_limit_s - (time.monotonic() - began), 0.01)
        cutoff = None
        if len(best) == params.top:
            # Equally good plans are wanted too: the tie rule chooses among them.
            cutoff = best[-1].closed_form_s + TICK_S / PERIOD_SCALE / 2
        result = solve(*space, workers, time_limit_s=left_s, seed=seed, cutoff=cutoff)
        found = [] if result.best is None else [result.best, *result.alternatives]
        runnable = [
            _signed(one, table, digest)
            for one in found
            if not branches(limits, *space, one.plan)
        ]
        best = best_first([*best, *runnable], table)[: params.top]
        if len(runnable) == len(found):
            closed.append(result)
        else:
            count += 1
            bound = result.lower_bound_s or 0.0
            heapq.heappush(waiting, (bound, count, result, space))

    workers = params
    for part in permitted(limits, problem, table):
        search((problem, part))
    if time_limit_s is not None:
        # Branches are many and small: starting workers for each takes longer.
        workers = replace(params, jobs=0)
    while waiting:
        bound, _, result, space = heapq.heappop(waiting)
        late = time_limit_s is not None and time.monotonic() - began > time_limit_s
        late |= any(one.interrupted for one in closed)
        if late or (len(best) == params.top and bound > best[-1].closed_form_s):
            closed.append(result)
            continue
        for branch in _split(limits, space, result):
            search(branch)
    return _merged(closed, best, table, time.monotonic() - began)


def _split(limits: Limits, space: _Space, result: Result) -> list[_Space]:
    """Return the branches of a space by the first of its plans that cannot be run."""
    plans = [] if result.best is None else [result.best, *result.alternatives]
    return next(found for one in plans if (found := branches(limits, *space, one.plan)))


def _signed(priced: PricedPlan, table: CostTable, digest: str) -> PricedPlan:
    """Return a plan of a narrower space as one of the whole table's."""
    plan = replace(
        priced.plan, problem_digest=table.problem_digest, table_digest=digest
    )
    return replace(priced, plan=plan)


def _merged(
    results: Sequence[Result],
    best: Sequence[PricedPlan],
    table: CostTable,
    search_time_s: float,
) -> Result:
    """Return what several searches, together, say of their spaces' union."""
    merged: dict[tuple[int, int], Settlement] = {}
    for result in results:
        for settlement in result.settlements:
            key = (settlement.stages, settlement.microbatches)
            merged[key] = _both(merged.get(key, settlement), settlement)
    bounds = [one.bound_s for one in merged.values() if one.bound_s is not None]
    first = results[0]
    if not best:
        open_ = any(result.status == "unknown" for result in results)
        return replace(
            first,
            status="unknown" if open_ else "infeasible",
            best=None,
            lower_bound_s=min(bounds, default=None),
            gap=None,
            settlements=tuple(merged.values()),
            search_time_s=search_time_s,
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
        settlements=tuple(merged.values()),
        search_time_s=search_time_s,
        reason=None,
        tokens_per_s=table.tokens / best[0].iteration_time_s,
        mfu=mfu(table, best[0], table.cluster_devices),
        mfu_used=mfu(table, best[0], devices_used(table, best[0])),
    )


def _both(one: Settlement, other: Settlement) -> Settlement:
    """Return what two settlements of one (p, q) say of both spaces."""
    bounds = [each.bound_s for each in (one, other) if each.bound_s is not None]
    return replace(
        one,
        how=min(one.how, other.how, key=_HOWS.index),
        bound_s=min(bounds, default=None),
    )
