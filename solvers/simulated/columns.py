"""Columns of the arrays of a ``Walk``, which compiled simulations read and write."""

from __future__ import annotations

from enum import IntEnum


class StageTime(IntEnum):
    """Columns of ``Walk.times``: phi, beta, kappa and omega to the next stage, w, g."""

    PHI, BETA, HOP, PACE, FLIGHT, SYNCED = range(6)


class Clock(IntEnum):
    """Columns of ``Walk.clock``.

    When a stage is free, its forwards so far, and when its links to the next and to
    the previous stage are free.
    """

    FREE, FORWARDS, NEXT, BEFORE = range(4)
