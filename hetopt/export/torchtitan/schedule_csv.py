"""Schedules as torch.distributed.pipelining loads them.

One row per pipeline rank; a cell is ``<stage><F|B><micro-batch>`` (B: the whole
backward pass), an empty cell is idle. hetopt's stages run F_1..F_W, B_1, F_(W+1), B_2,
... (``hetopt.schedule.orders``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.schedule.orders import Orders

if TYPE_CHECKING:
    from collections.abc import Sequence


def schedule_text(warmups: Sequence[int], microbatches: int) -> str:
    """Return the rows of all stages; warm-ups may not rise from stage to stage.

    Stages and micro-batches count from 0.
    """
    orders = Orders(warmups=tuple(warmups), microbatches=microbatches)
    return "".join(
        ",".join(f"{stage}{kind}{number}" for kind, number in orders.of(stage)) + "\n"
        for stage in range(orders.stages)
    )
