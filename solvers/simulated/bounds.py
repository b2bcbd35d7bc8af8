"""Lower bounds on the simulated time, for the search for the least.

Three families of paths through the event graph bound the simulated time of a plan:
those of one stage and of a link, which ``hetopt.schedule.paths`` has for every
schedule, with their fill F, and, under some schedules,

- a window i..k, with w = min(W, q): before a micro-batch goes all the way, r times, a
  forward goes from i to k, the backward of the micro-batch w_k - 1 earlier comes back
  to i, and the forward W_i later than that one may start. With s = w_i - w_k + 1
  micro-batches per turn, C the sum of fill (tau, or tau - w if gradients of weights run
  later) and 2 kappa inside the window, and w_k + r s <= q:
  F + (w_k - 1) phi_i + r C + (q - w_k - r s) beta_i.

If warm-up counts are free, W is the most that fits into memory beside the
units of the stage, 1 for the last stage (``simulated.warmups``), and windows are not
used.

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
from hetopt.solvers.arrays.costs import Delta, Fact, HostColumn, Option, Sum, Weight
from hetopt.solvers.arrays.least import Least, fitting
from hetopt.solvers.arrays.on_paths import Beside
from hetopt.solvers.arrays.windows import INFINITE

if TYPE_CHECKING:
    from hetopt.solvers.arrays.costs import Costs, Ints


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
        after its own; shape (J, O, p + 1). If some first units are unlike others, J
        rows more for stages that have none of them.
    inner
        Least kappa inside a run, by option.
    """

    excess: int
    caps: Ints
    inner: Ints


@step
def _is_within(
    costs: Costs,
    short: Ints,
    o: int,
    i: int,
    length: int,
    room: int,
    warmups: tuple[int, int],
    excess: int,
) -> bool:
    """Whether the i-th stage from the end fits into memory, and its excess is allowed.

    ``warmups`` are the fewest and the most W. If W is free, every further unit leaves
    memory for fewer warm-ups. The last stage has W = 1.
    """
    light, heavy = warmups
    left, each = room - short[Least.HELD, o, length], short[Least.KEPT, o, length]
    if costs.facts[Fact.FREE] and i > 1:
        light = costs.facts[Fact.Q]
        if light * each > left:
            light = left // each
        heavy = light
    if light < 1 or light * each > left:
        return False
    phi, beta = short[Least.PHI, o, length], short[Least.BETA, o, length]
    later = short[Least.LATER, o, length]
    if i == 1:
        end = costs.option[o, Option.TRAIL :]
        phi += end[Sum.FORWARD]
        beta += end[Sum.TAU] - end[Sum.FORWARD] - end[Sum.INSIDE]
        later += end[Sum.INSIDE]
    by = costs.weights[heavy]
    strain = by[Weight.FORWARD] * phi + by[Weight.BACKWARD] * beta
    return bool(strain + by[Weight.LATER] * later <= excess)


@step
def warmups(costs: Costs, steps: Ints, c: int, i: int) -> int:
    """Return W of the i-th stage from the end, cut to q, if c runs are after its."""
    inside, across = steps[Boundary.INSIDE], steps[Boundary.ACROSS]
    return int(min(1 + (i - 1 - c) * inside + c * across, costs.facts[Fact.Q]))


@step
def uplink_excess(costs: Costs, o: int, warmup: int) -> int:
    """Return the excess of the uplink of a run between others, by its first W."""
    by, cluster = costs.weights[warmup], costs.option[o, Option.CLUSTER]
    count = by[Weight.FORWARD] + by[Weight.BACKWARD]
    return int(count * costs.host[cluster, HostColumn.UPLINK])


@kernel
def _limit(
    costs: Costs,
    short: Ints,
    steps: Ints,
    beside: Ints,
    peak: Ints,
    longest: int,
    excess: int,
    caps: Ints,
) -> None:
    p = costs.facts[Fact.P]
    for c in range(len(costs.host)):
        for o in range(len(costs.option)):
            room = costs.option[o, Option.FREE_BYTES] - peak[o]
            quick = fitting(short[Least.BOTH, o], longest)
            for i in range(c + 1, p + 1):
                light = warmups(costs, steps[Delta.LIGHT], c, i)
                heavy = warmups(costs, steps[Delta.HEAVY], c, i)
                if costs.facts[Fact.GPIPE]:
                    light = costs.facts[Fact.Q]
                around = (i > 1) * beside[Beside.AFTER, o]
                around += (i < p) * beside[Beside.BEFORE, o]
                left = excess - costs.weights[heavy, Weight.AROUND] * around
                low, high = 0, quick
                while low < high:
                    n = (low + high + 1) // 2
                    if _is_within(costs, short, o, i, n, room, (light, heavy), left):
                        low = n
                    else:
                        high = n - 1
                caps[c, o, i] = low


def limits(
    costs: Costs,
    short: list[Ints],
    steps: Ints,
    beside: Ints,
    longest: int,
    excess: int,
) -> StageLimits:
    """Return the most units of stages and runs with no excess above ``excess``.

    Parameters
    ----------
    short
        ``shortest`` of all units, and of those from the first that is unlike.
    steps
        Least and most warm-ups per boundary, inside runs and between; shape (2, 2).
    beside
        Result of ``beside``.
    longest
        Largest tau of any stage, in ns.
    """
    clusters = len(costs.host)
    shape = (len(short) * clusters, len(costs.option), int(costs.facts[Fact.P]) + 1)
    caps = np.zeros(shape, dtype=np.int64)
    peak = costs.temporary.min(axis=1)
    for own, least in zip(np.split(caps, len(short)), short, strict=True):
        _limit(costs, least, steps, beside, peak, longest, excess, own)
    return StageLimits(excess, caps, beside[Beside.INSIDE])


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
