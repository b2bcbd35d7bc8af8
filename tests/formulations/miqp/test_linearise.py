"""Linearised programs have the optima of the products they stand for."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pyomo.environ as pyo
import pytest

from hetopt.errors import SolverError
from hetopt.formulations.miqp.linearise import linear_program, linearise
from tests.formulations.mip import minimum


def _drawn(seed: int) -> Any:
    """Four binaries and two counts, products of them in rows and objective."""
    rng = Random(seed)
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(4), domain=pyo.Binary)
    m.y = pyo.Var(range(2), domain=pyo.Integers, bounds=(rng.randint(-2, 1), 3))
    m.z = pyo.Var(bounds=(-50, 50))
    pairs = [(m.x[0], m.x[1]), (m.x[2], m.y[0]), (m.y[1], m.x[3]), (m.x[1], m.x[1])]
    weights = [rng.randint(-5, 5) for _ in pairs]
    m.defined = pyo.Constraint(expr=m.z == m.x[2] * m.y[0])
    m.row = pyo.Constraint(
        expr=sum(w * a * b for w, (a, b) in zip(weights, pairs, strict=True))
        + m.y[0]
        - m.x[3]
        >= rng.randint(-3, 2)
    )
    m.goal = pyo.Objective(
        expr=m.z * rng.randint(-3, 3)
        + sum(rng.randint(-4, 4) * a * b for a, b in pairs)
        + sum(rng.randint(-2, 2) * m.y[i] for i in range(2))
        + sum(rng.randint(-2, 2) * m.x[i] for i in range(4))
    )
    return m


def _enumerated(m: Any) -> float | None:
    best: float | None = None
    low, high = m.y[0].bounds
    counts = range(low, high + 1)
    for xs in product((0, 1), repeat=4):
        for ys in product(counts, repeat=2):
            variables = [*m.x.values(), *m.y.values()]
            for variable, value in zip(variables, [*xs, *ys], strict=True):
                variable.set_value(value)
            m.z.set_value(xs[2] * ys[0])
            if pyo.value(m.row.body) >= pyo.value(m.row.lower):
                goal = float(pyo.value(m.goal))
                best = goal if best is None else min(best, goal)
    return best


@pytest.mark.parametrize("seed", range(40))
def test_same_optimum_as_enumeration(seed: int) -> None:
    expected = _enumerated(_drawn(seed))
    found = minimum(_drawn(seed))
    assert found == (None if expected is None else pytest.approx(expected))


def test_a_defined_product_needs_no_other_variable() -> None:
    m = pyo.ConcreteModel()
    m.x, m.y = pyo.Var(domain=pyo.Binary), pyo.Var(bounds=(0, 7))
    m.w = pyo.Var(bounds=(0, 7))
    m.define = pyo.Constraint(expr=m.w == m.x * m.y)
    m.use = pyo.Constraint(expr=m.x * m.y >= 1)
    m.goal = pyo.Objective(expr=m.x + m.w)
    linearise(m)
    assert len(m.product) == 0
    assert not m.define.active


@pytest.mark.parametrize(
    ("bounds", "message"),
    [((0, 1), "no binary factor"), ((None, 1), "no binary factor")],
)
def test_a_product_without_a_binary(
    bounds: tuple[float | None, float], message: str
) -> None:
    m = pyo.ConcreteModel()
    m.x, m.y = pyo.Var(bounds=(0, 1)), pyo.Var(bounds=bounds)
    m.row = pyo.Constraint(expr=m.x * m.y >= 1)
    m.goal = pyo.Objective(expr=m.x)
    with pytest.raises(SolverError, match=message):
        linearise(m)


def test_a_product_with_an_unbounded_variable() -> None:
    m = pyo.ConcreteModel()
    m.x, m.y = pyo.Var(domain=pyo.Binary), pyo.Var(domain=pyo.NonNegativeReals)
    m.row = pyo.Constraint(expr=m.x * m.y >= 1)
    m.goal = pyo.Objective(expr=m.x)
    with pytest.raises(SolverError, match="y is unbounded"):
        linearise(m)


def test_products_of_three_are_refused() -> None:
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(3), domain=pyo.Binary)
    m.row = pyo.Constraint(expr=m.x[0] * m.x[1] * m.x[2] >= 1)
    m.goal = pyo.Objective(expr=m.x[0])
    with pytest.raises(SolverError, match="more than quadratic"):
        linearise(m)


def test_only_linear_models_are_handed_over() -> None:
    m = pyo.ConcreteModel()
    m.x = pyo.Var(range(2), domain=pyo.Binary)
    m.row = pyo.Constraint(expr=m.x[0] * m.x[1] >= 1)
    m.goal = pyo.Objective(expr=m.x[0])
    with pytest.raises(SolverError, match="row is not linear"):
        linear_program(m)
