"""The remainder of a command's time limit when its search begins."""

from __future__ import annotations

import time

#: Seconds for reading and building the table that do not count towards the limit; more
#: than that is subtracted from the search's time.
_BESIDE_S = 1.0
#: Least seconds of a search: enough for a plan of one strategy.
_LEAST_S = 0.25


class _Clock:
    began = time.monotonic()


def begin() -> None:
    """Record that a command begins now."""
    _Clock.began = time.monotonic()


def left_s(limit_s: float | None) -> float | None:
    """Return the seconds a search may take under a limit for the whole command."""
    if limit_s is None:
        return None
    late_s = max(0.0, time.monotonic() - _Clock.began - _BESIDE_S)
    return max(limit_s - late_s, min(limit_s, _LEAST_S))
