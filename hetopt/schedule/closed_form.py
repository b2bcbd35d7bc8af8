"""Iteration time in closed form."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from hetopt.schedule.period import period_by_recursion

if TYPE_CHECKING:
    from hetopt.schedule.times import PipelineTimes


def closed_form_ns(times: PipelineTimes) -> Fraction:
    """Return the iteration time the programs minimise (after HAPT, Eq. 13).

        T = sum of tau_i + 2 * sum of kappa_i + (q - 1) * lambda + max g_i

    gpipe, and whatever else runs all forwards first, has, instead of lambda, the
    slowest forward plus the slowest backward, each at least the largest omega
    (MODEL.md section 4). An estimate, not a bound
    on the simulated time. Deviations from HAPT: its T has max tau, which is right
    only where every transfer is hidden, for lambda, and no gradient
    synchronisation.

    Raises
    ------
    ValueError
        If warm-up counts rise downstream (not for gpipe).
    """
    fill = sum(times.round_trip_ns) + 2 * sum(times.transfer_ns)
    if not times.has_steady_state:
        period = Fraction(gpipe_pace_ns(times))
    else:
        period = period_by_recursion(times)
    return fill + (times.microbatches - 1) * period + max(times.sync_ns)


def gpipe_pace_ns(times: PipelineTimes) -> int:
    """Return what a micro-batch adds where all forwards come first."""
    slowest_link = max(times.occupancy_ns, default=0)
    return max(*times.forward_ns, slowest_link) + max(*times.backward_ns, slowest_link)
