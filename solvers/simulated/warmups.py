"""Warm-up counts of a pipeline's least simulated time, if they are free.

Stages are given counts from the end of the pipeline. When the last stages return
gradients for the forwards that arrive is a table, their *answer*
(``simulated.flow.feed``), as every end is the largest of sums of an arrival and a path.
One vector of counts dominates another if no entry of its answer is later, its first
count is no larger (W falls along the pipeline), and it comes first by (sum,
lexicographic order): in the other's place it makes no plan longer, and every stage
before has at least as many counts to choose from. So among the vectors kept there is
one of the least simulated time, and of those the one with the least sum, then the
lexicographically smallest.

- The last stage has W = 1. Its backwards wait only for its own forwards, so more
  warm-ups would only delay them: for given arrivals, a path from forward n to the end
  of backward m has at least m - n + 1 forwards and as many backwards, and with W = 1
  no more.
- Counts of a stage are tried in ascending order. Once a lower bound on the answers of
  all larger counts is no earlier than the answer of one tried, the rest are skipped.
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

#: Steps by which ``_answers`` may overdraw the walk's; beyond, vectors are too many.
_MOST_STEPS = 500_000


def best_warmups(
    times: PipelineTimes, most: Sequence[int], limit: int
) -> tuple[int, ...] | None:
    """Return the warm-up counts of the least simulated time; None if unknown.

    Among equals, those of the least sum, then the lexicographically smallest.

    Parameters
    ----------
    times
        Its own warm-up counts are ignored.
    most
        Micro-batches that fit on each stage, at most q.
    limit
        Largest simulated time of interest, in ns.
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
    """Return the fill of a stage and the boundary after it."""
    tau = times[i, StageTime.PHI] + times[i, StageTime.BETA]
    return int(tau + 2 * times[i, StageTime.HOP])


@step
def _strain(times: Ints, depth: int, q: int, w: int) -> int:
    """Return the excess of the stage at this depth with w warm-ups."""
    phi, beta = times[depth, StageTime.PHI], times[depth, StageTime.BETA]
    return int((q - w) * phi + (q - 1) * beta)


@kernel
def _place(levels: Levels, walk: Walk, most: Ints, q: int) -> bool:
    """Place all stages; False if no plan is within the limit, or vectors overflow."""
    times, p = walk.times, len(most) - 1
    whole, fill = 0, 0
    for i in range(1, p + 1):
        whole += _through(times, i)
    for i in range(1, p + 1):
        fill += _through(times, i)
        if i == p:
            return warm_up_whole(levels, walk, i, q, most[i], fill, 0)
        # The stages before, and kappa both ways to them, are the fill still ahead.
        if warm_up(levels, walk, i, q, most[i], whole, whole - fill, Rest(0, 0, 0)) < 1:
            return False
    return False


@step
def warm_up(
    levels: Levels, walk: Walk, depth: int, q: int, most: int, fill: int, ahead: int,
    rest: Rest,
) -> int:  # fmt: skip
    """Give counts to the stage placed at this depth; return how many vectors remain.

    0 if no plan is within the limit, -1 if there are too many to compare.

    Parameters
    ----------
    most
        Micro-batches that fit on the stage, at most q.
    fill
        Fill of the placed stages and of the rest of the chosen run.
    ahead
        The part of ``fill`` that is not placed.
    rest
        Clusters, stages and units left after that run.
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
                # Go on if a larger count may be within the limit.
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
    """Write down the last stages' answer; False if that takes too many steps.

    It counts 2 q steps: q simulations here, and at most q in ``_is_enough``.
    """
    warm = walk.warm
    room = len(warm.answer) - 2
    for n in range(q):
        feed(walk, depth, q, n, False, warm.answer[room, n])
    walk.state[WalkState.STEPS] -= 2 * q
    return bool(walk.state[WalkState.STEPS] >= -_MOST_STEPS)


@step
def _total(warm: Warmups, depth: int, parent: int, w: int) -> int:
    """Return the sum of the vector that puts w before vector ``parent``."""
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
        Fill of the pipeline.
    tied
        Time that tied embeddings add to g of the first and of the last stage.
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
    """Return a pipeline's simulated time, or if ``loose`` a lower bound (``feed``)."""
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
    """Add the vector that puts w before vector ``parent``."""
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
    """Copy without the temporary array that assigning slices needs."""
    for n in range(one.shape[0]):
        for m in range(one.shape[1]):
            other[n, m] = one[n, m]


@step
def _keep(warm: Warmups, depth: int, parent: int, w: int, strain: int) -> bool:
    """Keep the vector whose answer is the last but one, unless it is dominated.

    Vectors that it dominates are dropped. One that exceeds the room is only counted.
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
    """Whether no entry of the answer is earlier with more than w warm-ups."""
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
