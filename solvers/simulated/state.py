"""State of the search for the least simulated time, and its lower bounds."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.base.compiled import step
from hetopt.solvers.simulated.columns import Clock, StageTime

if TYPE_CHECKING:
    from hetopt.solvers.arrays.costs import Costs, Ints

#: Most vectors of warm-up counts kept for a stage, and most entries of their answers.
_MOST_VECTORS, _MOST_ANSWERS = 512, 2**23
#: Most micro-batches for comparing vectors: an answer has q (q + 1) entries.
MOST_ANSWERED = 2048


class WalkState(IntEnum):
    """Positions in ``Walk.state``."""

    DEPTH, LIMIT, STEPS, VALUE, PLANS, FULL = range(6)


class Placed(IntEnum):
    """Columns of ``Walk.stage``.

    Its option, its run (stages, units before it, place in it), units before and on it;
    fill, excess and end of the last backward up to this stage, including the least that
    tied embeddings add; clusters unused before its run, W if prescribed, most units,
    and the first interval with such an excess.
    """

    OPTION, RUN_STAGES, RUN_BEGIN, RUN_PLACE, BEGIN, LENGTH, FILL = range(7)
    EXCESS, END, UNUSED, WARMUP, MOST, LEVEL = range(7, 13)


class Levels(NamedTuple):
    """Lower bounds for the search, by interval of the excess; K intervals.

    Attributes
    ----------
    low, high
        Ends of the intervals in ns: low <= excess <= high, ascending.
    total
        Prefix sums of ``StageLimits.caps`` over places from the end, by interval;
        shape (K, J, O, p + 1).
    rest
        ``prefixes`` of each interval; shape (K, 2 ** J, p + 1, L + 1).
    onward
        The least ``rest + low`` of an interval and of all after it; as ``rest``, for
        K + 1 intervals, of which the last is infinite.
    forward
        Least forward time of the first n body units; length L + 1.
    inner
        Least kappa inside a run, by option.
    ends
        Result of ``simulated.bounds.at_ends``.
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
    """State of the search.

    Attributes
    ----------
    state
        Number of the stage being placed; the largest simulated time of interest, in
        ns; steps left; simulated time of the plan found; whole pipelines simulated;
        whether there were too many vectors of warm-up counts.
    stage, times
        Per stage, counted from 1 at the end of the pipeline.
    arrive
        Scratch: arrivals of forwards; shape (p + 1, q).
    clock
        Scratch of the simulation, per stage; shape (p + 2, 4).
    warm
        Warm-up counts still to choose from, if they are free.
    """

    state: Ints
    stage: Ints
    times: Ints
    arrive: Ints
    clock: Ints
    warm: Warmups


class Warmups(NamedTuple):
    """Vectors of warm-up counts of the placed stages; at most C for each number placed.

    Attributes
    ----------
    size
        Number of vectors, by the stages placed.
    counts
        W, by the stages placed, the vector and the stage; shape (p + 1, C, p + 1).
    facts
        The vector's sum, and the excess; shape (p + 1, C, 2).
    answer
        Answers (``feed``) of the vectors of the stage being placed, by the micro-batch
        that arrives, then a new vector's and a bound; shape (C + 2, q, q + 1).
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
    """The rest to be placed: clusters as bits, stages, and body units."""

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
        Whether the search chooses warm-up counts.
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
        Fill of the placed stages and of the chosen run.
    end
        Longest path so far to which the fill of ``rest`` is added.
    rest
        Clusters, stages and units left after that run.
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
    """Return how many clusters are used, that is, not in ``mask``."""
    used = 0
    for j in range(len(costs.host)):
        if not mask >> j & 1:
            used += 1
    return used
