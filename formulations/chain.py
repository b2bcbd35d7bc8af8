"""The model as seen by the programs: a lead, a body that may be cut, a trail.

Every stage holds at least one body unit, so cuts are only between body units: the
leading units (embedding) belong to the first stage, the trailing ones (head) to
the last, and a cut is the number of body units before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from hetopt.cost.table.table import CostTable


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Units in pipeline order, split into lead, body and trail.

    Attributes
    ----------
    lead, trail
        Units per kind before and after the body; shape (N,).
    body
        Kind of each body unit; length L.
    cuts
        Cut class after each body unit but the last; length L - 1.
    """

    lead: tuple[int, ...]
    trail: tuple[int, ...]
    body: tuple[int, ...]
    cuts: tuple[int, ...]

    @classmethod
    def of(cls, table: CostTable) -> Chain:
        """Split the table's units; InputError if layers are missing or not adjacent."""
        inside = [u for u, kind in enumerate(table.units) if table.body[kind]]
        if not inside:
            msg = "units: no unit belongs to a transformer layer, expected at least one"
            raise InputError(msg)
        first, last = inside[0], inside[-1]
        if len(inside) != last - first + 1:
            msg = (
                "units: an embedding or head stands between transformer layers, "
                "expected them only at the ends"
            )
            raise InputError(msg)

        def count(units: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(units.count(kind) for kind in range(len(table.kinds)))

        return cls(
            lead=count(table.units[:first]),
            trail=count(table.units[last + 1 :]),
            body=table.units[first : last + 1],
            cuts=table.cuts[first:last],
        )

    def with_ends(self, body: Iterable[int]) -> tuple[int, ...]:
        """Return the units of the stages that have these body units."""
        units = [*body]
        units[0] += sum(self.lead)
        units[-1] += sum(self.trail)
        return tuple(units)

    def without_ends(self, units: Iterable[int]) -> tuple[int, ...]:
        """Return the body units of the stages that have these units."""
        body = [*units]
        body[0] -= sum(self.lead)
        body[-1] -= sum(self.trail)
        return tuple(body)

    @cached_property
    def length(self) -> int:
        """Number of body units, L."""
        return len(self.body)

    @cached_property
    def kinds(self) -> tuple[int, ...]:
        """Kinds that occur in the body, ascending."""
        return tuple(sorted(set(self.body)))

    @cached_property
    def cut_classes(self) -> tuple[int, ...]:
        """Cut classes that occur between body units, ascending."""
        return tuple(sorted(set(self.cuts)))

    @cached_property
    def prefix(self) -> NDArray[np.int64]:
        """Units of each kind before a cut, without the lead; shape (L + 1, N)."""
        counts = np.zeros((self.length + 1, len(self.lead)), dtype=np.int64)
        for position, kind in enumerate(self.body):
            counts[position + 1] = counts[position]
            counts[position + 1, kind] += 1
        return counts

    @cached_property
    def is_uniform(self) -> bool:
        """Whether all body units, and all cuts between them, are alike."""
        return len(self.kinds) == 1 and len(self.cut_classes) <= 1

    def shortest(self, cost: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the least cost of any run of l body units, for l = 0..L.

        Parameters
        ----------
        cost
            Cost of one unit of each kind; shape (N,) or (K, N).

        Returns
        -------
        Shape (L + 1,) or (K, L + 1).
        """
        counts, first = self._runs
        least = np.minimum.reduceat(cost @ counts.T, first, axis=-1)
        return np.ascontiguousarray(least)

    @cached_property
    def _runs(self) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        """Distinct runs of l body units, as counts per kind; where each l begins."""
        if len(self.kinds) == 1:
            # All runs of l units are alike: counting them takes seconds for 5,000.
            return self.prefix, np.arange(self.length + 1)
        counts = [
            np.unique(self.prefix[n:] - self.prefix[: self.length + 1 - n], axis=0)
            for n in range(self.length + 1)
        ]
        first = np.cumsum([0, *(len(rows) for rows in counts[:-1])])
        return np.concatenate(counts), first
