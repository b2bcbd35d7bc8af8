"""Gradients of weights that run later, for the oracle: what they cost and hold.

With phi, B and w of every stage (B + w is the backward pass). Nothing here is shared
with hetopt.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


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
