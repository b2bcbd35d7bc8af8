"""Least sums of consecutive units, by their number."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from hetopt.base.compiled import kernel, step
from hetopt.solvers.arrays.costs import Sum
from hetopt.solvers.arrays.windows import INFINITE

if TYPE_CHECKING:
    from hetopt.formulations.chain import Chain
    from hetopt.solvers.arrays.costs import Costs, Ints

#: Most units at the beginning that are told from the others.
_FEW = 8


class Least(IntEnum):
    """Rows of what ``shortest`` returns."""

    PHI, BETA, LATER, BOTH, FILL, HELD, KEPT = range(7)


def unlike(chain: Chain) -> int:
    """Return how many units at the beginning are like no later one, if a few are."""
    body = chain.body
    first = next((n for n, kind in enumerate(body) if kind != body[0]), 0)
    return first if first <= _FEW and body[0] not in body[first:] else 0


@kernel
def _shortest(sums: Ints, first: int, least: Ints) -> None:
    rows, count, size = sums.shape
    for row in range(rows):
        for o in range(count):
            for length in range(1, size):
                best = INFINITE
                for start in range(first, size - length):
                    worth = sums[row, o, start + length] - sums[row, o, start]
                    best = min(best, worth)
                least[row, o, length] = best


def shortest(costs: Costs, first: int) -> Ints:
    """Return the least of any l body units from ``first`` on in each row of ``Least``.

    Shape (7, O, L + 1). INFINITE where there are fewer.
    """
    sums = costs.sums
    backward = sums[Sum.TAU] - sums[Sum.FORWARD] - sums[Sum.INSIDE]
    by_row = {Least.PHI: sums[Sum.FORWARD], Least.BETA: backward}
    for row, of in (
        (Least.LATER, Sum.INSIDE),
        (Least.BOTH, Sum.TAU),
        (Least.FILL, Sum.FILL),
        (Least.HELD, Sum.STATE),
        (Least.KEPT, Sum.ACTIVE),
    ):
        by_row[row] = sums[of]
    rows = np.stack([by_row[row] for row in Least])
    least = np.zeros_like(rows)
    _shortest(rows, first, least)
    return least


@step
def fitting(row: Ints, room: int) -> int:
    """Return the largest l with row[l] <= room, or -1; the row does not fall."""
    low, high = 0, len(row)
    while low < high:
        middle = (low + high) // 2
        if row[middle] <= room:
            low = middle + 1
        else:
            high = middle
    return low - 1
