"""Bounds on every p of one q: the relaxation over intervals of lambda.

An interval is split if a plan within the cutoff may lie in it and the cost of the
period alone differs too much between its ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from hetopt.solvers.bounds.relaxation import Relaxation

#: Ratio of neighbouring lambdas without a cutoff, and within one such interval.
_COARSE, _FINE = 1.3, 1.03
#: A survey without a cutoff ends where the period alone costs this times the best.
_REACH = 1.5
#: Intervals are split until the period's cost varies by less than this share of the
#: cutoff.
_SURVEYED, _FOCUSED = 1 / 64, 1 / 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What is known of each p; arrays of length most_stages + 1, times in ns.

    Attributes
    ----------
    bound
        Lower bound on the closed form; infinite where no plan exists.
    period
        Largest lambda of the interval the bound was found in.
    """

    bound: NDArray[np.float64]
    period: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Focus:
    """What is left of one (p, q) within a cutoff; times in ns.

    Attributes
    ----------
    bound
        Lower bound on the closed form, above the cutoff when nothing is left.
    period_min, period_max
        Range of lambda of every plan within the cutoff.
    keep
        Per cluster, indices of strategies that some such plan may use.
    """

    bound: float
    period_min: float
    period_max: float
    keep: tuple[NDArray[np.int64], ...]


def survey(
    relaxation: Relaxation, *, cutoff: float | None, share: float = _SURVEYED
) -> Survey:
    """Bound every p, closely where a plan within ``cutoff`` (ns) may exist.

    Parameters
    ----------
    share
        Intervals of lambda are split until the period's cost varies by less than this
        share of the cutoff.
    """
    size, more = relaxation.most_stages + 1, relaxation.part.passes - 1
    bound, period = np.full(size, np.inf), np.full(size, np.inf)

    def take(low: float, high: float) -> NDArray[np.float64]:
        value = _value(relaxation, low, high)
        better = value < bound
        bound[better] = value[better]
        period[better] = high
        return value

    if cutoff is not None:
        for low, high in _promising(
            relaxation, cutoff, share, lambda value: value.min()
        ):
            take(low, high)
        # Intervals that were left out hold no plan within the cutoff.
        return Survey(
            bound=np.minimum(bound, np.nextafter(cutoff, np.inf)), period=period
        )
    if not np.isfinite(take(0.0, np.inf)).any():
        return Survey(bound=bound, period=period)
    bound[:] = np.inf
    low, reach = relaxation.least_period(), np.inf
    while more * low <= reach and more:
        reach = min(reach, _REACH * float(take(low, low * _COARSE).min()))
        low *= _COARSE
    # One interval for all larger lambdas.
    take(low, np.inf)
    return Survey(bound=bound, period=period)


def sharpen(relaxation: Relaxation, stages: int, period: float) -> float:
    """Return a lambda (ns) closer to the relaxed optimum of p than ``period``."""
    if not np.isfinite(period):
        return period
    best, best_period = np.inf, period
    low = period / _COARSE
    while low < period:
        high = min(low * _FINE, period)
        value = float(_value(relaxation, low, high)[stages])
        if value < best:
            best, best_period = value, high
        low = high
    return best_period


def focus(relaxation: Relaxation, stages: int, *, cutoff: float) -> Focus:
    """Bound lambda and strategies of plans of p = ``stages`` within ``cutoff`` (ns)."""
    bound, low_end, high_end = np.inf, np.inf, 0.0
    keep = [np.zeros(cluster.count, dtype=bool) for cluster in relaxation.clusters]
    for low, high in _promising(
        relaxation, cutoff, _FOCUSED, lambda value: value[stages]
    ):
        least, fills = relaxation.option_fill(high, stages)
        value = float(_objective(relaxation, np.array(least), low))
        if value > cutoff:
            continue
        bound = min(bound, value)
        low_end, high_end = min(low_end, low), max(high_end, high)
        for kept, fill in zip(keep, fills, strict=True):
            kept |= _objective(relaxation, fill, low) <= cutoff
    return Focus(
        bound=min(bound, np.nextafter(cutoff, np.inf)),
        period_min=low_end,
        period_max=high_end,
        keep=tuple(np.flatnonzero(kept) for kept in keep),
    )


def _value(relaxation: Relaxation, low: float, high: float) -> NDArray[np.float64]:
    fill = relaxation.fill(high)
    return _objective(relaxation, fill, low)


def _objective(
    relaxation: Relaxation, fill: NDArray[np.float64], low: float
) -> NDArray[np.float64]:
    """Return the least cost of plans with these fills, and lambda at least ``low``."""
    steps = relaxation.part.passes - 1
    value: NDArray[np.float64] = fill + steps * low + relaxation.least_sync
    return value


def _promising(
    relaxation: Relaxation,
    cutoff: float,
    share: float,
    least: Callable[[NDArray[np.float64]], np.float64],
) -> Iterator[tuple[float, float]]:
    """Yield intervals of lambda that hold every plan within the cutoff, ascending.

    Parameters
    ----------
    share
        How much the period's cost may vary within an interval, by the cutoff.
    least
        Selects, of the bounds on all p, the one to compare with the cutoff.
    """
    start, more = relaxation.least_period(), relaxation.part.passes - 1
    intervals = [(start, cutoff / more if more else np.inf)]
    while intervals:
        low, high = intervals.pop()
        if low >= high:
            continue
        if least(_value(relaxation, low, high)) > cutoff:
            continue
        if more and more * (high - low) > share * cutoff:
            middle = (low + high) / 2
            intervals += [(middle, high), (low, middle)]
            continue
        yield low, high
