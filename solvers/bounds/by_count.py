"""Bounds on every p of one q: the relaxation over intervals of lambda.

An interval is split where a plan within the cutoff may lie and where the two ends
differ too much in what the period alone costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from hetopt.solvers.bounds.relaxation import Relaxation

#: Ratio of neighbouring lambdas while nothing is known, and within one of these.
_COARSE, _FINE = 1.3, 1.03
#: A first survey ends where the period alone costs this much more than the best.
_REACH = 1.5
#: Intervals are split until the period's cost varies by this share of the cutoff.
_SURVEYED, _FOCUSED = 1 / 64, 1 / 128

#: Sums of floating-point times are off by less than this share of them.
_ROUNDING = 1e-9


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


def survey(relaxation: Relaxation, *, cutoff: float | None) -> Survey:
    """Bound every p, closely where a plan within ``cutoff`` (ns) may exist."""
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
            relaxation, cutoff, _SURVEYED, lambda value: value.min()
        ):
            take(low, high)
        # What was left out has no plan within the cutoff.
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
    # The rest at once: any lambda from here on.
    take(low, np.inf)
    return Survey(bound=bound, period=period)


def sharpen(relaxation: Relaxation, stages: int, period: float) -> float:
    """Return a closer lambda (ns) than ``period``, where a survey bounds p."""
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
    """Find what a plan of p = ``stages`` within ``cutoff`` (ns) may look like."""
    bound, low_end, high_end = np.inf, np.inf, 0.0
    keep = [np.zeros(cluster.count, dtype=bool) for cluster in relaxation.clusters]
    for low, high in _promising(
        relaxation, cutoff, _FOCUSED, lambda value: value[stages]
    ):
        least, fills = relaxation.option_fill(high, stages)
        value = float(_objective(relaxation, np.array(least), stages, low, high))
        if value > cutoff:
            continue
        bound = min(bound, value)
        low_end, high_end = min(low_end, low), max(high_end, high)
        for kept, fill in zip(keep, fills, strict=True):
            kept |= _objective(relaxation, fill, stages, low, high) <= cutoff
    return Focus(
        bound=min(bound, np.nextafter(cutoff, np.inf)),
        period_min=low_end,
        period_max=high_end,
        keep=tuple(np.flatnonzero(kept) for kept in keep),
    )


def _value(relaxation: Relaxation, low: float, high: float) -> NDArray[np.float64]:
    fill = relaxation.fill(high, roles=True)
    return _objective(relaxation, fill, np.arange(len(fill)), low, high)


def _objective(
    relaxation: Relaxation,
    fill: NDArray[np.float64],
    stages: int | NDArray[np.int64],
    low: float,
    high: float,
) -> NDArray[np.float64]:
    """Return what plans of these fills cost at least, with lambda in a range.

    With several chunks a stage, that is where rounds of the pipeline are the longest
    against p passes: at lambda's lower end. The way back is left out.
    """
    part = relaxation.part
    value: NDArray[np.float64] = fill + (part.passes - 1) * low + relaxation.least_sync
    if part.chunks == 1:
        return value
    value = value + (part.chunks - 1) * np.maximum(fill - stages * low, 0.0)
    # No plan has no stage, and 0 times infinity is no number.
    most = 2 * np.maximum(stages, 1) * high * (1 + _ROUNDING)
    return np.where(fill > most, np.inf, value)


def _promising(
    relaxation: Relaxation,
    cutoff: float,
    share: float,
    least: Callable[[NDArray[np.float64]], np.float64],
) -> Iterator[tuple[float, float]]:
    """Intervals of lambda that hold every plan within the cutoff, upwards.

    Parameters
    ----------
    share
        Of the cutoff: how much the period's cost may vary within an interval.
    least
        What of the bounds on all p has to stay within the cutoff.
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
