"""Where the search for the least simulated time is, and what it looks ahead with."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.base.compiled import step
from hetopt.solvers.simulated.columns import Clock, StageTime

if TYPE_CHECKING:
    from hetopt.solvers.arrays.costs import Costs, Ints

#: Vectors of warm-up counts that are told apart, and entries of what they answer.
_MOST_VECTORS, _MOST_ANSWERS = 512, 2**23
#: Micro-batches with which vectors can be told apart: they answer q by q.
MOST_ANSWERED = 2048


class WalkState(IntEnum):
    """Positions in ``Walk.state``."""

    DEPTH, LIMIT, STEPS, VALUE, PLANS, FULL = range(6)


class Placed(IntEnum):
    """Columns of ``Walk.stage``.

    Its option, its run (stages, units before it, place), units before and on it; so
    far: fill, excess, and end of the last backward, with what tied embeddings add at
    least; clusters not used before its run, W where it is prescribed, most units, and
    the first interval with such an excess.
    """

    OPTION, RUN_STAGES, RUN_BEGIN, RUN_PLACE, BEGIN, LENGTH, FILL = range(7)
    EXCESS, END, UNUSED, WARMUP, MOST, LEVEL = range(7, 13)


class Levels(NamedTuple):
    """What the search looks ahead with, by interval of the excess; K intervals.

    Attributes
    ----------
    low, high
        Ends of the intervals in ns: low < excess <= high, ascending.
    total
        Most body units on the first so many places together, by interval and the
        runs that have ended before; shape (K, J, O, p + 1).
    rest
        ``prefixes`` of each interval; shape (K, 2 ** J, p + 1, L + 1).
    onward
        The least ``rest + low`` of an interval and of all after it; as ``rest``, for
        K + 1 intervals, of which the last is infinite.
    forward
        What forwards of the first body units take at least, by how many; length L + 1.
    inner
        Least kappa inside a run, by option.
    ends
        Of ``simulated.bounds.at_ends``.
    scalars
        Named by ``LevelScalar``.
    delta
        Warm-ups added by a boundary, by cut class and layouts; shape (X, A, A).
    """

    low: Ints
    high: Ints
    total: Ints
    rest: Ints
    onward: Ints
    forward: Ints
    inner: Ints
    ends: Ints
    scalars: Ints
    delta: Ints


class Walk(NamedTuple):
    """Where the search is.

    Attributes
    ----------
    state
        Stages placed and being placed; the largest simulated time of interest, in
        ns; steps left; simulated time of the plan found; pipelines simulated whole;
        whether there were too many vectors of warm-up counts.
    stage, times
        Per stage, counted from 1 at the end of the pipeline.
    arrive
        Scratch: arrivals of forwards; shape (p + 1, q).
    clock
        Scratch of the simulation, per stage; shape (p + 2, 4).
    warm
        Warm-up counts that are left to choose from, where they are free.
    """

    state: Ints
    stage: Ints
    times: Ints
    arrive: Ints
    clock: Ints
    warm: Warmups


class Warmups(NamedTuple):
    """Vectors of warm-up counts of the stages placed; at most C of them each time.

    Attributes
    ----------
    size
        How many vectors there are, by the stages placed.
    counts
        W, by the stages placed, the vector and the stage; shape (p + 1, C, p + 1).
    facts
        The vector's sum, and the excess; shape (p + 1, C, 2).
    answer
        ``feed`` of the vectors of the stage being placed, by the micro-batch that
        comes; two more for what is compared with them; shape (C + 2, q, q + 1).
    done
        Scratch: ends of forwards; length q.
    """

    size: Ints
    counts: Ints
    facts: Ints
    answer: Ints
    done: Ints


class LevelScalar(IntEnum):
    """Positions in ``Levels.scalars``: least and most lambda_0, in ns."""

    FLOOR, CEILING = range(2)


class Vector(IntEnum):
    """Columns of ``Warmups.facts``."""

    SUM, STRAIN = range(2)


class Rest(NamedTuple):
    """What is not placed: clusters as bits, stages, and body units."""

    clusters: int
    stages: int
    units: int


def new_walk(stages: int, microbatches: int, limit: int, *, free: bool = False) -> Walk:
    """Return a search that has not begun.

    Parameters
    ----------
    microbatches
        At most MOST_ANSWERED if warm-up counts are free.
    free
        Whether it chooses warm-up counts.
    """
    room, came = 0, 0
    if free:
        room = min(_MOST_VECTORS, max(1, _MOST_ANSWERS // microbatches**2))
        came = microbatches
    walk = Walk(
        state=np.array([1, limit, 0, 0, 0, 0], dtype=np.int64),
        stage=np.zeros((stages + 2, len(Placed)), dtype=np.int64),
        times=np.zeros((stages + 2, len(StageTime)), dtype=np.int64),
        arrive=np.zeros((stages + 2, microbatches), dtype=np.int64),
        clock=np.zeros((stages + 2, len(Clock)), dtype=np.int64),
        warm=Warmups(
            size=np.zeros(stages + 1, dtype=np.int64),
            counts=np.ones((stages + 1, room, stages + 1), dtype=np.int64),
            facts=np.zeros((stages + 1, room, 2), dtype=np.int64),
            answer=np.zeros((room + 2, came, came + 1), dtype=np.int64),
            done=np.zeros(microbatches, dtype=np.int64),
        ),
    )
    walk.warm.size[0] = 1
    walk.stage[1, Placed.OPTION] = -1
    return walk


@step
def most_units(levels: Levels, ended: int, o: int, depth: int, m: int) -> int:
    """Return the most body units of m stages of a run, the first at this depth."""
    total = levels.total[-1, ended, o]
    return int(total[depth + m - 1] - total[depth - 1])


@step
def level_of(levels: Levels, excess: int) -> int:
    """Return the first interval with room for an excess; K if there is none."""
    for k in range(len(levels.high)):
        if excess <= levels.high[k]:
            return k
    return len(levels.high)


@step
def within(
    levels: Levels, limit: int, fill: int, end: int, excess: int, rest: Rest
) -> bool:
    """Whether some interval of the excess leaves room below the limit.

    Parameters
    ----------
    fill
        Of what is placed and of the run that is chosen.
    end
        Longest path so far that the rest's fill adds to.
    rest
        What is left after that run.
    """
    mask, stages, units = rest.clusters, rest.stages, rest.units
    first = level_of(levels, excess)
    if first == len(levels.low):
        return False
    least = levels.rest[first, mask, stages, units] + excess
    if fill + min(least, levels.onward[first + 1, mask, stages, units]) > limit:
        return False
    for k in range(first, len(levels.low)):
        least = levels.rest[k, mask, stages, units]
        if end + least <= limit and (
            fill + least + max(excess, levels.low[k]) <= limit
        ):
            return True
    return False


@step
def runs_ended(costs: Costs, mask: int) -> int:
    """Return how many clusters have been used; those of ``mask`` have not."""
    used = 0
    for j in range(len(costs.host)):
        if not mask >> j & 1:
            used += 1
    return used
