"""Iteration time in closed form."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from hetopt.schedule.chunk_paths import path_bound_ns
from hetopt.schedule.period import period_by_recursion

if TYPE_CHECKING:
    from hetopt.schedule.times import PipelineTimes


def closed_form_ns(times: PipelineTimes) -> Fraction:
    """Return the iteration time in closed form (after HAPT, Eq. 13).

        T = sum of tau_i + 2 * sum of kappa_i + (q - 1) * lambda + max g_i

    gpipe, and any plan that runs all forwards first, has, instead of lambda, the
    slowest forward plus the slowest backward, each at least the largest omega
    (MODEL.md section 4). If gradients of weights run later, each taking w_i, they fill
    idle time:

        T = sum of (tau_i - 2 w_i) + 2 * sum of kappa_i + (q - 1) * lambda
            + max (g_i + 2 w_i)

    With folded stages (``hetopt.schedule.orders``) tau and kappa are sums over both
    chunks, and

        T = sum of (x_i + 2 kappa_i) + (q - 1) * lambda + max (g_i + tau_i - x_i)

    with x_i the largest of B / 2, B - w and forward - B / 2, unit by unit.

    If q_l micro-batches have sequences of length l, the pipeline is filled by those of
    the longest, L:

        T = (sum of tau_i + 2 * sum of kappa_i)(L) - lambda(L) + sum of q_l lambda(l)
            + max g_i

    With several chunks a stage it is the longest of some paths through the events
    (``hetopt.schedule.chunk_paths``), which no simulated time is below.

    Otherwise an estimate, not a bound on the simulated time. Deviations from HAPT: HAPT
    has max tau in place of lambda, which is right only if every transfer is hidden, and
    no gradient synchronisation.

    Raises
    ------
    ValueError
        If warm-up counts rise downstream (not for gpipe).
    """
    if times.chunks is not None:
        return Fraction(path_bound_ns(times))
    if times.mixed:
        first = replace(times.mixed[0], microbatches=1)
        periods = [period_by_recursion(each) for each in times.mixed]
        pairs = zip(times.mixed, periods, strict=True)
        paced = sum(each.microbatches * period for each, period in pairs)
        return closed_form_at(first, periods[0]) - periods[0] + paced
    if not times.has_steady_state:
        return closed_form_at(times, Fraction(gpipe_pace_ns(times)))
    return closed_form_at(times, period_by_recursion(times))


def closed_form_at(times: PipelineTimes, period_ns: Fraction) -> Fraction:
    """Return the closed form for a given period or gpipe pace; it rises with it.

    With v chunks a stage, what programs minimise, for a plan to start from: with the
    times of one pass and q v of them instead of q, that of eager-1f1b.
    """
    fill = sum(times.round_trip_ns) + 2 * sum(times.transfer_ns)
    later = [2 * weight for weight in times.later_ns]
    if times.fold is not None:
        both = zip(times.round_trip_ns, times.fold.fill_ns, strict=True)
        later = [tau - filled for tau, filled in both]
    fill -= sum(later)
    end = max(map(sum, zip(times.sync_ns, later, strict=True)))
    return fill + (times.periods - 1) * period_ns + end


def gpipe_pace_ns(times: PipelineTimes) -> int:
    """Return the time that each further micro-batch adds if all forwards come first."""
    slowest_link = max(times.occupancy_ns, default=0)
    return max(*times.forward_ns, slowest_link) + max(*times.backward_ns, slowest_link)
