"""Zero bubble (ZB-H1): gradients of weights that run later than those of inputs.

Stage i of p runs as many forwards ahead as under 1F1B. Its backward pass first computes
the gradient for the stage before it (B); nothing waits for the gradients of its weights
(W), so they fill idle time. Stage i, counted from 0, runs the W of a micro-batch
directly after the B that comes i micro-batches later, and the rest at the end, as in
Qi et al., "Zero Bubble Pipeline Parallelism", section 2.3, and PyTorch's
``ScheduleInterleavedZeroBubble`` with one stage a rank. So every stage holds p
micro-batches: p - i before their B, and i that wait for their W.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.schedule.events import BACKWARD, FORWARD, WEIGHT

if TYPE_CHECKING:
    from collections.abc import Iterator


def held_and_waiting(warmup: int, stages: int, microbatches: int) -> tuple[int, int]:
    """Return how many micro-batches a stage holds before their B, and before their W.

    The first is the most at once; the sum is the most of both kinds together.

    Parameters
    ----------
    warmup
        W of the stage, not cut to q.
    stages, microbatches
        p and q.
    """
    held = min(warmup, microbatches)
    return held, max(0, min(stages, microbatches) - held)


def split_order(
    warmup: int, postponed: int, microbatches: int
) -> Iterator[tuple[int, int]]:
    """Yield kind and micro-batch of the passes of a stage, in order.

    Parameters
    ----------
    warmup
        Forwards before the first backward, at most q.
    postponed
        By how many micro-batches a W runs later than its B.
    """
    yield from ((FORWARD, m) for m in range(warmup))
    for m in range(microbatches):
        yield BACKWARD, m
        if m >= postponed:
            yield WEIGHT, m - postponed
        if m + warmup < microbatches:
            yield FORWARD, m + warmup
    for m in range(max(0, microbatches - postponed), microbatches):
        yield WEIGHT, m
