"""Child processes that end with their parent, and print nothing when they end.

A signal from the terminal reaches every process of the group. Only the parent acts on
Ctrl-C: its children start with the signal blocked, before Python could install a
handler, and ignore it later. Other signals to stop end them silently.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from types import ModuleType
from typing import TYPE_CHECKING

from hetopt.base.garbage import collect_rarely
from hetopt.base.interruption import held

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.context import SpawnProcess

#: Linux: "send me this signal when my parent ends".
_SET_DEATH_SIGNAL = 1


def start(process: SpawnProcess) -> None:
    """Start a process that does not see Ctrl-C; it has to call ``settle_in``."""
    with held():
        if not hasattr(signal, "pthread_sigmask"):
            process.start()
            return
        # A process of multiprocessing itself, started with the first child. It ignores
        # Ctrl-C and SIGTERM, but not a closed terminal. Starting it resets the signal
        # mask, so it is started before the mask below is set.
        with _blocked(signal.SIGHUP):
            resource_tracker.ensure_running()
        with _blocked(signal.SIGINT):
            process.start()


def settle_in() -> None:
    """Ignore Ctrl-C, end when the parent has ended, and seldom look for garbage."""
    collect_rarely()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if sys.platform == "linux":
        # The thread cannot run while compiled code does.
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent.pid:
            os._exit(1)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def without_main() -> Iterator[None]:
    """Let spawned processes start without importing the program of this one.

    A program without ``if __name__ == "__main__"`` would start its search again in
    every worker.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def _blocked(number: int) -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
