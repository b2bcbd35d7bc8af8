"""Lower bounds on the simulated time, for the search for the least.

With F the fill, the sum of all tau and 2 kappa, three families of paths through the
event graph bound the simulated time of a plan (the first two are in MODEL.md
section 4). ``w`` is min(W, q); every path ends with g of the first stage.

- One stage: the first micro-batch goes to the last stage and comes back to stage i,
  which then runs the forwards past its warm-up and all other backwards:
  F + (q - w_i) phi_i + (q - 1) beta_i.
- A link: it takes q transfers, each omega after the one before: F + (q - 1) omega.
- A window i..k: before a micro-batch goes all the way, r times, a forward goes from i
  to k, the backward of the micro-batch w_k - 1 earlier comes back to i, and the forward
  W_i later than that one may start. With s = w_i - w_k + 1 micro-batches per turn, C
  the sum of tau and 2 kappa inside the window, and w_k + r s <= q:
  F + (w_k - 1) phi_i + r C + (q - w_k - r s) beta_i.

If warm-up counts are free, W is the most that fits into memory beside the
units of the stage, 1 for the last stage (``simulated.warmups``), and windows are not
used.

Under gpipe stage i runs all forwards first and all backwards last, so w = 1 gives a
valid bound: F + (q - 1) tau_i.

So the time is at least the fill and g plus the *excess* of every stage, link and
window. An excess of at most E limits the units of stages and runs, and a dynamic
program over (clusters, stages, units) gives the least fill. Fill falls as E grows,
so the range of E is cut into intervals.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.base.compiled import kernel, step
from hetopt.solvers.arrays.costs import Delta, Edge, Fact, Option, Sum
from hetopt.solvers.arrays.windows import INFINITE

if TYPE_CHECKING:
    from hetopt.solvers.arrays.costs import Costs, Ints


#: Longer than a table's longest time, and small enough to be added up over stages.
_NEVER = INFINITE >> 12


class Least(IntEnum):
    """Rows of what ``shortest`` returns."""

    PHI, BETA, BOTH, HELD, KEPT = range(5)


class Boundary(IntEnum):
    """Columns of warm-ups added at a boundary: inside a run, and between runs."""

    INSIDE, ACROSS = range(2)


class End(IntEnum):
    """Columns of what ``at_ends`` returns, by option.

    SYNC: g of a first stage with this option, without its body units.
    TIED: the least time that tied embeddings add to g of the first stage, if this
    option has the last run and another cluster has the first.
    ALONE: the time they add if one run of several stages is the whole pipeline.
    """

    SYNC, TIED, ALONE = range(3)


class StageLimits(NamedTuple):
    """The most units of stages and runs if no excess is larger than E.

    Attributes
    ----------
    excess
        E in ns.
    caps
        Most body units on the stage at each place from the end, by the number of runs
        after its own; shape (J, O, p + 1).
    inner
        Least kappa inside a run, by option.
    """

    excess: int
    caps: Ints
    inner: Ints


@kernel
def _shortest(sums: Ints, least: Ints) -> None:
    count, size = sums.shape[1:]
    for row in range(5):
        for o in range(count):
            for length in range(1, size):
                best = INFINITE
                for start in range(size - length):
                    end = start + length
                    if row == Least.PHI:
                        worth = sums[Sum.FORWARD, o, end] - sums[Sum.FORWARD, o, start]
                    elif row == Least.BETA:
                        worth = sums[Sum.TAU, o, end] - sums[Sum.TAU, o, start]
                        worth -= sums[Sum.FORWARD, o, end] - sums[Sum.FORWARD, o, start]
                    elif row == Least.BOTH:
                        worth = sums[Sum.TAU, o, end] - sums[Sum.TAU, o, start]
                    elif row == Least.HELD:
                        worth = sums[Sum.STATE, o, end] - sums[Sum.STATE, o, start]
                    else:
                        worth = sums[Sum.ACTIVE, o, end] - sums[Sum.ACTIVE, o, start]
                    best = min(best, worth)
                least[row, o, length] = best


def shortest(sums: Ints) -> Ints:
    """Return the least phi, beta, tau, state and activation bytes of any l body units.

    Shape (5, O, L + 1), from ``Costs.sums``.
    """
    least = np.zeros((5, *sums.shape[1:]), dtype=np.int64)
    _shortest(sums, least)
    return least


@step
def fitting(first: Ints, by: int, second: Ints, times: int, room: int) -> int:
    """Return the largest l with by * first[l] + times * second[l] <= room, or -1."""
    low, high = 0, len(first)
    while low < high:
        middle = (low + high) // 2
        if by * first[middle] + times * second[middle] <= room:
            low = middle + 1
        else:
            high = middle
    return low - 1


@step
def _free_cap(
    costs: Costs, short: Ints, room: int, quick: int, excess: int, o: int, i: int
) -> int:
    """Return the most body units of the i-th stage from the end if W is free.

    Every further unit leaves memory for fewer warm-ups. The last stage has W = 1.
    """
    q = costs.facts[Fact.Q]
    low, high = 0, quick
    while low < high:
        length = (low + high + 1) // 2
        left = room - short[Least.HELD, o, length]
        each = short[Least.KEPT, o, length]
        warmup = 1 if i == 1 else q
        phi, beta = short[Least.PHI, o, length], short[Least.BETA, o, length]
        if i == 1:
            phi += costs.option[o, Option.TRAIL + Sum.FORWARD]
            beta += (
                costs.option[o, Option.TRAIL + Sum.TAU]
                - costs.option[o, Option.TRAIL + Sum.FORWARD]
            )
        if each * warmup > left:
            warmup = left // each if left >= 0 else 0
        if warmup >= 1 and (q - warmup) * phi + (q - 1) * beta <= excess:
            low = length
        else:
            high = length - 1
    return low


@kernel
def _limit(
    costs: Costs,
    short: Ints,
    steps: Ints,
    peak: Ints,
    longest: int,
    excess: int,
    caps: Ints,
) -> None:
    p, q = costs.facts[Fact.P], costs.facts[Fact.Q]
    count, clusters = len(costs.option), len(costs.host)
    for c in range(clusters):
        for o in range(count):
            room = costs.option[o, Option.FREE_BYTES] - peak[o]
            quick = fitting(short[Least.BOTH, o], 1, short[Least.BOTH, o], 0, longest)
            for i in range(c + 1, p + 1):
                light = (
                    1
                    + (i - 1 - c) * steps[Delta.LIGHT, Boundary.INSIDE]
                    + c * steps[Delta.LIGHT, Boundary.ACROSS]
                )
                heavy = (
                    1
                    + (i - 1 - c) * steps[Delta.HEAVY, Boundary.INSIDE]
                    + c * steps[Delta.HEAVY, Boundary.ACROSS]
                )
                light, heavy = min(light, q), min(heavy, q)
                if costs.facts[Fact.GPIPE]:
                    light, heavy = q, 1
                if costs.facts[Fact.FREE]:
                    caps[c, o, i] = _free_cap(costs, short, room, quick, excess, o, i)
                    continue
                left = excess
                if i == 1:
                    ends = costs.option[o, Option.TRAIL + Sum.FORWARD]
                    left -= (q - heavy) * ends
                    left -= (q - 1) * (costs.option[o, Option.TRAIL + Sum.TAU] - ends)
                within = fitting(
                    short[Least.PHI, o], q - heavy, short[Least.BETA, o], q - 1, left
                )
                fits = fitting(
                    short[Least.HELD, o], 1, short[Least.KEPT, o], light, room
                )
                caps[c, o, i] = max(0, min(quick, within, fits))


def limits(
    costs: Costs, short: Ints, steps: Ints, inner: Ints, longest: int, excess: int
) -> StageLimits:
    """Return the most units of stages and runs with no excess above ``excess``.

    Parameters
    ----------
    steps
        Least and most warm-ups per boundary, inside runs and between; shape (2, 2).
    inner
        Result of ``inside``.
    longest
        Largest tau of any stage, in ns.
    """
    shape = (len(costs.host), len(costs.option), int(costs.facts[Fact.P]) + 1)
    caps = np.zeros(shape, dtype=np.int64)
    _limit(costs, short, steps, costs.temporary.min(axis=1), longest, excess, caps)
    return StageLimits(excess=excess, caps=caps, inner=inner)


def at_ends(costs: Costs) -> Ints:
    """Return the least that ends add to the fill; shape (O, 3), named by ``End``.

    Every path that returns to the first stage ends with its g.
    """
    option, layout = costs.option, costs.option[:, Option.LAYOUT]
    ends = np.zeros((len(option), len(End)), dtype=np.int64)
    ends[:, End.SYNC] = option[:, Option.SYNC_FIXED] + option[:, Option.LEAD + Sum.SYNC]
    if costs.facts[Fact.TIED]:
        apart = costs.home[:, None] != costs.home[None, :]
        least = np.where(apart, costs.tied, INFINITE).min(axis=0)
        ends[:, End.TIED] = np.where(least < INFINITE, least, 0)[layout]
        ends[:, End.ALONE] = costs.tied[layout, layout]
    return ends


def cut_classes(costs: Costs) -> Ints:
    """Return the classes of cuts that a pipeline may have."""
    found: Ints = np.unique(costs.cut[1 : int(costs.facts[Fact.L])])
    return found


def inside(costs: Costs, slowest: int) -> Ints:
    """Return the least kappa inside a run, by option; _NEVER if above ``slowest``."""
    own = costs.option[:, Option.LAYOUT]
    kappa = costs.edge[Edge.KAPPA][cut_classes(costs)[:, None], own, own]
    least: Ints = kappa.min(axis=0, initial=_NEVER, where=kappa <= slowest)
    return least
