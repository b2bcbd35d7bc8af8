"""A mixed-integer linear program as columns and rows, independent of solvers.

It is built from plain lists, as building it through a modelling layer would take longer
than solving it; ``matrix`` returns what solvers take.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    #: A linear expression: coefficient by column.
    Terms = dict[int, float]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowMatrix:
    """Rows in compressed form: row i has the entries ``starts[i]:starts[i + 1]``."""

    starts: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: NDArray[np.float64]


class LinearProgram:
    """Minimise a linear expression over columns subject to rows.

    Attributes
    ----------
    cost, lower, upper, integer, names
        Per column.
    row_lower, row_upper, row_names
        Per row.
    """

    def __init__(self) -> None:
        self.cost: list[float] = []
        self.lower: list[float] = []
        self.upper: list[float] = []
        self.integer: list[bool] = []
        self.names: list[str] = []
        self.row_lower: list[float] = []
        self.row_upper: list[float] = []
        self.row_names: list[str] = []
        self._starts = [0]
        self._columns: list[int] = []
        self._values: list[float] = []

    @property
    def nonzeros(self) -> int:
        """Number of coefficients in all rows."""
        return len(self._columns)

    def column(self, name: str, *, upper: float = inf, integer: bool = False) -> int:
        """Add a column that is at least 0; return its index."""
        self.cost.append(0.0)
        self.lower.append(0.0)
        self.upper.append(upper)
        self.integer.append(integer)
        self.names.append(name)
        return len(self.names) - 1

    def row(
        self, name: str, terms: Terms, *, lower: float = -inf, upper: float = inf
    ) -> None:
        """Add ``lower <= terms <= upper``."""
        for column, value in terms.items():
            if value:
                self._columns.append(column)
                self._values.append(value)
        self._starts.append(len(self._columns))
        self.row_lower.append(lower)
        self.row_upper.append(upper)
        self.row_names.append(name)

    def equal(self, name: str, terms: Terms, value: float) -> None:
        """Add ``terms = value``."""
        self.row(name, terms, lower=value, upper=value)

    def minimize(self, terms: Terms) -> None:
        """Set the objective."""
        for column, value in terms.items():
            self.cost[column] = value

    def matrix(self) -> RowMatrix:
        """Return the coefficients of all rows."""
        return RowMatrix(
            starts=np.array(self._starts, dtype=np.int32),
            columns=np.array(self._columns, dtype=np.int32),
            values=np.array(self._values, dtype=np.float64),
        )


def total(columns: Iterable[int]) -> Terms:
    """Return the sum of columns."""
    return combine((1, {column: 1}) for column in columns)


def combine(parts: Iterable[tuple[float, Terms]]) -> Terms:
    """Return the sum of expressions, each times its factor."""
    sum_: Terms = {}
    for factor, terms in parts:
        if factor:
            for column, value in terms.items():
                sum_[column] = sum_.get(column, 0) + factor * value
    return sum_
