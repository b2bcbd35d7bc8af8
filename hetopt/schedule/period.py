"""The period: exact time between two micro-batches in the steady state.

The event graph of a schedule repeats; its maximum cycle ratio is (MODEL.md
section 4)

    lambda = max( max tau_i, max omega_i, max over windows i < k of
        [sum of tau_i..tau_k + 2 * sum of kappa_i..kappa_(k-1)] / (W_i - W_k + 1) )

A window's cycle runs forward from stage i to k and back: stage k runs the backward
of a micro-batch W_k - 1 places behind the forward it just ended, and stage i then
starts a forward W_i places ahead of that backward. Warm-up counts are not cut to q.

If transfers block (``ScheduleRule.blocking``, chi), a stage is also busy with those at
both of its boundaries (MODEL.md section 4):

    lambda = max( max omega_i, max over i of tau_i + chi (kappa_(i-1) + kappa_i) )

No window exceeds it, as a window's ratio is at most the mean of such terms.

If gradients of weights run later and take w_i of tau_i, only the first stage of a
window runs one within it, because gradients of inputs are sent on first. The w of the
other stages is not in the window:

    [sum of tau_i..tau_k - sum of w_(i+1)..w_k + 2 * sum of kappa_i..kappa_(k-1)]
        / (W_i - W_k + 1)

If stages are folded (``hetopt.schedule.orders``), times are sums over both chunks, and
each other stage adds the longer of forward and B to a window: a way up the pipeline and
down again takes two of a stage's four passes, either of one kind or of one chunk.

With v chunks a stage (``hetopt.schedule.orders``), all times are of one pass.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

from hetopt.schedule.schedules import rule_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.schedule.times import PipelineTimes


def period_by_recursion(times: PipelineTimes) -> Fraction:
    """Return the period in nanoseconds by Newton's method on a recursion.

    A period is long enough if every omega <= lambda and, with
    delta_k = W_k - W_(k+1),

        E_1 = tau_1,  E_(k+1) = tau_(k+1) + max(0, E_k + 2 kappa_k - delta_k lambda)

    never exceeds lambda (MODEL.md section 4); if gradients of weights run later,
    w_(k+1) is subtracted inside the maximum. E is the delay that a stage inherits from
    slow neighbours before it. If it exceeds lambda, the window that it adds up gives a
    ratio that is larger and still at most the period sought, so a few rounds of O(p)
    reach the period exactly (Dinkelbach's method).

    Raises
    ------
    ValueError
        For gpipe, which has no steady state, and for warm-up counts that rise
        downstream, which deadlock.
    """
    if rule_of(times.schedule).all_first:
        msg = f"{times.schedule} has no steady state and so no period"
        raise ValueError(msg)
    check_warmups_fall(times.warmups)
    if rule_of(times.schedule).blocking:
        return Fraction(max(*_blocked_ns(times), *times.occupancy_ns, 0))
    period = Fraction(max(*times.round_trip_ns, *times.occupancy_ns, 0))
    while (ratio := _violated_window(times, period)) is not None:
        period = ratio
    return period


def _blocked_ns(times: PipelineTimes) -> list[int]:
    """Return each stage's time to compute and transfer one micro-batch."""
    chi, kappa = rule_of(times.schedule).blocking, [0, *times.transfer_ns, 0]
    return [
        tau + chi * (before + after)
        for tau, (before, after) in zip(
            times.round_trip_ns, pairwise(kappa), strict=True
        )
    ]


def _violated_window(times: PipelineTimes, period: Fraction) -> Fraction | None:
    """Return the largest ratio over windows with E > period; None if there is none.

    Follows the recursion and keeps the window that E adds up: its length and the
    warm-up counts it spans.
    """
    # Everything is multiplied by the denominator, so that the recursion uses integers.
    limit, scale = period.numerator, period.denominator
    deltas = [here - after for here, after in pairwise(times.warmups)]
    if times.fold is not None:
        deltas = [rule_of(times.schedule).inside] * (times.stages - 1)
    worst: Fraction | None = None
    length = shift = 0
    apart = times.later_ns
    if times.fold is not None:
        both = zip(times.round_trip_ns, times.fold.handed_on_ns, strict=True)
        apart = tuple(tau - inside for tau, inside in both)
    for stage, duration in enumerate(times.round_trip_ns):
        if stage:
            length += 2 * times.transfer_ns[stage - 1] - apart[stage]
            shift += deltas[stage - 1]
            if length * scale <= shift * limit:
                length = shift = 0
        length += duration
        if length * scale > (shift + 1) * limit:
            ratio = Fraction(length, shift + 1)
            worst = ratio if worst is None else max(worst, ratio)
    return worst


def check_warmups_fall(warmups: Sequence[int]) -> None:
    """Raise ValueError if a stage has more warm-ups than the stage before it.

    Such a stage waits for a forward that the stage before it starts only after a
    backward of that same stage: a deadlock.
    """
    for stage, (before, here) in enumerate(pairwise(warmups), 1):
        if here > before:
            msg = (
                f"the schedule deadlocks: stage {stage} warms up with {here} "
                f"forwards, stage {stage - 1} before it with {before}; "
                "warm-ups may not rise downstream"
            )
            raise ValueError(msg)
