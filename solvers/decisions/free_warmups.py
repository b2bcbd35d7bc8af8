"""Warm-up counts if the schedule does not prescribe them (``auto``).

*For one lambda.* Lambda is feasible exactly when every window i..k fits (MODEL.md
section 4), that is, when

    W_i >= W_k + ceil(S_ik / lambda) - 1,  S_ik = sum of tau_i..tau_k + 2 kappa_i..

These are lower bounds on differences, as is W_i >= W_(i+1), so with W_p = 1 there
is a vector that is least in every component at once. It takes the least memory, has
the least sum, and is lexicographically smallest. From the last stage on, with
E_p = tau_p,

    delta_i = max(0, ceil((E_(i+1) + 2 kappa_i + tau_i) / lambda) - 1)
    E_i = max(tau_i, E_(i+1) + 2 kappa_i + tau_i - delta_i lambda)

As E <= lambda and tau <= lambda, no delta exceeds 1 + ceil(2 kappa / lambda): with
that many E_i is tau_i already, and more cannot lower it.

*Which lambda.* With a longer lambda no stage needs more warm-ups, so the least lambda
whose vector fits into memory is found by bisection. If every stage has room for all q
micro-batches, W_i = q for all i is the alternative: all forwards first, with gpipe's
closed form.

*A total order of (W, E).* (W, E) of one stage is as good as (W', E') for every earlier
stage if W < W', or if W = W' and E <= E': one more warm-up at the next boundary lowers
E by lambda, that is, to nothing. The dynamic program compares labels that way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.schedule.closed_form import gpipe_pace_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.schedule.times import PipelineTimes


def most_in_flight(usable: int, base: int, each: int, microbatches: int) -> int:
    """Return how many micro-batches fit on a stage, at most q.

    Parameters
    ----------
    usable, base, each
        Bytes of memory, of the stage without activations, and of one micro-batch.
    """
    if base + microbatches * each <= usable:
        return microbatches
    # Micro-batches without bytes do not fit either if ``base`` exceeds the memory.
    return max(0, (usable - base) // each) if each else 0


def least_warmups(times: PipelineTimes, period: int) -> tuple[int, ...]:
    """Return the least warm-up counts at a lambda in 1 / PERIOD_SCALE ticks.

    Lambda must be at least every tau.
    """
    round_trip, transfer = times.round_trip_ns, times.transfer_ns
    warmup, excess = 1, PERIOD_SCALE * round_trip[-1]
    counts = [1]
    for stage in range(times.stages - 2, -1, -1):
        own = PERIOD_SCALE * round_trip[stage]
        excess += own + 2 * PERIOD_SCALE * transfer[stage]
        delta = max(0, -(-excess // period) - 1) if period else 0
        warmup += delta
        excess = max(own, excess - delta * period)
        counts.append(warmup)
    return tuple(reversed(counts))


def steady_warmups(
    times: PipelineTimes, most: Sequence[int]
) -> tuple[int, tuple[int, ...]] | None:
    """Return the least lambda, in 1 / PERIOD_SCALE ticks, and its least warm-up counts.

    None if W = 1 does not fit on every stage.

    Parameters
    ----------
    times
        Its own warm-up counts are ignored.
    most
        Micro-batches that fit on each stage, at most q.
    """
    if min(most) < 1:
        return None

    def fits(period: int) -> bool:
        return all(
            min(warmup, times.microbatches) <= room
            for warmup, room in zip(least_warmups(times, period), most, strict=True)
        )

    low = PERIOD_SCALE * max(*times.round_trip_ns, *times.occupancy_ns, 0)
    # With lambda the whole pipeline's round trip, W = 1 is enough on every stage.
    high = PERIOD_SCALE * (sum(times.round_trip_ns) + 2 * sum(times.transfer_ns))
    if times.microbatches == 1:
        return high, (1,) * times.stages
    if fits(low):
        return low, least_warmups(times, low)
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle
    return high, least_warmups(times, high)


def free_warmups(times: PipelineTimes, most: Sequence[int]) -> tuple[int, ...] | None:
    """Return the warm-up counts of the least closed form; None if none fit.

    Among equals, the one with the least sum, then the lexicographically smallest.
    Closed forms are compared with lambda rounded up to 1 / PERIOD_SCALE ticks.

    Parameters
    ----------
    times, most
        As in ``steady_warmups``.
    """
    steady = steady_warmups(times, most)
    if steady is None or times.microbatches == 1:
        return None if steady is None else steady[1]
    found = [steady]
    if min(most) == times.microbatches:
        pace = PERIOD_SCALE * gpipe_pace_ns(times)
        found.append((pace, (times.microbatches,) * times.stages))
    return min(found, key=lambda pair: (pair[0], sum(pair[1]), pair[1]))[1]
