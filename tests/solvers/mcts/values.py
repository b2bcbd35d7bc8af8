"""What a decision of tree search is worth by other code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.formulations.chain import Chain
from hetopt.formulations.program import ProgramData
from hetopt.solvers.decisions.exact import exact_value
from hetopt.solvers.race.messages import NO_CUTOFF

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.formulations.decision import Decision
    from hetopt.problem.problem import Problem
    from tests.oracle.brute_force import Shape


def exact(problem: Problem, table: CostTable, decision: Decision) -> int | None:
    """Return its objective in 1 / PERIOD_SCALE ticks; None if it does not fit."""
    data = ProgramData.of(
        table,
        table.at(decision.microbatches),
        Chain.of(table),
        problem.pins,
        stages=decision.stages,
        cutoff=NO_CUTOFF,
    )
    return exact_value(decision, data)


def shape_of(table: CostTable, decision: Decision) -> Shape:
    """Return its shape as brute force writes it."""
    clusters = table.at(decision.microbatches).clusters
    rows = tuple(
        int(clusters[j].row(strategy))
        for j, strategy in zip(decision.order, decision.strategies, strict=True)
    )
    return (
        decision.stages,
        decision.microbatches,
        decision.order,
        rows,
        decision.hosted,
    )
