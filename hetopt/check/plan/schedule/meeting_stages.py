"""The checker's simulation of blocking transfers, written for readability."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    #: "pass", stage and duration; or "meet", boundary and number of messages.
    Task = tuple[str, int, int]


class Durations(NamedTuple):
    """Whole nanoseconds of p stages and p - 1 boundaries, for q micro-batches."""

    forward: tuple[int, ...]
    backward: tuple[int, ...]
    transfer: tuple[int, ...]
    microbatches: int


def simulate_blocking(times: Durations, counts: Sequence[int], chi: int) -> list[int]:
    """Return the end of every stage's last backward, in nanoseconds.

    A transfer starts when both stages of its boundary have reached it, and occupies
    both: for one transfer time, or for two if it is an exchange and ``chi`` is 2.

    Raises
    ------
    ValueError
        Stages deadlock, or do not wait for the same transfer.
    """
    p = len(counts)
    lists = [list(_tasks(times, i, counts[i] - 1))[::-1] for i in range(p)]
    clock, ended = [0] * p, [0] * p
    while any(lists):
        moved = False
        for i, left in enumerate(lists):
            while left and left[-1][0] == "pass":
                clock[i] += left.pop()[2]
                ended[i] = clock[i]
                moved = True
            if not left or left[-1][1] != i:
                continue
            if i + 1 < p and lists[i + 1] and lists[i + 1][-1] == left[-1]:
                _, boundary, messages = left.pop()
                lists[i + 1].pop()
                spent = times.transfer[boundary] * (chi if messages == 2 else 1)
                clock[i] = clock[i + 1] = max(clock[i], clock[i + 1]) + spent
                moved = True
        if not moved:
            msg = f"warm-ups {tuple(counts)} block each other"
            raise ValueError(msg)
    return ended


def _tasks(times: Durations, i: int, ahead: int) -> Iterator[Task]:
    """Yield what stage i does: passes, and transfers at boundaries i - 1 and i.

    Parameters
    ----------
    ahead
        Number of forwards before the first that a backward follows.
    """
    last, q = len(times.forward) - 1, times.microbatches
    forward, backward = ("pass", i, times.forward[i]), ("pass", i, times.backward[i])
    for _ in range(min(ahead, q)):
        if i:
            yield ("meet", i - 1, 1)
        yield forward
        if i < last:
            yield ("meet", i, 1)
    if ahead < q and i:
        yield ("meet", i - 1, 1)
    for m in range(q):
        paired = ahead + m < q
        if paired:
            yield forward
        if i < last:
            yield ("meet", i, 2 if paired else 1)
        yield backward
        if i:
            yield ("meet", i - 1, 2 if ahead + m + 1 < q else 1)
