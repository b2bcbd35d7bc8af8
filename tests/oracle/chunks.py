"""Stages of several chunks, for the oracle: what they hold, cost, and when they run.

After Megatron-LM's own counting: the k-th forward of a stage is of chunk
``k % (p v) // p``, its k-th backward of the same counted from the last chunk.
Nothing here is shared with hetopt.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hetopt.check.plan.schedule.times import Times


def warmups(p: int, v: int) -> list[int]:
    """Forwards of every stage before its first backward."""
    return [(p - i - 1) * 2 + (v - 1) * p + 1 for i in range(p)]


@cache
def operations(p: int, q: int, v: int, i: int) -> list[tuple[bool, int, int]]:
    """(forward?, chunk, micro-batch) of stage i, in order."""
    total = q * v

    def step(k: int, *, forward: bool) -> tuple[bool, int, int]:
        chunk = k % (p * v) // p
        micro = k // (p * v) * p + k % p
        return forward, chunk if forward else v - 1 - chunk, micro

    ahead = min(warmups(p, v)[i] - 1, total)
    done = [step(k, forward=True) for k in range(ahead)]
    for k in range(total - ahead):
        done += [step(ahead + k, forward=True), step(k, forward=False)]
    done += [step(k, forward=False) for k in range(total - ahead, total)]
    return done


@cache
def most_held(p: int, q: int, v: int, i: int, chunk: int | None) -> int:
    """Most micro-batches that a chunk, or all of stage i, holds at once."""
    held = [0]
    for forward, own, _ in operations(p, q, v, i):
        if chunk in (None, own):
            held.append(held[-1] + (1 if forward else -1))
    return max(held)


def as_passes(times: Times) -> Times:
    """Take passes for micro-batches of eager-1f1b, as programs do."""
    v = len(times.forward)
    forward, backward = (
        (tuple(sum(each) // v for each in zip(*own, strict=True)),)
        for own in (times.forward, times.backward)
    )
    return replace(
        times,
        schedule="eager-1f1b",
        microbatches=times.microbatches * v,
        forward=forward,
        backward=backward,
        transfer=times.transfer[:-1],
        occupancy=times.occupancy[:-1],
    )
