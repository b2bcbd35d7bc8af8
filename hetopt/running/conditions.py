"""What else the machine did during a run, and whether the run's times are reliable."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from hetopt.base.fields import Count, NotNegative
from hetopt.base.file_record import FileRecord
from hetopt.base.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Largest difference between the longest and the shortest iteration, as a share of the
#: median.
MOST_SPREAD = 0.1
#: Largest load as a multiple of the cores: ranks that keep all cores busy are a load as
#: large as their number, and hetopt itself adds a little.
MOST_LOAD = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions(FileRecord):
    """The conditions of the timed iterations.

    Attributes
    ----------
    threads
        Threads that each rank computes with on a CPU.
    cores
        Cores of the machine.
    load
        Mean number of the machine's threads that ran or waited for a core, those of
        the ranks included; None if it is not known.
    cpu_shares
        CPU time over wall time of each rank, summed over its threads.
    """

    threads: Count
    cores: Count
    load: NotNegative | None
    cpu_shares: tuple[NotNegative, ...]

    @property
    def load_text(self) -> str:
        """The load and the cores, in words."""
        load = "not known" if self.load is None else f"{self.load:.1f}"
        return f"{load} on {counted(self.cores, 'core')}"


def running_threads() -> int | None:
    """Return how many other threads of this machine run or wait for a core.

    None if the system has no ``/proc/loadavg``.
    """
    try:
        fields = Path("/proc/loadavg").read_text("ascii").split()
    except OSError:
        return None
    # This thread, which reads it, is one of them.
    return int(fields[3].partition("/")[0]) - 1


def conditions_of(
    ranks: Sequence[dict[str, Any]], loads: Sequence[tuple[float, int]]
) -> Conditions | None:
    """Return the conditions of a run; None if the program of its bundle is older.

    Parameters
    ----------
    ranks
        What every rank wrote.
    loads
        Times of ``time.perf_counter``, and what ``running_threads`` was then.
    """
    if not all("threads" in rank for rank in ranks):
        return None
    rows = [rank["iterations"] for rank in ranks]
    begin = min(own[0]["start_s"] for own in rows)
    end = max(own[-1]["end_s"] for own in rows)
    during = [load for at, load in loads if begin <= at <= end]
    shares = (
        sum(each["cpu_s"] for each in own)
        / sum(each["end_s"] - each["start_s"] for each in own)
        for own in rows
    )
    return Conditions(
        threads=max(rank["threads"] for rank in ranks),
        cores=os.cpu_count() or 1,
        load=fmean(during) if during else None,
        cpu_shares=tuple(shares),
    )


def noise_of(
    iteration_s: Sequence[float], conditions: Conditions | None
) -> tuple[str, ...]:
    """Return why a run's times are unreliable; nothing if nothing says so.

    Parameters
    ----------
    conditions
        None if they are not known: then only the iterations can say.
    """
    found = []
    spread = (max(iteration_s) - min(iteration_s)) / median(iteration_s)
    if spread > MOST_SPREAD:
        found.append(f"iterations that differ by {spread:.0%} of their median")
    if conditions and (conditions.load or 0) > MOST_LOAD * conditions.cores:
        found.append(f"a load of {conditions.load_text}")
    return tuple(found)
