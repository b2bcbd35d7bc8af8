"""Types and sums that the modules of the CP-SAT program share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ortools.sat.python import cp_model

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from ortools.sat.python.cp_model_helper import Literal

    #: Narrower than OR-Tools' own type, which admits numpy's integers everywhere.
    Expression = cp_model.LinearExpr | int
    #: Literals that must all hold.
    Literals = Sequence[Literal]
    #: One time per slot.
    Times = Mapping[tuple[int, int], cp_model.IntVar]

__all__ = ["dot", "total", "weighted"]


def total(terms: Iterable[Expression]) -> cp_model.LinearExpr:
    """Return the sum, built in one step."""
    expression: cp_model.LinearExpr = cp_model.LinearExpr.sum(list(terms))
    return expression


def weighted(
    terms: Sequence[Expression], weights: Sequence[int]
) -> cp_model.LinearExpr:
    """Return the weighted sum, built in one step."""
    return cp_model.LinearExpr.weighted_sum(terms, weights)


def dot(counts: Sequence[int], values: Sequence[int] | NDArray[np.int64]) -> int:
    """Return the cost of these numbers of units of each kind."""
    return sum(int(n) * int(value) for n, value in zip(counts, values, strict=True))
