"""Warm-up counts of a pipeline's least simulated time, where they are free (``auto``).

Stages are given counts from the end of the pipeline. How its last stages answer
what comes from before them is a table (``simulated_flow.feed``), as every end is the
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

from hetopt.compiled import kernel, step
from hetopt.solvers.simulated.flow import (
    BETA,
    FLIGHT,
    HOP,
    PACE,
    PHI,
    SYNCED,
    feed,
    run_end,
)
from hetopt.solvers.simulated.state import (
    END,
    EXCESS,
    INFINITE,
    LIMIT,
    MOST_ANSWERED,
    STEPS,
    STRAIN,
    SUM,
    Levels,
    new_walk,
    within,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.schedule.times import PipelineTimes
    from hetopt.solvers.arrays.program import Ints
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
        row[PHI], row[BETA] = times.forward_ns[i], times.backward_ns[i]
        row[SYNCED] = times.sync_ns[i]
        if i + 1 < p:
            row[HOP], row[PACE] = times.transfer_ns[i], times.occupancy_ns[i]
    none = np.zeros((1, 1, 1, 1), dtype=np.int64)
    levels = Levels(
        low=np.zeros(1, dtype=np.int64),
        high=np.full(1, INFINITE, dtype=np.int64),
        total=none,
        rest=none,
        inner=none[0, 0, 0],
        knobs=np.zeros(3, dtype=np.int64),
        delta=none[0],
    )
    if not _place(levels, walk, np.array([0, *reversed(most)], dtype=np.int64), q):
        return None
    return tuple(walk.warm.counts[p, 0, p:0:-1].tolist())


@kernel
def _place(levels: Levels, walk: Walk, most: Ints, q: int) -> bool:
    """Place all stages; whether anything is within the limit, and it is known."""
    times, p = walk.times, len(most) - 1
    whole, fill = 0, 0
    for i in range(1, p + 1):
        whole += times[i, PHI] + times[i, BETA] + 2 * times[i, HOP]
    for i in range(1, p + 1):
        fill += times[i, PHI] + times[i, BETA] + 2 * times[i, HOP]
        if i == p:
            return warm_up_whole(levels, walk, i, q, most[i], fill, 0)
        # What is before goes with the fill; so do its two ways over the boundary.
        if warm_up(levels, walk, i, q, most[i], whole, whole - fill, 0, 0, 0) < 1:
            return False
    return False


@step
def warm_up(
    levels: Levels, walk: Walk, depth: int, q: int, most: int, fill: int, ahead: int,
    mask: int, left: int, begin: int,
) -> int:  # fmt: skip
    """Give counts to the stage placed at this depth, before others.

    Return how many vectors are left: 0 if no plan is within the limit, -1 if they
    are too many to tell apart. A simulation is a step of the walk.

    Parameters
    ----------
    most
        Micro-batches that fit on the stage, at most q.
    fill
        Of what is placed and of the run that is chosen.
    ahead
        The part of it that is not placed.
    mask, left, begin
        Clusters, stages and body units that are left for the rest.
    """
    times, warm, limit = walk.times, walk.warm, walk.state[LIMIT]
    row = walk.stage[depth]
    row[END], row[EXCESS] = INFINITE, INFINITE
    room = len(warm.answer) - 2
    warm.size[depth] = 0
    if depth == 1:
        most = 1
    least_strain = (q - most) * times[depth, PHI] + (q - 1) * times[depth, BETA]
    for parent in range(warm.size[depth - 1]):
        _take(times, warm, depth - 1, parent)
        before = warm.facts[depth - 1, parent, STRAIN] if depth > 1 else 0
        first = warm.counts[depth - 1, parent, depth - 1] if depth > 1 else 1
        for w in range(first, most + 1):
            times[depth, FLIGHT] = w
            own = (q - w) * times[depth, PHI] + (q - 1) * times[depth, BETA]
            strain = max(before, own)
            if not within(levels, limit, fill, ahead, strain, mask, left, begin):
                continue
            end = run_end(times, depth, q, walk.arrive, walk.clock)
            if not within(levels, limit, fill, end + ahead, strain, mask, left, begin):
                # Too few, or is it too many?
                times[depth, FLIGHT] = min(w + 1, q)
                answer = warm.answer[room, 0]
                feed(
                    times, depth, q, -1, True, walk.arrive, walk.clock, warm.done,
                    answer,
                )  # fmt: skip
                end, strain = answer[q - 1], max(before, least_strain)
                if within(levels, limit, fill, end + ahead, strain, mask, left, begin):
                    continue
                break
            for n in range(q):
                feed(
                    times, depth, q, n, False, walk.arrive, walk.clock, warm.done,
                    warm.answer[room, n],
                )  # fmt: skip
            walk.state[STEPS] -= 2 * q
            if walk.state[STEPS] < -_MOST_STEPS:
                return -1
            total = w
            if depth > 1:
                total += warm.facts[depth - 1, parent, SUM]
            if _keep(warm, depth, parent, w, total, strain):
                row[END] = min(row[END], end)
                row[EXCESS] = min(row[EXCESS], strain)
                if warm.size[depth] > room:
                    return -1
            if w < most and _is_enough(walk, depth, q, w):
                break
    return int(warm.size[depth])


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
    times, warm, limit = walk.times, walk.warm, walk.state[LIMIT]
    warm.size[depth] = 0
    if depth == 1:
        most = min(most, 1)
    best = limit + 1
    answer = warm.answer[len(warm.answer) - 1, 0]
    for parent in range(warm.size[depth - 1]):
        _take(times, warm, depth - 1, parent)
        before = warm.facts[depth - 1, parent, STRAIN] if depth > 1 else 0
        first = warm.counts[depth - 1, parent, depth - 1] if depth > 1 else 1
        for w in range(first, most + 1):
            times[depth, FLIGHT] = w
            own = (q - w) * times[depth, PHI] + (q - 1) * times[depth, BETA]
            strain = max(before, own)
            if not within(levels, limit, fill, 0, strain, 0, 0, 0):
                continue
            value = _value(walk, depth, q, False, tied, answer)
            total = w
            if depth > 1:
                total += warm.facts[depth - 1, parent, SUM]
            if value <= limit and (
                value < best
                or (value == best and _comes_first(warm, depth, parent, w, total, 0))
            ):
                best = value
                warm.size[depth] = 0
                _append(warm, depth, parent, w, total, strain)
            if w < most:
                times[depth, FLIGHT] = w + 1
                if _value(walk, depth, q, True, tied, answer) >= min(value, best):
                    break
    if not warm.size[depth]:
        return False
    _take(times, warm, depth, 0)
    walk.stage[depth, EXCESS] = warm.facts[depth, 0, STRAIN]
    walk.stage[depth, END] = run_end(times, depth, q, walk.arrive, walk.clock)
    return True


@step
def _value(walk: Walk, depth: int, q: int, loose: bool, tied: int, answer: Ints) -> int:
    """Return the simulated time of a whole pipeline, or a bound on it (``feed``)."""
    times = walk.times
    feed(times, depth, q, -1, loose, walk.arrive, walk.clock, walk.warm.done, answer)
    value = answer[q - 1] + times[depth, SYNCED] + tied
    for i in range(1, depth):
        more = tied if i == 1 else 0
        value = max(value, walk.clock[i, 0] + times[i, SYNCED] + more)
    return int(value)


@step
def _take(times: Ints, warm: Warmups, depth: int, vector: int) -> None:
    """Give the last ``depth`` stages the counts of a vector."""
    for i in range(1, depth + 1):
        times[i, FLIGHT] = warm.counts[depth, vector, i]


@step
def _append(
    warm: Warmups, depth: int, parent: int, w: int, total: int, strain: int
) -> None:
    """Add a vector: w before one of the stages after."""
    at = warm.size[depth]
    for i in range(1, depth):
        warm.counts[depth, at, i] = warm.counts[depth - 1, parent, i]
    warm.counts[depth, at, depth] = w
    warm.facts[depth, at, SUM], warm.facts[depth, at, STRAIN] = total, strain
    warm.size[depth] = at + 1


@step
def _comes_first(
    warm: Warmups, depth: int, parent: int, w: int, total: int, other: int
) -> bool:
    """Whether a vector comes before another one by (sum, lexicographic order)."""
    if total != warm.facts[depth, other, SUM]:
        return bool(total < warm.facts[depth, other, SUM])
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
def _keep(
    warm: Warmups, depth: int, parent: int, w: int, total: int, strain: int
) -> bool:
    """Take in the vector whose answer is the last but one, unless it is needless.

    Those that it makes needless are left out. One too many is counted, not kept.
    """
    room = len(warm.answer) - 2
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
    times[depth, FLIGHT] = w + 1
    for n in range(q):
        feed(times, depth, q, n, True, walk.arrive, walk.clock, warm.done, bound)
        for m in range(q + 1):
            if warm.answer[room, n, m] > bound[m]:
                return False
    return True
