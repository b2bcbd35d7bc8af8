"""Processes that tests start: how they heed signals, and which of them are left."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from hetopt.base.interruption import SIGNALS

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Seconds in which what a test has ended, but not waited for, is gone.
PATIENCE_S = 5.0
#: ``PR_SET_CHILD_SUBREAPER`` of <linux/prctl.h>.
_SET_CHILD_SUBREAPER = 36
#: Of Python's multiprocessing, for as long as a process runs.
_STAYING = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")


def heed() -> None:
    """Ignore no signal: jobs in a shell's background, or under nohup, inherit that."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def ignored(*numbers: int) -> Iterator[None]:
    """Ignore signals in this process, as ``nohup`` makes it ignore SIGHUP."""
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends; only on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children(pid: int | str = "self") -> set[int]:
    """Return the children of a process; none where the system has no /proc."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            listed = Path(f"/proc/{pid}/task/{thread}/children").read_text("ascii")
            found.update(map(int, listed.split()))
    return found


def alive(pid: int) -> bool:
    """Whether a process runs; one that nobody waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "XZ"


def ended(pid: int) -> None:
    """A process that was killed is gone in a moment."""
    deadline = time.monotonic() + PATIENCE_S
    while alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def left(before: set[int]) -> dict[int, str]:
    """Return the command line of every child that still runs and was not there before.

    Children get some seconds to end, in which they are looked at again and again.
    """
    deadline = time.monotonic() + PATIENCE_S
    while running := _running(before):
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    return running


def _running(before: set[int]) -> dict[int, str]:
    new = {pid: _command(pid) for pid in children() - before if alive(pid)}
    return {
        pid: command
        for pid, command in new.items()
        if not any(name in command for name in _STAYING)
    }


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace").split("\0")
    except OSError:
        return ""
    return " ".join(words).strip()


def end(pid: int) -> None:
    """Kill a process with its descendants."""
    below = children(pid)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    for child in below:
        end(child)
