"""The checker's gradients of weights that run later (ZB-H1), for readability.

The backward pass of a stage is B, which sends a gradient on, and w, which nothing waits
for. Stage i, counted from 0, runs the w of a micro-batch after the B that comes i
micro-batches later, and the remaining ones after its last B.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def split_passes(i: int, warm: int, q: int) -> list[tuple[str, int]]:
    """Return kind and micro-batch of the passes of stage i, in order.

    Parameters
    ----------
    warm
        Forwards before its first backward, at most q.
    """
    listed = [("forward", m) for m in range(warm)]
    for m in range(q):
        listed.append(("backward", m))
        if m - i >= 0:
            listed.append(("weight", m - i))
        if warm + m < q:
            listed.append(("forward", warm + m))
    listed += [("weight", m) for m in range(max(q - i, 0), q)]
    return listed


def split_bytes(kept: int, waits: int, warm: int, p: int, q: int) -> int:
    """Return the bytes that one unit of a stage holds for all its micro-batches.

    Parameters
    ----------
    kept, waits
        Bytes of a micro-batch until B, and from then on until w.
    warm
        Forwards before its first backward.
    """
    before = min(warm, q)
    # While B runs, one of these may already hold what waits for w.
    return before * max(kept, waits) + (min(p, q) - before) * waits


def split_closed_form(
    both: Sequence[int],
    later: Sequence[int],
    transfer: Sequence[int],
    slowest: int,
    sync: Sequence[int],
    steps: int,
) -> Fraction:
    """Return the closed form in nanoseconds, exactly (MODEL.md section 4).

    Parameters
    ----------
    both, later
        Forward plus backward of each stage, and the part of it that is w.
    slowest
        The longest occupancy of a boundary.
    steps
        q - 1.
    """
    p = len(both)
    steady = Fraction(max(*both, slowest))
    for i in range(p):
        length = both[i]
        for k in range(i + 1, p):
            length += 2 * transfer[k - 1] + both[k] - later[k]
            steady = max(steady, Fraction(length, k - i + 1))
    fill = sum(both) - 2 * sum(later) + 2 * sum(transfer)
    end = max(g + 2 * w for g, w in zip(sync, later, strict=True))
    return fill + end + steps * steady
