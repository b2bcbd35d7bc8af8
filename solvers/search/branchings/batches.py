"""Divide the batch among pipelines, given the time of each one by its batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.cost.shapes import Floats


def least_longest(times: Sequence[Floats]) -> tuple[float, tuple[int, ...]]:
    """Return the least time of the slowest pipeline, and the batches that attain it.

    Parameters
    ----------
    times
        Time of each pipeline by its batch, from 0 to B sequences; infinite for 0;
        shape (B + 1,) each.

    Returns
    -------
    The time, and the batch of each pipeline. Batches add up to B; of equal choices, the
    first pipelines have the fewest sequences. Infinity and () if no choice is finite.
    """
    batch = len(times[0]) - 1
    if len(times) == 1:
        value = float(times[0][batch])
        return value, () if np.isinf(value) else (batch,)
    sums: list[Floats] = [times[0]]
    for own in times[1:-1]:
        before = sums[-1]
        after = np.full(batch + 1, np.inf)
        for n in range(1, batch + 1):
            after[n] = np.maximum(before[: n + 1], own[n::-1]).min()
        sums.append(after)
    chosen: list[int] = []
    left = batch
    value = np.inf
    for number in range(len(times) - 1, 0, -1):
        before = sums[number - 1][: left + 1]
        longest = np.maximum(before, times[number][left::-1])
        first = int(longest.argmin())
        if number == len(times) - 1:
            value = float(longest[first])
        chosen.append(left - first)
        left = first
    chosen.append(left)
    if np.isinf(value):
        return value, ()
    return value, tuple(reversed(chosen))
