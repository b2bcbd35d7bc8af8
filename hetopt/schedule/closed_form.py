"""Iteration time in closed form, and lower bounds on the simulated one."""

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


def path_bound_ns(times: PipelineTimes) -> int:
    """Return the longest of the path cuts: a lower bound on the simulated time.

    For every stage i, two paths in the event graph (MODEL.md section 4, end):

    - the first micro-batch travels to i, which then runs all q forwards and
      backwards; the last gradient travels back:
      sum over j < i of (tau_j + 2 kappa_j) + q * tau_i;
    - the first micro-batch travels to the last stage and back to i, which then
      runs the forwards past its warm-up and all other backwards:
      sum over all j of (tau_j + 2 kappa_j) + (q - min(W_i, q)) * phi_i
      + (q - 1) * beta_i.

    MODEL.md's cuts end with the last backward of the first stage. Here the way
    back may also end at any stage k <= i with its g_k, whichever is longest, which
    is never a weaker bound.
    """
    microbatches = times.microbatches
    transfer = (*times.transfer_ns, 0)
    # Way there: first forward reaches stage i. Turn: from the end of stage i's
    # first forward to the start of its first backward, through the last stage.
    there = 0
    turn = sum(times.round_trip_ns) + 2 * sum(transfer)
    # Way back: from the end of stage i's last backward to the end of everything.
    back = times.sync_ns[0]
    longest = 0
    for stage, inflight in enumerate(times.inflight):
        forward, backward = times.forward_ns[stage], times.backward_ns[stage]
        turn -= forward + backward
        local = microbatches * (forward + backward)
        around = (
            forward
            + turn
            + (microbatches - inflight) * forward
            + microbatches * backward
        )
        longest = max(longest, there + max(local, around) + back)
        if stage + 1 < times.stages:
            hop = transfer[stage]
            turn -= 2 * hop
            there += forward + hop
            back = max(times.sync_ns[stage + 1], back + backward + hop)
    return longest
