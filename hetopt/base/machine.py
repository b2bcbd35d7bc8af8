"""A description of the machine and the software that hetopt runs on."""

from __future__ import annotations

import os
import platform
from contextlib import suppress

from hetopt.base.words import counted
from hetopt.version import __version__


def machine() -> str:
    """Return the processor, its load, and the versions of Python and hetopt."""
    load = ""
    if hasattr(os, "getloadavg"):
        load = f", load average {os.getloadavg()[0]:.1f} at the end"
    return (
        f"{processor()}{load}, Python {platform.python_version()}, hetopt {__version__}"
    )


def processor() -> str:
    """Return the number and kind of cores, and the system."""
    return f"{counted(cores(), 'core')} ({_name()}, {platform.system()})"


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _name() -> str:
    """Return the processor's name and architecture, or the architecture only."""
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return f"{value.strip()}, {platform.machine()}"
    return platform.machine()
