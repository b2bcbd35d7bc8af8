"""The ``auto`` solver: the dynamic program, and a heuristic if its proof stays open."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.formulations.chain import Chain
from hetopt.solvers.loading import load
from hetopt.solvers.race.merging import best_first, with_plans
from hetopt.solvers.refusals import can_plan

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Result
    from hetopt.solvers.params import RaceParams
    from hetopt.solvers.request import Request

_EXACT = "dp"
#: Share of a time limit that is kept for a heuristic, in case the proof stays open.
_FALLBACK = 0.15
#: Seconds that tree search needs to be useful: workers take about one to start.
_STARTING_S = 1
#: Strategies times units, over all q, of which tree search still makes arrays within a
#: second. Models with experts have more, and every worker would hold a copy.
_MOST_CELLS = 2_500_000


def solve(request: Request) -> Result:
    """Find a plan of least closed form; see ``hetopt.solvers.request.Solve``.

    If the proof stays open and the user did not interrupt it, a heuristic gets the last
    part of the time limit. Its plan is reported if it is better, with the bound that
    the proof reached.
    """
    table, params, deadline = request.table, request.params, request.deadline
    reason = _why(request.problem, table)
    limit_s = deadline.limit_s
    if limit_s is None or not _may_fall_back(table, params, limit_s):
        return _explained(load(_EXACT)(request), reason)
    proof = deadline.within(limit_s * (1 - _FALLBACK))
    result = load(_EXACT)(replace(request, deadline=proof))
    proven = "unsettled" not in result.settled
    if proven or result.interrupted or deadline.is_over():
        return _explained(result, reason)
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
    merged = replace(
        merged, search_time_s=deadline.elapsed_s(), interrupted=found.interrupted
    )
    return _explained(merged, reason)


def _explained(result: Result, reason: str) -> Result:
    return replace(result, choice=f"chosen by auto: {reason}")


def _why(problem: Problem, table: CostTable) -> str:
    """Return what the search is about, in words.

    The exact dynamic program is among the quickest solvers at any size, and plans in
    every space.
    """
    pairs = len(problem.microbatch_counts) * len(problem.stage_counts)
    clusters, units = len(table.cluster_names), len(table.units)
    return (
        f"{counted(pairs, 'pair')} of stages and micro-batches, "
        f"{counted(clusters, 'cluster')}, "
        f"{counted(units, 'unit')}"
    )


def heuristic(table: CostTable) -> str:
    """Return the better heuristic: guided, unless body units are of several kinds."""
    return "mcts-guided" if Chain.of(table).is_uniform else "mcts"


def _may_fall_back(table: CostTable, params: RaceParams, time_limit_s: float) -> bool:
    """Whether a heuristic can search the same plans, and has enough time.

    If not, the proof gets the whole time limit.
    """
    other = heuristic(table)
    rows = sum(len(own.strategies) for part in table.slices for own in part.clusters)
    return (
        (other != "mcts" or rows * len(table.units) <= _MOST_CELLS)
        and can_plan(other, table.schedule)
        and not params.principles.relaxed
        and params.executor == "process"
        and time_limit_s * _FALLBACK >= _STARTING_S
    )


def _with_plans_of(found: Result, result: Result, table: CostTable, top: int) -> Result:
    """Return ``result`` with the plans of ``found`` added; its bound stays."""
    plans = [*result.plans, *found.plans]
    if not plans:
        return result
    return with_plans(result, best_first(plans, table)[:top], table)
