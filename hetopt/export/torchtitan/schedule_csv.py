"""Schedules as torch.distributed.pipelining loads them.

One row per pipeline rank; a cell is ``<stage><F|B><micro-batch>`` (B: the whole
backward pass), an empty cell is idle. hetopt's stages run F_1..F_W, B_1, F_(W+1), B_2,
... (MODEL.md section 4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def schedule_text(warmups: Sequence[int], microbatches: int) -> str:
    """Return the rows of all stages; warm-ups may not rise from stage to stage.

    Stages and micro-batches count from 0.
    """
    return "".join(
        ",".join(_passes(stage, warmup, microbatches)) + "\n"
        for stage, warmup in enumerate(warmups)
    )


def _passes(stage: int, warmup: int, microbatches: int) -> Iterator[str]:
    first = min(warmup, microbatches)
    for number in range(first):
        yield f"{stage}F{number}"
    for number in range(microbatches):
        yield f"{stage}B{number}"
        if first + number < microbatches:
            yield f"{stage}F{first + number}"
