"""The tie rule's digits order plans as brute force does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetopt.problem.training.pins import Pins
from tests.formulations.programs import (
    ONE,
    TWO,
    exactly,
    hosting,
    optimum,
    plan,
    program_of,
    solver_of,
)
from tests.oracle import brute_force, plain


@pytest.mark.parametrize(
    ("p", "pins"),
    [
        (2, Pins()),
        (3, Pins()),
        (3, hosting(2, 1)),
        (2, Pins(order=("b",))),
        (4, hosting(2, 2)),
    ],
)
def test_first_among_equals(p: int, pins: Pins) -> None:
    """Every strategy and cluster costs the same, so that all choices tie."""
    pins = replace(pins, stages=exactly(p), microbatches=exactly(2))
    problem = plain.problem(pins=pins)
    costs = plain.table(problem, (ONE, TWO), transfer_ns=0)
    expected = brute_force.solve(problem, costs).best
    assert expected is not None

    value = plan(costs, p, 2, pins).value
    program = program_of(costs, p, 2, pins)
    program.model.add(program.objective <= value)
    for digit, most in program.tie_digits():
        program.model.minimize(digit)
        solver = solver_of()
        solver.solve(program.model)
        assert solver.status_name() == "OPTIMAL"
        number = int(solver.value(digit))
        assert 0 <= number <= most
        program.model.add(digit == number)
    found = optimum(program)
    assert found is not None
    shape = expected.shape
    strategies = tuple(costs.at(2).clusters[0].strategies[k] for k in shape[3])
    decision = found.decision
    assert (decision.order, decision.strategies) == (shape[2], strategies)
    assert (decision.hosted, decision.units) == (shape[4], expected.units)
