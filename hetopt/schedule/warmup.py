"""Warm-up counts that a schedule prescribes (MODEL.md section 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.schedule.chunks import held_ahead
from hetopt.schedule.schedules import rule_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.problem.training.choices import ScheduleName


def warmup_counts(
    schedule: ScheduleName,
    *,
    microbatches: int,
    crosses: Sequence[bool],
    round_trip_ns: Sequence[int],
    transfer_ns: Sequence[int],
    chunks: int = 1,
    epsilon: float | None = None,
) -> tuple[int, ...]:
    """Return the warm-up count W of every stage, first stage first.

    The last stage has 1, plus what every stage runs ahead if stages hold several
    chunks, and each other stage has ``delta`` more than the next (HAPT, Eq. 1); every
    stage has q if all forwards come first.

    Parameters
    ----------
    microbatches
        q. Counts may exceed it: memory and the simulator cut them to q, the period
        does not.
    crosses
        Whether each boundary joins two clusters; length p - 1.
    round_trip_ns
        tau of each stage; length p.
    transfer_ns
        kappa of each boundary; length p - 1.
    chunks
        v, chunks per stage; if there are several, counts are of passes.
    epsilon
        ``warmup_epsilon`` of a schedule that has one; None: its default.

    Raises
    ------
    ValueError
        If the schedule is unknown or free, or the lengths do not fit.
    """
    stages = len(round_trip_ns)
    if not stages or not len(crosses) == len(transfer_ns) == stages - 1:
        msg = (
            f"{stages} stages, {len(crosses)} crossings and {len(transfer_ns)} "
            "transfers, expected one stage more than there are boundaries"
        )
        raise ValueError(msg)
    rule = rule_of(schedule, epsilon)
    if rule.free:
        msg = f"schedule {schedule} prescribes no warm-up counts"
        raise ValueError(msg)
    if rule.all_first:
        return (microbatches,) * stages
    longest = max(*round_trip_ns, *transfer_ns, 0)
    counts = [1 + (stages if rule.folded else held_ahead(stages, chunks))]
    for kappa, crossing in zip(reversed(transfer_ns), reversed(crosses), strict=True):
        counts.append(counts[-1] + rule.delta(kappa, longest, crosses=crossing))
    return tuple(reversed(counts))
