"""Tiny interval programs, solved on the spot by HiGHS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.formulations.intervals.program import IntervalProgram
from hetopt.pricing.price import pipeline_times
from hetopt.solvers.decisions.assembly import plan_of, value_of
from hetopt.solvers.mip.highs import HighsRun
from tests.formulations.programs import Best, data_of

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.formulations.decision import Decision
    from hetopt.problem.training.pins import Pins

#: HiGHS's tolerances over the largest objective here, both generously.
EXACT = 1e-7


def optimum(
    program: IntervalProgram, costs: CostTable, *excluded: Decision
) -> Best | None:
    """Solve to the end; None when there is no plan. The value is HiGHS's own."""
    for decision in excluded:
        program.exclude(decision)
    run = HighsRun(program.program)
    verdict = run.solve()
    if verdict == "infeasible":
        return None
    assert verdict == "optimal"
    assert run.values is not None
    decision = program.extract(run.values)
    objective = run.objective * program.scale
    exact = value_of(pipeline_times(plan_of(decision, costs, ""), costs))
    # A program's lambda is not rounded up; the plan's value has it rounded.
    rounding = max(0, decision.microbatches - 1)
    assert objective * (1 - EXACT) <= exact <= objective * (1 + EXACT) + rounding
    return Best(decision=decision, value=exact)


def best(costs: CostTable, p: int, q: int, pins: Pins | None = None) -> Best | None:
    return optimum(IntervalProgram(data_of(costs, p, q, pins)), costs)
