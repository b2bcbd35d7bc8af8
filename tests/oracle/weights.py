"""Gradients of weights that run later, for the oracle: what they cost and hold.

With phi, B and w of every stage (B + w is the backward pass). Nothing here is shared
with hetopt.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable


def weights(
    table: CostTable, part: TableSlice, host: tuple[int, int], first: int, end: int
) -> int:
    """W of a stage, in nanoseconds."""
    own, k = part.clusters[host[0]], host[1]
    assert own.weight_ns is not None
    return sum(int(own.weight_ns[k, kind]) for kind in table.units[first:end])


def memory(
    table: CostTable,
    part: TableSlice,
    host: tuple[int, int],
    units: tuple[int, int],
    counts: tuple[int, int],
) -> int:
    """Bytes a stage needs on each device.

    ``counts``: micro-batches between forward and backward, and of those whose gradients
    of weights wait. One of the former may turn into one of the latter at any time.
    """
    own, k = part.clusters[host[0]], host[1]
    assert own.weight_bytes is not None
    held, waiting = counts
    total, peak = int(own.fixed_bytes[k]), 0
    for kind in table.units[units[0] : units[1]]:
        kept, waits = int(own.activation_bytes[k, kind]), int(own.weight_bytes[k, kind])
        total += int(own.state_bytes[k, kind]) + held * max(kept, waits)
        total += waiting * waits
        peak = max(peak, int(own.temporary_bytes[k, kind]))
    return total + peak


def closed_form(
    q: int,
    forward: Sequence[int],
    backward: Sequence[int],
    later: Sequence[int],
    kappa: Sequence[int],
    omega: Sequence[int],
    sync: Sequence[int],
) -> tuple[int, Fraction]:
    """Return the value plans are ranked by, and the exact closed form.

    ``backward`` with all gradients, ``later`` what of it are those of weights.
    """
    p = len(forward)
    before = [backward[i] - later[i] for i in range(p)]
    fill = sum(forward) + 2 * sum(kappa)
    fill += sum(before[i] - later[i] for i in range(p))
    end = max(sync[i] + 2 * later[i] for i in range(p))
    period = Fraction(max(*(forward[i] + backward[i] for i in range(p)), *omega, 0))
    for i in range(p):
        for k in range(i, p):
            # From a forward on stage i to k, back, and the gradients of its weights.
            length = later[i] + 2 * sum(kappa[i:k])
            length += sum(forward[n] + before[n] for n in range(i, k + 1))
            period = max(period, Fraction(length, k - i + 1))
    rounded_up = -(-period.numerator // period.denominator)
    return fill + (q - 1) * rounded_up + end, fill + (q - 1) * period + end
