"""Warm-up counts of one plan under a free schedule: all that may matter are tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hetopt.check.plan.schedule.times import Times


def closed(times: Times, caps: Sequence[int]) -> tuple[int, ...] | None:
    """Return the counts of least closed form; None if nothing fits.

    Lambda is at least every tau, so more than 1 + ceil(2 kappa / max tau) at a
    boundary cannot shorten any window that matters: without the boundary the two
    parts of the window fit into it.

    Parameters
    ----------
    caps
        Most micro-batches of each stage that memory has room for, at most q.
    """
    if min(caps) < 1:
        return None
    p, q, tau = len(caps), times.microbatches, times.both
    forward, backward = times.forward, times.backward
    kappa, omega = times.transfer, times.occupancy
    longest = max(*tau, *omega, 1)
    floor = 1000 * max(*tau, *omega, 0)
    best: tuple[int, int, tuple[int, ...]] | None = None

    def extend(counts: tuple[int, ...], period: int) -> None:
        """Put one more stage before those that have their counts."""
        nonlocal best
        i = p - 1 - len(counts)
        if best is not None and period > best[0]:
            return
        if i < 0:
            found = (period if q > 1 else 0, sum(counts), counts)
            if best is None or found < best:
                best = found
            return
        most = 1 - (-2 * kappa[i] // longest)
        for delta in range(most + 1):
            w = counts[0] + delta
            if min(w, q) > caps[i]:
                break
            length, needed = tau[i], period
            for k, last in enumerate(counts, start=i + 1):
                length += 2 * kappa[k - 1] + tau[k]
                needed = max(needed, -(-1000 * length // (w - last + 1)))
            extend((w, *counts), needed)

    extend((1,), floor)
    if min(caps) == q:
        slowest = max(omega, default=0)
        pace = 1000 * (max(*forward, slowest) + max(*backward, slowest))
        found = (pace if q > 1 else 0, p * q, (q,) * p)
        best = found if best is None else min(best, found)
    return None if best is None else best[2]


def simulated(
    caps: Sequence[int], simulated_ns: Callable[[Sequence[int]], int]
) -> tuple[int, ...] | None:
    """Return the counts of least simulated time; None if nothing fits.

    Of the quickest ones those of least sum, then the lexicographically smallest.

    Parameters
    ----------
    caps
        As of ``closed``.
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
