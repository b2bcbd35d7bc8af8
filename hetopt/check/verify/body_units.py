"""The units between a model's ends, counted by kind."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.cost.table.table import CostTable

    Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """The units before, in and after the body of the model; counts by kind.

    Attributes
    ----------
    windows
        Distinct counts of l neighbouring body units, for l = 0, 1, ...; shape (W, N).
    starts
        Index of the first of ``windows`` of each l.
    """

    lead: Ints
    trail: Ints
    prefix: Ints
    windows: Ints
    starts: Ints

    @staticmethod
    def of(table: CostTable) -> Units:
        """Return the units of a table."""
        return _split(tuple(table.units), tuple(map(bool, table.body)))

    @property
    def length(self) -> int:
        """Number of body units."""
        return len(self.prefix) - 1

    @property
    def kinds(self) -> Ints:
        """Kinds of the body's units."""
        return np.flatnonzero(self.prefix[-1])

    def runs(self, cost: Ints) -> Ints:
        """Return the least cost of l neighbouring body units; (K, length + 1).

        Parameters
        ----------
        cost
            Cost of one unit of each kind, per strategy; shape (K, N).
        """
        kinds = self.kinds
        sums: Ints = cost[:, kinds] @ self.windows[:, kinds].T
        if len(self.starts) == len(self.windows):
            return sums
        least: Ints = np.minimum.reduceat(sums, self.starts, axis=1)
        return least


@lru_cache(maxsize=8)
def _split(units: tuple[int, ...], body: tuple[bool, ...]) -> Units:
    inside = [i for i, kind in enumerate(units) if body[kind]]

    def counts(part: tuple[int, ...]) -> Ints:
        return np.bincount(part, minlength=len(body)).astype(np.int64)

    middle = units[inside[0] : inside[-1] + 1]
    prefix = np.zeros((len(middle) + 1, len(body)), dtype=np.int64)
    prefix[np.arange(1, len(prefix)), middle] = 1
    prefix = prefix.cumsum(axis=0)
    windows = list(prefix[:, None])
    if len(set(middle)) > 1:
        windows = [
            np.unique(prefix[n:] - prefix[: len(prefix) - n], axis=0)
            for n in range(len(prefix))
        ]
    return Units(
        lead=counts(units[: inside[0]]),
        trail=counts(units[inside[-1] + 1 :]),
        prefix=prefix,
        windows=np.concatenate(windows),
        starts=np.cumsum([0, *(len(own) for own in windows[:-1])]),
    )
