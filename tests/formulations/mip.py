"""Solving a MIQP on the spot, linearised in HiGHS, to the exact value of its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.formulations.miqp.linearise import linear_program, linearise
from hetopt.formulations.miqp.program import QuadraticProgram
from hetopt.solvers.decisions.exact import exact_value
from hetopt.solvers.mip.highs import HighsRun
from tests.formulations.programs import Best, data_of

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.formulations.program import ProgramData
    from hetopt.problem.training.pins import Pins


def minimum(model: Any) -> float | None:
    """Linearise a Pyomo model in place, solve it, load the values: its optimum."""
    linearise(model)
    program, variables = linear_program(model)
    run = HighsRun(program)
    if run.solve() == "infeasible":
        return None
    assert run.values is not None
    for variable, value in zip(variables, run.values, strict=True):
        variable.set_value(value, skip_validation=True)
    return run.objective


def optimum(program: QuadraticProgram) -> Best | None:
    """The optimum, priced exactly; None when there is no plan."""
    if minimum(program.model) is None or program.places.impossible:
        return None
    decision = program.extract()
    value = exact_value(decision, program.data)
    assert value is not None, "a plan that does not fit into memory"
    return Best(decision=decision, value=value)


def solved(data: ProgramData) -> Best | None:
    return optimum(QuadraticProgram(data))


def best(costs: CostTable, p: int, q: int, pins: Pins | None = None) -> Best | None:
    return solved(data_of(costs, p, q, pins))
