"""Warm-up counts of a pipeline's least simulated time, where they are free (``auto``).

Stages are given counts from the end of the pipeline. How its last stages answer
what comes from before them is a table (``simulated.flow.feed``), as every end is the
largest of sums of an arrival and a path. One vector of counts makes another needless
if it answers nothing later, asks no more of the stage before (W falls along the
pipeline), and comes first by (sum, lexicographic order): put in its place, it ends
no plan later and takes memory nowhere that is missing. So for every plan there is
a vector left with the least simulated time, and of those the one with the least sum,
then the lexicographically smallest.

- The last stage warms up once. Its gradients wait for nothing but its own forwards,
  so that more would only put forwards before them: with arrivals as they are, a path
  from forward n to the end of backward m has at least m - n + 1 forwards and as many
  backwards, which is all that one warm-up asks for.
- Counts of a stage are tried from the least on. Once what any larger one could at best
  answer is no better than what one did, the rest are needless.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.base.compiled import kernel, step
from hetopt.solvers.arrays.windows import INFINITE
from hetopt.solvers.simulated.columns import Clock, StageTime
from hetopt.solvers.simulated.flow import feed, run_end
from hetopt.solvers.simulated.state import (
    MOST_ANSWERED,
    Levels,
    Placed,
    Rest,
    Vector,
    WalkState,
    new_walk,
    within,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.schedule.times import PipelineTimes
    from hetopt.solvers.arrays.costs import Ints
    from hetopt.solvers.simulated.state import Walk, Warmups

#: Simulations for one stage beyond which its vectors are too many.
_MOST_STEPS = 500_000


def best_warmups(
    times: PipelineTimes, most: Sequence[int], limit: int
) -> tuple[int, ...] | None:
    """Return the warm-up counts of the least simulated time; None if unknown.

    Of several the ones of the least sum, then the lexicographically smallest.

    Parameters
    ----------
    times
        Its own warm-up counts are not looked at.
    most
        Micro-batches that fit on each stage, at most q.
    limit
        In ns; there is nothing to find above it.
    """
    p, q = times.stages, times.microbatches
    if min(most) < 1 or q > MOST_ANSWERED:
        return None
    walk = new_walk(p, q, limit, free=True)
    for i in range(p):
        row = walk.times[p - i]
        row[StageTime.PHI], row[StageTime.BETA] = (
            times.forward_ns[i],
            times.backward_ns[i],
        )
        row[StageTime.SYNCED] = times.sync_ns[i]
        if i + 1 < p:
            row[StageTime.HOP], row[StageTime.PACE] = (
                times.transfer_ns[i],
                times.occupancy_ns[i],
            )
    none = np.zeros((1, 1, 1, 1), dtype=np.int64)
    levels = Levels(
        low=np.zeros(1, dtype=np.int64),
        high=np.full(1, INFINITE, dtype=np.int64),
        total=none,
        rest=none,
        onward=np.full((2, 1, 1, 1), INFINITE, dtype=np.int64),
        forward=none[0, 0, 0],
        inner=none[0, 0, 0],
        ends=none[0, 0],
        scalars=np.zeros(2, dtype=np.int64),
        delta=none[0],
    )
    if not _place(levels, walk, np.array([0, *reversed(most)], dtype=np.int64), q):
        return None
    return tuple(walk.warm.counts[p, 0, p:0:-1].tolist())


@step
def _through(times: Ints, i: int) -> int:
    """Return the fill that a stage and the boundary after it add."""
    tau = times[i, StageTime.PHI] + times[i, StageTime.BETA]
    return int(tau + 2 * times[i, StageTime.HOP])


@step
def _strain(times: Ints, depth: int, q: int, w: int) -> int:
    """Return the excess of the stage at this depth with w warm-ups."""
    phi, beta = times[depth, StageTime.PHI], times[depth, StageTime.BETA]
    return int((q - w) * phi + (q - 1) * beta)


@kernel
def _place(levels: Levels, walk: Walk, most: Ints, q: int) -> bool:
    """Place all stages; whether anything is within the limit, and it is known."""
    times, p = walk.times, len(most) - 1
    whole, fill = 0, 0
    for i in range(1, p + 1):
        whole += _through(times, i)
    for i in range(1, p + 1):
        fill += _through(times, i)
        if i == p:
            return warm_up_whole(levels, walk, i, q, most[i], fill, 0)
        # What is before goes with the fill; so do its two ways over the boundary.
        if warm_up(levels, walk, i, q, most[i], whole, whole - fill, Rest(0, 0, 0)) < 1:
            return False
    return False


@step
def warm_up(
    levels: Levels, walk: Walk, depth: int, q: int, most: int, fill: int, ahead: int,
    rest: Rest,
) -> int:  # fmt: skip
    """Give counts to the stage placed at this depth; return the vectors left.

    0 if no plan is within the limit, -1 if they are too many to tell apart.

    Parameters
    ----------
    most
        Micro-batches that fit on the stage, at most q.
    fill
        Of what is placed and of the run that is chosen.
    ahead
        The part of it that is not placed.
    rest
        What is left after that run.
    """
    times, warm, limit = walk.times, walk.warm, walk.state[WalkState.LIMIT]
    row, room = walk.stage[depth], len(walk.warm.answer) - 2
    row[Placed.END], row[Placed.EXCESS] = INFINITE, INFINITE
    warm.size[depth] = 0
    if depth == 1:
        most = 1
    least_strain = _strain(times, depth, q, most)
    for parent in range(warm.size[depth - 1]):
        _take(times, warm, depth - 1, parent)
        before = warm.facts[depth - 1, parent, Vector.STRAIN] if depth > 1 else 0
        first = warm.counts[depth - 1, parent, depth - 1] if depth > 1 else 1
        for w in range(first, most + 1):
            times[depth, StageTime.FLIGHT] = w
            strain = max(before, _strain(times, depth, q, w))
            if not within(levels, limit, fill, ahead, strain, rest):
                continue
            end = run_end(walk, depth, q)
            if not within(levels, limit, fill, end + ahead, strain, rest):
                # Too few, or is it too many?
                times[depth, StageTime.FLIGHT] = min(w + 1, q)
                feed(walk, depth, q, -1, True, warm.answer[room, 0])
                end = warm.answer[room, 0, q - 1]
                strain = max(before, least_strain)
                if within(levels, limit, fill, end + ahead, strain, rest):
                    continue
                break
            if not _answers(walk, depth, q):
                return -1
            if _keep(warm, depth, parent, w, strain):
                row[Placed.END] = min(row[Placed.END], end)
                row[Placed.EXCESS] = min(row[Placed.EXCESS], strain)
                if warm.size[depth] > room:
                    return -1
            if w < most and _is_enough(walk, depth, q, w):
                break
    return int(warm.size[depth])


@step
def _answers(walk: Walk, depth: int, q: int) -> bool:
    """Write down what the last stages answer; False if that takes too many steps.

    A simulation is a step of the walk.
    """
    warm = walk.warm
    room = len(warm.answer) - 2
    for n in range(q):
        feed(walk, depth, q, n, False, warm.answer[room, n])
    walk.state[WalkState.STEPS] -= 2 * q
    return bool(walk.state[WalkState.STEPS] >= -_MOST_STEPS)


@step
def _total(warm: Warmups, depth: int, parent: int, w: int) -> int:
    """Return the sum of a vector: w before one of the stages after."""
    return int(w + warm.facts[depth - 1, parent, Vector.SUM]) if depth > 1 else w


@step
def warm_up_whole(
    levels: Levels, walk: Walk, depth: int, q: int, most: int, fill: int, tied: int
) -> bool:
    """Give the best counts to a whole pipeline; False if it is not within the limit.

    Parameters
    ----------
    most
        Micro-batches that fit on the first stage, at most q.
    fill
        Of the pipeline.
    tied
        What tied embeddings add to g of the first stage and of the last.
    """
    times, warm, limit = walk.times, walk.warm, walk.state[WalkState.LIMIT]
    warm.size[depth] = 0
    if depth == 1:
        most = min(most, 1)
    best = limit + 1
    answer = warm.answer[len(warm.answer) - 1, 0]
    for parent in range(warm.size[depth - 1]):
        _take(times, warm, depth - 1, parent)
        before = warm.facts[depth - 1, parent, Vector.STRAIN] if depth > 1 else 0
        first = warm.counts[depth - 1, parent, depth - 1] if depth > 1 else 1
        for w in range(first, most + 1):
            times[depth, StageTime.FLIGHT] = w
            strain = max(before, _strain(times, depth, q, w))
            if not within(levels, limit, fill, 0, strain, Rest(0, 0, 0)):
                continue
            value = _value(walk, depth, q, False, tied, answer)
            total = _total(warm, depth, parent, w)
            if value <= limit and (
                value < best
                or (value == best and _comes_first(warm, depth, parent, w, total, 0))
            ):
                best = value
                warm.size[depth] = 0
                _append(warm, depth, parent, w, total, strain)
            if w < most:
                times[depth, StageTime.FLIGHT] = w + 1
                if _value(walk, depth, q, True, tied, answer) >= min(value, best):
                    break
    if not warm.size[depth]:
        return False
    _take(times, warm, depth, 0)
    walk.stage[depth, Placed.EXCESS] = warm.facts[depth, 0, Vector.STRAIN]
    walk.stage[depth, Placed.END] = run_end(walk, depth, q)
    return True


@step
def _value(walk: Walk, depth: int, q: int, loose: bool, tied: int, answer: Ints) -> int:
    """Return the simulated time of a whole pipeline, or a bound on it (``feed``)."""
    times = walk.times
    feed(walk, depth, q, -1, loose, answer)
    value = answer[q - 1] + times[depth, StageTime.SYNCED] + tied
    for i in range(1, depth):
        more = tied if i == 1 else 0
        value = max(
            value, walk.clock[i, Clock.FREE] + times[i, StageTime.SYNCED] + more
        )
    return int(value)


@step
def _take(times: Ints, warm: Warmups, depth: int, vector: int) -> None:
    """Give the last ``depth`` stages the counts of a vector."""
    for i in range(1, depth + 1):
        times[i, StageTime.FLIGHT] = warm.counts[depth, vector, i]


@step
def _append(
    warm: Warmups, depth: int, parent: int, w: int, total: int, strain: int
) -> None:
    """Add a vector: w before one of the stages after."""
    at = warm.size[depth]
    for i in range(1, depth):
        warm.counts[depth, at, i] = warm.counts[depth - 1, parent, i]
    warm.counts[depth, at, depth] = w
    warm.facts[depth, at, Vector.SUM], warm.facts[depth, at, Vector.STRAIN] = (
        total,
        strain,
    )
    warm.size[depth] = at + 1


@step
def _comes_first(
    warm: Warmups, depth: int, parent: int, w: int, total: int, other: int
) -> bool:
    """Whether a vector comes before another one by (sum, lexicographic order)."""
    if total != warm.facts[depth, other, Vector.SUM]:
        return bool(total < warm.facts[depth, other, Vector.SUM])
    if w != warm.counts[depth, other, depth]:
        return bool(w < warm.counts[depth, other, depth])
    for i in range(depth - 1, 0, -1):
        own = warm.counts[depth - 1, parent, i]
        if own != warm.counts[depth, other, i]:
            return bool(own < warm.counts[depth, other, i])
    return False


@step
def _no_later(one: Ints, other: Ints) -> bool:
    for n in range(one.shape[0]):
        for m in range(one.shape[1]):
            if one[n, m] > other[n, m]:
                return False
    return True


@step
def _copy(one: Ints, other: Ints) -> None:
    """Copy without the scratch that an assignment of slices asks for."""
    for n in range(one.shape[0]):
        for m in range(one.shape[1]):
            other[n, m] = one[n, m]


@step
def _keep(warm: Warmups, depth: int, parent: int, w: int, strain: int) -> bool:
    """Take in the vector whose answer is the last but one, unless it is needless.

    Those that it makes needless are left out. One too many is counted, not kept.
    """
    room, total = len(warm.answer) - 2, _total(warm, depth, parent, w)
    answer = warm.answer[room]
    for other in range(warm.size[depth]):
        if (
            warm.counts[depth, other, depth] <= w
            and not _comes_first(warm, depth, parent, w, total, other)
            and _no_later(warm.answer[other], answer)
        ):
            return False
    kept = 0
    for other in range(warm.size[depth]):
        if (
            w <= warm.counts[depth, other, depth]
            and _comes_first(warm, depth, parent, w, total, other)
            and _no_later(answer, warm.answer[other])
        ):
            continue
        if kept < other:
            for i in range(1, depth + 1):
                warm.counts[depth, kept, i] = warm.counts[depth, other, i]
            for fact in range(2):
                warm.facts[depth, kept, fact] = warm.facts[depth, other, fact]
            _copy(warm.answer[other], warm.answer[kept])
        kept += 1
    warm.size[depth] = kept
    if kept == room:
        warm.size[depth] += 1
        return True
    _copy(answer, warm.answer[kept])
    _append(warm, depth, parent, w, total, strain)
    return True


@step
def _is_enough(walk: Walk, depth: int, q: int, w: int) -> bool:
    """Whether more than w warm-ups answer nothing sooner than w do."""
    times, warm = walk.times, walk.warm
    room = len(warm.answer) - 2
    bound = warm.answer[room + 1, 0]
    times[depth, StageTime.FLIGHT] = w + 1
    for n in range(q):
        feed(walk, depth, q, n, True, bound)
        for m in range(q + 1):
            if warm.answer[room, n, m] > bound[m]:
                return False
    return True
