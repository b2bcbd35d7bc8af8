"""Why a problem has no plan, in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hetopt.cost.table import CostTable
    from hetopt.problem.problem import Problem


def why_infeasible(problem: Problem, table: CostTable) -> str:
    """Name the constraint that leaves no plan."""
    return "no plan"
