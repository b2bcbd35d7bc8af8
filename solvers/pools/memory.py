"""How much memory a worker may use for labels and for data that it keeps."""

from __future__ import annotations

import os
from pathlib import Path

#: Most bytes for all workers; with tables and processes that makes less than 4 GiB.
MOST_BYTES = 3 << 29
#: Share of the memory available now that all workers may use.
_SHARE = 0.5


def share_bytes(workers: int) -> int:
    """Return the bytes that each worker may use; 0 workers count as one."""
    return int(min(MOST_BYTES, _SHARE * _available_bytes())) // max(workers, 1)


def _available_bytes() -> float:
    """Return the bytes available to this process; infinite if unknown."""
    bounds = [float("inf")]
    for line in _text("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            bounds.append(1024 * float(line.split()[1]))
    # Control groups may permit less.
    most = _text("/sys/fs/cgroup/memory.max").strip()
    used = _text("/sys/fs/cgroup/memory.current").strip()
    if most.isdigit() and used.isdigit():
        # Files that are kept in memory give way.
        files = sum(
            float(line.split()[1])
            for line in _text("/sys/fs/cgroup/memory.stat").splitlines()
            if line.startswith(("active_file ", "inactive_file "))
        )
        bounds.append(max(0.0, float(most) - max(0.0, float(used) - files)))
    if len(bounds) == 1 and "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        bounds.append(os.sysconf("SC_PHYS_PAGES") * float(os.sysconf("SC_PAGE_SIZE")))
    return min(bounds)


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except OSError:
        return ""
