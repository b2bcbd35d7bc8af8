"""The closed form of a schedule (MODEL.md, section 4)."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from hetopt.check.plan.schedule.chunk_paths import longest_path
from hetopt.check.plan.schedule.schedules import STEPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.check.plan.schedule.times import Times


def closed_form(each: Sequence[Times], counts: Sequence[int]) -> Fraction:
    """Return the closed form in nanoseconds, exactly (MODEL.md section 4).

    Parameters
    ----------
    each
        Times of the micro-batches of each length, the longest first.
    counts
        Warm-ups per stage.
    """
    times, p = each[0], len(counts)
    if STEPS[times.schedule].interleaved:
        return Fraction(longest_path(times))
    periods = [_period(own, counts) for own in each]
    filled = times.filled or times.without(2)
    fill = sum(filled) + 2 * sum(times.transfer[: p - 1])
    ends = zip(times.sync, times.both, filled, strict=True)
    end = max(g + tau - early for g, tau, early in ends)
    pairs = zip(each, periods, strict=True)
    paced = sum(own.microbatches * period for own, period in pairs)
    return fill + paced - periods[0] + end


def _period(times: Times, counts: Sequence[int]) -> Fraction:
    """Return lambda, or what takes its place if all forwards come first."""
    p, tau, rule = len(counts), times.both, STEPS[times.schedule]
    kappa, slowest = times.transfer[: p - 1], max(times.occupancy[: p - 1], default=0)
    if rule.all_first or (rule.free and min(counts) >= times.microbatches):
        phases = times.forward[0], times.backward[0]
        return Fraction(sum(max(*own, slowest) for own in phases))
    if rule.blocking:
        sides = zip(tau, (0, *kappa), (*kappa, 0), strict=True)
        busy = (both + rule.blocking * (up + down) for both, up, down in sides)
        return Fraction(max(*busy, slowest))
    handed, steady = times.handed or times.without(1), Fraction(max(*tau, slowest))
    for i in range(p):
        length = tau[i]
        for k in range(i + 1, p):
            length += 2 * kappa[k - 1] + handed[k]
            ahead = k - i if rule.room else counts[i] - counts[k]
            steady = max(steady, Fraction(length, ahead + 1))
    return steady
