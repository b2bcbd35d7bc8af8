"""Warm-up counts of one plan under a free schedule: all that may matter are tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def simulated(
    caps: Sequence[int], simulated_ns: Callable[[Sequence[int]], int]
) -> tuple[int, ...] | None:
    """Return the counts of least simulated time; None if nothing fits.

    Of the quickest ones those of least sum, then the lexicographically smallest.

    Parameters
    ----------
    caps
        Most micro-batches of each stage that memory has room for, at most q.
    simulated_ns
        Returns the simulated time with such counts.
    """
    vectors: list[tuple[int, ...]] = [()]
    for cap in reversed(caps):
        vectors = [
            (w, *after)
            for after in vectors
            for w in range(after[0] if after else 1, cap + 1)
        ]
    return min(
        vectors,
        key=lambda counts: (simulated_ns(counts), sum(counts), counts),
        default=None,
    )
