"""The two loops that deriving a bound again spends its time in, compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.compiled import kernel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]

#: More than any sum of times, and small enough for two of them to be added.
NEVER = 2**60


@kernel
def add(before: Ints, costs: Ints, after: Ints) -> None:
    """after[p + m, u + l] = min(itself, before[p, u] + costs[m, l]).

    As every stage holds a unit at least, nothing stands where p > u or m > l.
    """
    stages, units = before.shape
    for p in range(stages):
        for u in range(p, units):
            reached = before[p, u]
            if reached >= NEVER:
                continue
            for m in range(min(len(costs), stages - p)):
                for n in range(m, min(costs.shape[1], units - u)):
                    value = min(reached + costs[m, n], NEVER)
                    after[p + m, u + n] = min(after[p + m, u + n], value)


@kernel
def cheapest(
    run: Ints,
    inner: Ints,
    ends: Ints,
    sides: Ints,
    room: Ints,
    limits: Ints,
    stages_ok: Flags,
    units_ok: Flags,
    least: Ints,
) -> None:
    """Write the least fill of m stages with l body units, over strategies.

    Parameters
    ----------
    run
        Least time of l neighbouring units; shape (K, length + 1), rising with l.
    inner
        Least kappa between stages of the cluster; length K.
    ends
        Time of units at the model's ends that the cluster holds; length K.
    sides
        Least kappa into and out of the cluster, where others are there; length K.
    room
        Most units that m stages can take, the same for every l or for each; shape
        (K, 1, M + 1) or (K, length + 1, M + 1).
    limits
        What m stages may take in all; length M + 1.
    stages_ok, units_ok
        What pins permit; lengths M + 1 and length + 1.
    least
        Overwritten where something is cheaper; shape (M + 1, length + 1).
    """
    length = run.shape[1] - 1
    for m in range(1, len(least)):
        if not stages_ok[m]:
            continue
        for k in range(len(run)):
            fixed = ends[k] + 2 * (m - 1) * inner[k]
            differs = room.shape[1] > 1
            most = length if differs else min(length, room[k, 0, m])
            for n in range(m, most + 1):
                time = run[k, n] + fixed
                if time > limits[m]:
                    break
                if units_ok[n] and (not differs or n <= room[k, n, m]):
                    least[m, n] = min(least[m, n], time + sides[k])
