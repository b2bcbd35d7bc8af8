"""ZB-V: two chunks a stage, the second on the way back (Qi et al., section 6).

The model is folded in the middle: stage i of p holds the i-th of 2 p chunks, counted
from the embedding, and the i-th from the head. A micro-batch goes downstream through
the first chunks of all stages, turns on the last one, and comes back upstream through
the second chunks; so the first stage's devices hold both ends of the model, and the
turn needs no transfer. Gradients go the same way in reverse, and those of weights (W)
run apart from those of inputs (B). The order is that of PyTorch's
``ScheduleZBVZeroBubble``; it does not depend on times. A *pass* is one micro-batch on
one chunk; at most 2 p passes are in flight on a stage. Pass ``2 m + c`` is micro-batch
m on chunk c.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetopt.schedule.events import BACKWARD, FORWARD, WEIGHT

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Chunks per stage.
CHUNKS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """Further times of a folded pipeline of p stages, besides those of both chunks.

    Attributes
    ----------
    forward_ns, backward_ns, weight_ns
        Times of the stage's first chunk; length p.
    handed_on_ns
        What a stage adds to a window that begins before it (MODEL.md's h): the longer
        of forward and B, unit by unit; length p.
    fill_ns
        What a stage adds to the fill (``hetopt.cost.folding.fill_ns``); length p.
    """

    forward_ns: tuple[int, ...]
    backward_ns: tuple[int, ...]
    weight_ns: tuple[int, ...]
    handed_on_ns: tuple[int, ...]
    fill_ns: tuple[int, ...]


def folded_order(
    stage: int, stages: int, microbatches: int
) -> Iterator[tuple[int, int]]:
    """Yield kind and number of the passes of a stage, in order.

    Parameters
    ----------
    stage, stages, microbatches
        i (counted from 0), p and q.
    """
    for kind, chunk, m in _every(stage, stages, microbatches):
        if m < microbatches:
            yield kind, CHUNKS * m + chunk


def _every(
    stage: int, stages: int, microbatches: int
) -> Iterator[tuple[int, int, int]]:
    """Yield kind, chunk and micro-batch of a stage's passes in the full order.

    It has at least 2 p - 1 micro-batches, so that some may not exist.
    """
    enough = max(2 * stages - 1, microbatches)
    done: dict[tuple[int, int], int] = {}

    def run(*passes: tuple[int, int]) -> Iterator[tuple[int, int, int]]:
        for each in passes:
            done[each] = done.get(each, 0) + 1
            yield *each, done[each] - 1

    rest = stages - stage
    yield from run(*[(FORWARD, 0)] * (2 * rest - 1))
    yield from run(*[(FORWARD, 1), (FORWARD, 0)] * stage)
    yield from run(*[(FORWARD, 1), (BACKWARD, 1), (WEIGHT, 1)] * rest)
    while done[FORWARD, 1] < enough:
        if done[FORWARD, 0] < enough:
            yield from run((FORWARD, 0))
        yield from run((BACKWARD, 0), (WEIGHT, 0))
        yield from run((FORWARD, 1), (BACKWARD, 1), (WEIGHT, 1))
    yield from run(*[(BACKWARD, 0), (BACKWARD, 1)] * stage)
    yield from run(*[(BACKWARD, 0), (WEIGHT, 0)] * rest)
    yield from run(*[(WEIGHT, 1)] * stage, *[(WEIGHT, 0)] * stage)


def sends_to(kind: int, stage: int, number: int, stages: int) -> tuple[int, int] | None:
    """Return stage and pass that receive its output; None at an end and at the turn."""
    down = (kind == FORWARD) == (number % CHUNKS == 0)
    to = stage + (1 if down else -1)
    return (to, number) if 0 <= to < stages else None


def held_at_ends(stages: int, microbatches: int) -> tuple[int, int]:
    """Return how many micro-batches the embedding and the head hold at once.

    The head runs B and W of a micro-batch directly after its forward.
    """
    return min(2 * stages, microbatches), 1
