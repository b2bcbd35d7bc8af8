"""The ``auto`` solver: it chooses a solver for the problem, and reports why."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.formulations.chain import Chain
from hetopt.schedule.schedules import rule_of
from hetopt.solvers import compiling
from hetopt.solvers.loading import load
from hetopt.solvers.race.merging import best_first, with_plans
from hetopt.solvers.race.race import FEW_CLUSTERS, bounds_are_kept

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.principles import Principles
    from hetopt.results.result import Result
    from hetopt.solvers.params import RaceParams
    from hetopt.solvers.request import Request

#: Problems up to this size take CP-SAT seconds, less than compiling dp takes.
_FEW_PROGRAMS, _FEW_UNITS, _FEW_STRATEGIES = 1000, 100, 4000
#: Share of a time limit that is kept for a heuristic, in case the proof stays open.
_FALLBACK = 0.15
#: Seconds that tree search needs to be useful: about 1 for starting workers, about 20
#: if it has to be compiled first.
_STARTING_S, _COMPILING_S = 1, 20


def solve(request: Request) -> Result:
    """Find a plan of least closed form; see ``hetopt.solvers.request.Solve``.

    If the proof stays open and the user did not interrupt it, a heuristic gets the last
    part of the time limit. Its plan is reported if it is better, with the bound that
    the proof reached.
    """
    table, params, deadline = request.table, request.params, request.deadline
    name, reason = choose(request.problem, table, params.principles)
    limit_s = deadline.limit_s
    if limit_s is None or not _may_fall_back(table, params, limit_s):
        return _explained(load(name)(request), name, reason)
    proof = deadline.within(limit_s * (1 - _FALLBACK))
    result = load(name)(replace(request, deadline=proof))
    proven = "unsettled" not in result.settled
    if proven or result.interrupted or deadline.is_over():
        return _explained(result, name, reason)
    cutoff_s = request.cutoff_s
    if result.best is not None and params.top == 1:
        # Worse plans are of no interest, and tree search prunes with the cutoff.
        known_s = result.best.closed_form_s
        cutoff_s = known_s if cutoff_s is None else min(cutoff_s, known_s)
    other = heuristic(table)
    found = load(other)(replace(request, deadline=deadline.within(), cutoff_s=cutoff_s))
    merged = _with_plans_of(found, result, table, params.top)
    if merged.best == result.best:
        reason += f"; the proof stayed open, and {other} found nothing better"
    else:
        reason += f"; the proof stayed open, and the plan is from {other}"
    merged = replace(merged, search_time_s=deadline.elapsed_s())
    return _explained(merged, name, reason)


def _explained(result: Result, name: str, reason: str) -> Result:
    """Return the result with the reason; compile missing code in the background."""
    missing = name != "dp" or not bounds_are_kept()
    begun = missing and not result.interrupted and compiling.compile_later()
    if begun and name != "dp":
        reason += "; dp is being compiled in the background for later runs"
    return replace(result, choice=f"chosen by auto: {reason}")


def heuristic(table: CostTable) -> str:
    """Return the better heuristic: guided, unless body units are of several kinds."""
    return "mcts-guided" if Chain.of(table).is_uniform else "mcts"


def _least_s() -> float:
    """Return how many seconds a heuristic needs to be useful."""
    from hetopt.base.machine_code import are_kept

    return _STARTING_S if are_kept("hetopt.solvers.mcts.tree") else _COMPILING_S


def _may_fall_back(table: CostTable, params: RaceParams, time_limit_s: float) -> bool:
    """Whether a heuristic can search the same plans, and has enough time.

    If not, the proof gets the whole time limit.
    """
    return (
        not rule_of(table.schedule).free
        and not rule_of(table.schedule).blocking
        and not rule_of(table.schedule).splits
        and not params.principles.relaxed
        and params.journal is None
        and params.executor == "process"
        and time_limit_s * _FALLBACK >= _least_s()
    )


def _with_plans_of(found: Result, result: Result, table: CostTable, top: int) -> Result:
    """Return ``result`` with the plans of ``found`` added; its bound stays."""
    plans = [
        plan
        for each in (result, found)
        if each.best is not None
        for plan in (each.best, *each.alternatives)
    ]
    if not plans:
        return result
    return with_plans(result, best_first(plans, table)[:top], table)


def choose(
    problem: Problem, table: CostTable, principles: Principles
) -> tuple[str, str]:
    """Return the name of a solver, and why it was chosen.

    The exact dynamic program is among the quickest at any size, and plans in every
    space. Only if it is not compiled yet and the problem is small is CP-SAT quicker;
    the plan is the same.
    """
    programs = len(problem.microbatch_counts) * len(problem.stage_counts)
    clusters, units = len(table.cluster_names), len(table.units)
    size = f"{programs} stages x micro-batches, {clusters} clusters, {units} units"
    if principles.relaxed:
        return "dp", f"supports the space without {' and '.join(principles.relaxed)}"
    strategies = max((part.strategy_count for part in table.slices), default=0)
    small = (
        programs <= _FEW_PROGRAMS
        and clusters <= FEW_CLUSTERS
        and units <= _FEW_UNITS
        and strategies <= _FEW_STRATEGIES
    )
    if small:
        from hetopt.base.machine_code import are_kept

        if not are_kept("hetopt.solvers.dp.labels"):
            return "cp-sat", f"{size}: quicker than dp, which is not compiled yet"
    return "dp", size
