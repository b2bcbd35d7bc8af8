"""Bounds on every p of one q: the relaxation swept over intervals of lambda."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hetopt.solvers.relaxation import Relaxation

#: Ratio of neighbouring lambdas: one sweep finds where to look, one looks closely.
COARSE, FINE = 1.1, 1.01
#: A sweep ends where the period alone costs this much more than the best plan may.
_REACH = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a sweep says of each p; arrays of length most_stages + 1, times in ns.

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
        Lower bound on the closed form, infinite when nothing is left.
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
    relaxation: Relaxation, microbatches: int, *, cutoff: float = np.inf
) -> Survey:
    """Bound every p, closely where a plan within ``cutoff`` (ns) may exist."""
    size = relaxation.most_stages + 1
    bound, period = np.full(size, np.inf), np.full(size, np.inf)

    def take(low: float, high: float) -> NDArray[np.float64]:
        value = _value(relaxation, microbatches, low, high)
        better = value < bound
        bound[better] = value[better]
        period[better] = high
        return value

    if np.isfinite(cutoff):
        for low, high in _intervals(relaxation, microbatches, FINE, cutoff):
            take(low, high)
        # A longer period alone exceeds the cutoff.
        return Survey(
            bound=np.minimum(bound, np.nextafter(cutoff, np.inf)), period=period
        )
    if not np.isfinite(relaxation.fill(np.inf, roles=True)).any():
        return Survey(bound=bound, period=period)
    reach = np.inf
    for low, high in _intervals(relaxation, microbatches, COARSE, np.inf):
        if (microbatches - 1) * low > reach:
            # The rest at once: any lambda from here on.
            take(low, np.inf)
            break
        reach = min(reach, _REACH * float(take(low, high).min()))
    return Survey(bound=bound, period=period)


def focus(
    relaxation: Relaxation, microbatches: int, stages: int, *, cutoff: float
) -> Focus:
    """Find what a plan of p = ``stages`` within ``cutoff`` (ns) may look like."""
    if not np.isfinite(cutoff):
        return Focus(
            bound=0.0,
            period_min=relaxation.least_period(),
            period_max=np.inf,
            keep=tuple(np.arange(cluster.count) for cluster in relaxation.clusters),
        )
    bound, low_end, high_end = np.inf, np.inf, 0.0
    keep = [np.zeros(cluster.count, dtype=bool) for cluster in relaxation.clusters]
    for low, high in _intervals(relaxation, microbatches, FINE, cutoff):
        value = float(_value(relaxation, microbatches, low, high)[stages])
        bound = min(bound, value)
        if value > cutoff:
            continue
        low_end, high_end = min(low_end, low), max(high_end, high)
        rest = (microbatches - 1) * low + relaxation.least_sync
        for kept, fill in zip(
            keep, relaxation.option_fill(high, [stages]), strict=True
        ):
            kept |= fill[0] + rest <= cutoff
    if not np.isfinite(bound) or bound > cutoff:
        bound = max(bound, np.nextafter(cutoff, np.inf))
    return Focus(
        bound=bound,
        period_min=low_end,
        period_max=high_end,
        keep=tuple(np.flatnonzero(kept) for kept in keep),
    )


def _value(
    relaxation: Relaxation, microbatches: int, low: float, high: float
) -> NDArray[np.float64]:
    fill = relaxation.fill(high, roles=True)
    return fill + (microbatches - 1) * low + relaxation.least_sync


def _intervals(
    relaxation: Relaxation, microbatches: int, ratio: float, cutoff: float
) -> Iterator[tuple[float, float]]:
    """Intervals of lambda that hold every plan within the cutoff, upwards."""
    low = relaxation.least_period()
    if not np.isfinite(low):
        return
    if microbatches == 1:
        yield low, np.inf
        return
    while (microbatches - 1) * low <= cutoff:
        yield low, low * ratio
        low *= ratio
