"""Folded pipelines (ZB-V) for the oracle: what they hold, cost, and when they run.

After PyTorch's own counting. Nothing here is shared with hetopt.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@cache
def operations(p: int, q: int, i: int) -> list[tuple[str, int, int]]:
    """("F", "B" or "W", chunk, micro-batch) of stage i, in order."""
    n = max(2 * p - 1, q)
    done = {kind + str(chunk): 0 for kind in "FBW" for chunk in (0, 1)}
    listed: list[tuple[str, int, int]] = []

    def run(*names: str) -> None:
        for name in names:
            listed.append((name[0], int(name[1]), done[name]))
            done[name] += 1

    for _ in range(2 * (p - i) - 1):
        run("F0")
    for _ in range(i):
        run("F1", "F0")
    for _ in range(p - i):
        run("F1", "B1", "W1")
    while done["F1"] < done["F0"] or done["F0"] < n:
        if done["F0"] < n:
            run("F0")
        run("B0", "W0", "F1", "B1", "W1")
    for _ in range(i):
        run("B0", "B1")
    for _ in range(p - i):
        run("B0", "W0")
    while done["W1"] < done["B1"]:
        run("W1")
    while done["W0"] < done["B0"]:
        run("W0")
    return [each for each in listed if each[2] < q]


def most_bytes(
    p: int, q: int, i: int, kept: tuple[int, int], waits: tuple[int, int]
) -> int:
    """Most that a pair of units on stage i holds, by the order of passes.

    ``kept`` and ``waits``: bytes of a micro-batch on either chunk until its B, and then
    until its W. While B runs it takes the larger of both.
    """
    held = most = 0
    for kind, chunk, _ in operations(p, q, i):
        if kind == "F":
            held += kept[chunk]
        elif kind == "B":
            most = max(most, held - kept[chunk] + max(kept[chunk], waits[chunk]))
            held += waits[chunk] - kept[chunk]
        else:
            held -= waits[chunk]
        most = max(most, held)
    return most


def closed_form(
    q: int,
    pairs: Sequence[Sequence[tuple[int, int, int]]],
    kappa: Sequence[int],
    omega: Sequence[int],
    sync: Sequence[int],
) -> tuple[int, Fraction]:
    """Return the value plans are ranked by, and the exact closed form.

    Parameters
    ----------
    pairs
        F, B and W of every pair of units on each stage, both chunks together.
    kappa, omega
        Of both chunks together.
    """
    p = len(pairs)
    tau = [sum(map(sum, own)) for own in pairs]
    fill = [sum(_fill(*each) for each in own) for own in pairs]
    inside = [sum(max(f, b) for f, b, _ in own) for own in pairs]
    period = Fraction(max(*tau, *omega, 0))
    for i in range(p):
        for k in range(i, p):
            length = tau[i] + sum(inside[i + 1 : k + 1]) + 2 * sum(kappa[i:k])
            period = max(period, Fraction(length, k - i + 1))
    end = max(sync[i] + tau[i] - fill[i] for i in range(p))
    rest = sum(fill) + 2 * sum(kappa) + end
    rounded_up = -(-period.numerator // period.denominator)
    return rest + (q - 1) * rounded_up, rest + (q - 1) * period


def _fill(f: int, b: int, w: int) -> int:
    return max(-(-b // 2), b - w, f - b // 2)
