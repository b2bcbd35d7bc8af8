"""Warm-up counts of the five schedules (MODEL.md section 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.problem.training import ScheduleName

#: HAPT's epsilon (Eq. 2) is 1 / this: boundaries as quick as that count as free.
FREE_TRANSFER_DIVISOR = 100


def warmup_counts(
    schedule: ScheduleName,
    *,
    microbatches: int,
    crosses: Sequence[bool],
    round_trip_ns: Sequence[int],
    transfer_ns: Sequence[int],
) -> tuple[int, ...]:
    """Return the warm-up count W of every stage, first stage first.

    The last stage has 1 and each stage ``delta`` more than the next (HAPT, Eq. 1);
    gpipe has q everywhere.

    Parameters
    ----------
    microbatches
        q; only gpipe depends on it. Other counts may exceed it: memory and the
        simulator cut them, the period does not.
    crosses
        Whether each boundary joins two clusters; length p - 1.
    round_trip_ns
        tau of each stage; length p.
    transfer_ns
        kappa of each boundary; length p - 1.

    Raises
    ------
    ValueError
        If the schedule is unknown or the lengths do not fit.
    """
    stages = len(round_trip_ns)
    if not stages or not len(crosses) == len(transfer_ns) == stages - 1:
        msg = (
            f"{stages} stages, {len(crosses)} crossings and {len(transfer_ns)} "
            "transfers, expected one stage more than there are boundaries"
        )
        raise ValueError(msg)
    match schedule:
        case "gpipe":
            return (microbatches,) * stages
        case "1f1b":
            deltas = [1] * (stages - 1)
        case "eager-1f1b":
            deltas = [2] * (stages - 1)
        case "virtual-1f1b":
            deltas = [2 if crossing else 1 for crossing in crosses]
        case "h-1f1b":
            longest = max(*round_trip_ns, *transfer_ns, 0)
            deltas = [_hapt_delta(transfer, longest) for transfer in transfer_ns]
        case "auto":
            msg = "schedule auto prescribes no warm-up counts"
            raise ValueError(msg)
        case _:
            msg = f"unknown schedule {schedule!r}"
            raise ValueError(msg)
    counts = [1]
    for delta in reversed(deltas):
        counts.append(counts[-1] + delta)
    return tuple(reversed(counts))


def _hapt_delta(transfer_ns: int, longest_ns: int) -> int:
    """Return delta of HAPT's Eq. 2, which is ceil(1 + 2 kappa / lambda_0).

    HAPT assumes kappa <= max tau; with ``longest_ns`` = max(max tau, max kappa)
    (MODEL.md's deviation) that always holds, so 3 is the most there is. Integer
    comparisons keep it exact.
    """
    if FREE_TRANSFER_DIVISOR * transfer_ns <= longest_ns:
        return 1
    return 2 if 2 * transfer_ns <= longest_ns else 3
