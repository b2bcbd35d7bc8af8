"""What other programs take of the cores while something is timed."""

from __future__ import annotations

import os
from contextlib import suppress

from hetopt.base.deadline import Deadline
from hetopt.base.machine import cores


class Load:
    """What programs other than this process and its children do, from now on."""

    def __init__(self) -> None:
        self._clock, self._busy_s, self._own_s = Deadline(), _busy_s(), _own_s()

    def taken_share(self, jobs: int | None) -> float | None:
        """Return the most that others can have taken of what so many workers can use.

        Cores that neither the workers nor the others need are nobody's loss. Children
        count once they have ended.

        Parameters
        ----------
        jobs
            Number of workers; None: one per core; 0: this process alone.

        Returns
        -------
        None where the system does not say; only Linux does.
        """
        until_s = _busy_s()
        if self._busy_s is None or until_s is None:
            return None
        wall_s, count = self._clock.elapsed_s(), cores()
        others = (until_s - self._busy_s - (_own_s() - self._own_s)) / wall_s
        needed = count if jobs is None else min(max(jobs, 1), count)
        return min(max(others + needed - count, 0.0) / needed, 1.0)


def _busy_s() -> float | None:
    """Return how long this process's cores were busy since the system started.

    The sum over the cores in seconds, for all programs, with what other machines on
    the same hardware took ("steal"). Source: proc_stat(5).
    """
    with suppress(OSError), open("/proc/stat", encoding="utf-8") as lines:
        own = {f"cpu{core}" for core in os.sched_getaffinity(0)}
        ticks = [line.split()[1:9] for line in lines if line.split()[0] in own]
        # Without the fourth and fifth: idle, and waiting for disks.
        busy = sum(int(each) for core in ticks for each in (*core[:3], *core[5:]))
        return busy / os.sysconf("SC_CLK_TCK")
    return None


def _own_s() -> float:
    """Return the processor seconds of this process and of its ended children."""
    return sum(os.times()[:4])
