"""Warm-ups, closed form and simulation of one pipeline, written to be read.

Symbols as in MODEL.md section 4: tau = forward + backward, kappa and omega the
transfer and occupancy of a boundary, W warm-ups, lambda the period.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.problem.training import ScheduleName


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Whole nanoseconds: p stages, p - 1 boundaries, q micro-batches."""

    schedule: ScheduleName
    microbatches: int
    forward: tuple[int, ...]
    backward: tuple[int, ...]
    transfer: tuple[int, ...]
    occupancy: tuple[int, ...]
    sync: tuple[int, ...]

    @property
    def both(self) -> tuple[int, ...]:
        """Forward plus backward of every stage."""
        return tuple(f + b for f, b in zip(self.forward, self.backward, strict=True))


def warmups(times: Times, clusters: Sequence[str]) -> tuple[int, ...]:
    """Return the warm-up count of every stage that the schedule prescribes.

    Parameters
    ----------
    clusters
        Of every stage; only ``virtual-1f1b`` looks at them.
    """
    if times.schedule == "gpipe":
        return (times.microbatches,) * len(clusters)
    slowest = max(*times.both, *times.transfer, 0)
    counts = [1]
    for i in reversed(range(len(clusters) - 1)):
        if times.schedule == "1f1b":
            step = 1
        elif times.schedule == "eager-1f1b":
            step = 2
        elif times.schedule == "virtual-1f1b":
            step = 1 if clusters[i] == clusters[i + 1] else 2
        elif 100 * times.transfer[i] <= slowest:
            step = 1
        else:  # HAPT Eq. 1, 2 and 10: ceil(1 + 2 kappa / lambda_0)
            step = 1 - (-2 * times.transfer[i] // slowest)
        counts.append(counts[-1] + step)
    return tuple(reversed(counts))


def closed_form(times: Times, counts: Sequence[int]) -> Fraction:
    """Return the closed form in nanoseconds, exactly (MODEL.md section 4)."""
    fill = sum(times.both) + 2 * sum(times.transfer) + max(times.sync)
    slowest = max(times.occupancy, default=0)
    all_first = times.schedule == "auto" and min(counts) >= times.microbatches
    if times.schedule == "gpipe" or all_first:
        steady = Fraction(max(*times.forward, slowest) + max(*times.backward, slowest))
    else:
        steady = Fraction(max(*times.both, slowest))
        for i in range(len(counts)):
            length = times.both[i]
            for k in range(i + 1, len(counts)):
                length += 2 * times.transfer[k - 1] + times.both[k]
                steady = max(steady, Fraction(length, counts[i] - counts[k] + 1))
    return fill + (times.microbatches - 1) * steady


def simulate(times: Times, counts: Sequence[int]) -> int:
    """Return the end of the last stage's synchronisation, in nanoseconds.

    Every stage runs its passes in the schedule's order, each as soon as the pass
    before it and its input allow. A boundary sends one way without disturbing the
    other; a transfer starts at the earliest one occupancy after the one before it
    and arrives one transfer time later.

    Parameters
    ----------
    counts
        Warm-ups per stage, not increasing along the pipeline.
    """
    p, q = len(counts), times.microbatches
    orders = [_passes(min(count, q), q) for count in counts]
    done = [0] * p  # passes each stage has run
    free = [0] * p  # when the stage is free again
    # when the m-th activations (gradients) reach a stage; the ends wait for nobody
    activations: list[list[int]] = [[0] * q, *([] for _ in range(p - 1))]
    gradients: list[list[int]] = [[] for _ in range(p)]
    down, up = _Wires(times), _Wires(times)
    left = 2 * p * q
    while left:
        before = left
        for i in range(p):
            while done[i] < 2 * q:
                backward, m = orders[i][done[i]]
                inbox = gradients[i] if backward else activations[i]
                if m >= len(inbox):
                    break
                length = times.backward[i] if backward else times.forward[i]
                free[i] = max(free[i], inbox[m]) + length
                if backward and i > 0:
                    gradients[i - 1].append(up.send(i - 1, free[i]))
                elif not backward and i < p - 1:
                    activations[i + 1].append(down.send(i, free[i]))
                elif not backward:
                    gradients[i].append(free[i])
                done[i] += 1
                left -= 1
        if left == before:
            msg = f"warm-ups {tuple(counts)} block each other"
            raise ValueError(msg)
    return max(end + g for end, g in zip(free, times.sync, strict=True))


class _Wires:
    """All boundaries in one direction."""

    def __init__(self, times: Times) -> None:
        self.times = times
        self.ready = [0] * len(times.transfer)

    def send(self, boundary: int, now: int) -> int:
        """Send what is ready now; return when it arrives."""
        start = max(now, self.ready[boundary])
        self.ready[boundary] = start + self.times.occupancy[boundary]
        return start + self.times.transfer[boundary]


def _passes(count: int, q: int) -> list[tuple[bool, int]]:
    """Return (backward?, micro-batch) in order: F_1..F_W, B_1, F_W+1, B_2, ..."""
    order = [(False, m) for m in range(count)]
    for m in range(q):
        order.append((True, m))
        if count + m < q:
            order.append((False, count + m))
    return order
