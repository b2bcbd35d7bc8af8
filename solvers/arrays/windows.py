"""Sliding-window minimum of a run's costs over where it begins or ends, compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.compiled import step

if TYPE_CHECKING:
    from hetopt.solvers.arrays.costs import Ints

#: More than any sum of times.
INFINITE = 2**60


@step
def slide(
    before: Ints, tau: Ints, shortest: int, longest: int, whole: bool, scratch: Ints
) -> tuple[int, int]:
    """Find the best beginning y of a run by its end: the least before[y] - tau[y].

    Parameters
    ----------
    before
        Least cost of the stages before a run, by their body units y; INFINITE if
        impossible. Only zero stages have zero units.
    tau
        Prefix sums of the run's times.
    shortest, longest
        Least and most units of a run.
    whole
        Whether the run ends the pipeline.
    scratch
        Shape (3, L + 1). Its last row is set to the beginning by the end, -1 if none.

    Returns
    -------
    tuple[int, int]
        The first and the last end for which the last row is set.
    """
    worth, queue, best = scratch[0], scratch[1], scratch[2]
    first, last = 0, len(before) - 1
    if before[0] < INFINITE:
        last = 0
    while first <= last and before[first] >= INFINITE:
        first += 1
    while last >= 0 and before[last] >= INFINITE:
        last -= 1
    for y in range(first, last + 1):
        worth[y] = INFINITE
        if before[y] < INFINITE:
            worth[y] = before[y] - tau[y]
    start, stop = first + shortest, min(len(before) - 2, last + longest)
    if whole:
        start = stop = len(before) - 1
    head, tail, following = 0, 0, first
    for end in range(start, stop + 1):
        while following <= last and following <= end - shortest:
            while tail > head and worth[queue[tail - 1]] >= worth[following]:
                tail -= 1
            queue[tail] = following
            tail += 1
            following += 1
        while tail > head and queue[head] < end - longest:
            head += 1
        best[end] = -1
        if tail > head and worth[queue[head]] <= INFINITE // 2:
            best[end] = queue[head]
    return start, stop


@step
def slide_on(
    before: Ints,
    tau: Ints,
    shortest: int,
    longest: int,
    unlike: int,
    start: int,
    scratch: Ints,
) -> None:
    """Extend ``slide``, for ends from ``start`` on, to runs from any first unit."""
    best = scratch[2]
    for e in range(start, len(before)):
        for y in range(max(0, e - longest), min(unlike, e - shortest + 1)):
            known = best[e]
            if before[y] < INFINITE and (
                known < 0 or before[y] - tau[y] < before[known] - tau[known]
            ):
                best[e] = y


@step
def slide_back(
    scratch: Ints,
    first: int,
    last: int,
    shortest: int,
    longest: int,
    later: int,
    unlike: int,
) -> None:
    """Find the least ``worth`` of a run's end by its beginning y, down to ``last``.

    Parameters
    ----------
    scratch
        Worth by the end, from ``first`` on; a queue; the result by y.
    longest, later
        Most units of a run, and of one that begins after ``unlike`` units.
    """
    worth, queue, found = scratch[0], scratch[1], scratch[2]
    length = len(worth) - 1
    head, tail, following = 0, 0, length
    for y in range(length - shortest, max(last, unlike) - 1, -1):
        while following >= first and following >= y + shortest:
            while tail > head and worth[queue[tail - 1]] >= worth[following]:
                tail -= 1
            queue[tail] = following
            tail += 1
            following -= 1
        while tail > head and queue[head] > y + later:
            head += 1
        found[y] = worth[queue[head]] if tail > head else INFINITE
    for y in range(last, min(unlike, length - shortest + 1)):
        found[y] = INFINITE
        for e in range(max(first, y + shortest), min(y + longest, length) + 1):
            found[y] = min(found[y], worth[e])
