"""Columns of the arrays of a ``Walk``, which compiled simulations read and write."""

from __future__ import annotations

from enum import IntEnum


class StageTime(IntEnum):
    """Columns of ``Walk.times``.

    phi, beta without w, kappa and omega to the next stage, W, g, w, and by how many
    micro-batches w comes later than its beta.
    """

    PHI, BETA, HOP, PACE, FLIGHT, SYNCED, LATER, LATE = range(8)


class Clock(IntEnum):
    """Columns of ``Walk.clock``.

    When a stage is free, its forwards so far, and when its links to the next and to
    the previous stage are free.
    """

    FREE, FORWARDS, NEXT, BEFORE = range(4)
