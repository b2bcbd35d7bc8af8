"""The ``auto`` solver: picks one by the problem, and says which and why."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.solvers.registry import load

if TYPE_CHECKING:
    from hetopt.cost.table import CostTable
    from hetopt.problem.principles import Principles
    from hetopt.problem.problem import Problem
    from hetopt.result import Result
    from hetopt.solvers.params import RaceParams

#: Problems up to this size take CP-SAT seconds, less than compiling dp does.
_FEW_PROGRAMS, _FEW_CLUSTERS, _FEW_UNITS = 600, 3, 48


def solve(
    problem: Problem,
    table: CostTable,
    params: RaceParams,
    *,
    time_limit_s: float | None,
    seed: int,
    cutoff: float | None = None,
) -> Result:
    """Find a plan of least closed form; see ``hetopt.solvers.racing.Solve``."""
    name, reason = choose(problem, table, params.principles)
    result = load(name)(
        problem, table, params, time_limit_s=time_limit_s, seed=seed, cutoff=cutoff
    )
    return replace(result, choice=reason)


def choose(
    problem: Problem, table: CostTable, principles: Principles
) -> tuple[str, str]:
    """Return a solver's name, and why it was chosen.

    The exact dynamic program is the quickest at any size and the only one for every
    space. Only when its machine code is not there yet, and the problem is small, is
    it quicker to do without: the plan is the same.
    """
    programs = len(problem.microbatch_counts) * len(problem.stage_counts)
    clusters, units = len(table.cluster_names), len(table.units)
    size = f"{programs} programs (p, q), {clusters} clusters, {units} units"
    if principles.relaxed:
        return "dp", f"knows the space without {' and '.join(principles.relaxed)}"
    small = (
        programs <= _FEW_PROGRAMS and clusters <= _FEW_CLUSTERS and units <= _FEW_UNITS
    )
    if small:
        from hetopt.solvers.compiled import are_kept

        if not are_kept("dp_"):
            return "cp-sat", f"{size}: quicker than compiling dp, which a later run may"
    return "dp", size
