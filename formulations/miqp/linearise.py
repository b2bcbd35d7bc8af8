"""Exact linearisation of the products in a Pyomo model, for solvers of MILPs.

Every product must have a binary factor x. For the other one, y in [l, u],

    w = x y  <=>  l x <= w <= u x  and  y - u (1 - x) <= w <= y - l (1 - x)

(McCormick): at x = 0 the first pair says w = 0, at x = 1 the second says w = y. The
bounds l and u are the variable's own, which the model derives from its data; there
is no other big-M. A variable that a row defines as a product (``w == x y``) stands
for it; other products get one of their own.

``linear_program`` returns a model without products as columns and rows.
"""

from __future__ import annotations

from math import inf
from typing import Any

import pyomo.environ as pyo
from pyomo.repn import generate_standard_repn

from hetopt.errors import SolverError
from hetopt.formulations.linear_program import LinearProgram


def linearise(model: Any) -> None:
    """Replace all products in the model's rows and objective, in place.

    Adds the variables ``product`` and the rows ``mccormick``; rows with products are
    deactivated and stated anew as ``linear``.

    Raises
    ------
    SolverError
        If a product has no binary factor, or its other factor is unbounded.
    """
    _Linearised(model).run()


def linear_program(model: Any) -> tuple[LinearProgram, list[Any]]:
    """Return a linear model as columns and rows, and the variable of every column.

    Raises
    ------
    SolverError
        If a row or the objective is not linear.
    """
    program = LinearProgram()
    variables = []
    column_of: dict[int, int] = {}
    for variable in model.component_data_objects(pyo.Var):
        low, high = variable.bounds
        column_of[id(variable)] = column = program.column(
            variable.name,
            upper=inf if high is None else high,
            integer=not variable.is_continuous(),
        )
        program.lower[column] = -inf if low is None else low
        variables.append(variable)

    def terms(expression: Any, name: str) -> tuple[dict[int, float], float]:
        form = generate_standard_repn(expression, compute_values=True)
        if form.quadratic_vars or form.nonlinear_expr is not None:
            msg = f"{name} is not linear"
            raise SolverError(msg)
        columns = (column_of[id(variable)] for variable in form.linear_vars)
        return dict(zip(columns, form.linear_coefs, strict=True)), form.constant

    for row in model.component_data_objects(pyo.Constraint, active=True):
        low, high = pyo.value(row.lower), pyo.value(row.upper)
        body, constant = terms(row.body, row.name)
        program.row(
            row.name,
            body,
            lower=-inf if low is None else low - constant,
            upper=inf if high is None else high - constant,
        )
    for objective in model.component_data_objects(pyo.Objective, active=True):
        program.minimize(terms(objective.expr, objective.name)[0])
    return program, variables


class _Linearised:
    """One model being linearised."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.rows = model.mccormick = pyo.ConstraintList()
        self.linear = model.linear = pyo.Constraint(pyo.Any)
        self.product = model.product = pyo.Var(pyo.Any, dense=False)
        #: The variable that stands for each product.
        self._known: dict[tuple[int, int], Any] = {}

    def run(self) -> None:
        left = []
        for row in list(self.model.component_data_objects(pyo.Constraint, active=True)):
            form = generate_standard_repn(row.body, compute_values=True)
            if form.nonlinear_expr is not None:
                msg = f"{row.name} is more than quadratic"
                raise SolverError(msg)
            if not form.quadratic_vars:
                continue
            row.deactivate()
            if not self._defines(row, form):
                left.append((row, form))
        # Only now are all products known that have a variable already.
        for row, form in left:
            body = self._sum(form)
            self.linear[row.name] = pyo.inequality(
                pyo.value(row.lower), body, pyo.value(row.upper)
            )
        for objective in self.model.component_data_objects(pyo.Objective, active=True):
            form = generate_standard_repn(objective.expr, compute_values=True)
            if form.quadratic_vars:
                objective.set_value(self._sum(form))

    def _defines(self, row: Any, form: Any) -> bool:
        """Whether a row defines ``w == x y``; if so, w represents the product."""
        if not (
            row.equality
            and len(form.quadratic_vars) == len(form.linear_vars) == 1
            and pyo.value(row.upper) == form.constant
            and form.linear_coefs[0] == -form.quadratic_coefs[0]
        ):
            return False
        pair = form.quadratic_vars[0]
        if _key(pair) in self._known:
            return False
        self._known[_key(pair)] = form.linear_vars[0]
        self._bound(form.linear_vars[0], *pair)
        return True

    def _sum(self, form: Any) -> Any:
        """Return a quadratic form with variables in place of products."""
        return (
            form.constant
            + sum(
                value * variable
                for value, variable in zip(
                    form.linear_coefs, form.linear_vars, strict=True
                )
            )
            + sum(
                value * self._variable(pair)
                for value, pair in zip(
                    form.quadratic_coefs, form.quadratic_vars, strict=True
                )
            )
        )

    def _variable(self, pair: tuple[Any, Any]) -> Any:
        key = _key(pair)
        if key not in self._known:
            name = " ".join(sorted(factor.name for factor in pair))
            self._known[key] = self.product[name]
            self._bound(self._known[key], *pair)
        return self._known[key]

    def _bound(self, w: Any, x: Any, y: Any) -> None:
        """State McCormick's four rows of ``w = x y``."""
        if not x.is_binary():
            x, y = y, x
        if not x.is_binary():
            msg = f"{x.name} times {y.name}: no binary factor"
            raise SolverError(msg)
        if x is y:
            self.rows.add(w == x)
            return
        low, high = y.bounds
        if low is None or high is None:
            msg = f"{x.name} times {y.name}: {y.name} is unbounded"
            raise SolverError(msg)
        self.rows.add(w <= high * x)
        self.rows.add(w <= y - low * (1 - x))
        self.rows.add(w >= y - high * (1 - x))
        if low or w.lb is None or w.lb < 0:
            self.rows.add(w >= low * x)


def _key(pair: tuple[Any, Any]) -> tuple[int, int]:
    a, b = sorted(map(id, pair))
    return a, b
