"""Work in this process that ends on time, even inside a library: compiling, for one."""

from __future__ import annotations

import ctypes
import sys
import threading
from typing import TYPE_CHECKING, TypeVar

from hetopt.interruption import hold, is_held

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")

#: Seconds that work gets to notice by itself that its time is up.
_GRACE_S = 0.3
#: Seconds until an exception that was lost, in a destructor perhaps, is raised again.
_AGAIN_S = 1.0


class Stopped(Exception):
    """The clock ran out."""


class _Late(BaseException):
    """Raised in the working thread; libraries catch an Exception and go on."""


def run_until(left_s: float | None, work: Callable[[], _T]) -> _T:
    """Return what work returns, unless its time is up before.

    A single call of machine code is not interrupted: LLVM compiles a large kernel in
    about a second.

    Parameters
    ----------
    left_s
        Seconds; None without a limit.

    Raises
    ------
    Stopped
        The time is up. What the work changed is as it was at that moment.
    """
    if left_s is None:
        return work()
    were_held = is_held()
    watch = _Watch(max(left_s, 0.0) + _GRACE_S)
    try:
        try:
            return work()
        finally:
            watch.close()
    except _Late:
        # It may have been raised while the watch was being closed.
        watch.close()
        if were_held:
            # It may have been raised on the way out of ``released``.
            hold()
        raise Stopped from None


class _Watch:
    """Raises ``_Late`` in the thread that made it, after so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._worker = threading.get_ident()
        self._unraisable = sys.unraisablehook
        sys.unraisablehook = self._tell
        self._seconds = seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._wait, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the watch; nothing is raised from then on."""
        self._over.set()
        self._thread.join()
        self._raise(None)
        sys.unraisablehook = self._unraisable

    def _tell(self, unraisable: sys.UnraisableHookArgs) -> None:
        """Say nothing of ours that ended in a destructor: it is raised again."""
        if unraisable.exc_type is not _Late:
            self._unraisable(unraisable)

    def _wait(self) -> None:
        seconds = self._seconds
        while not self._over.wait(seconds):
            self._raise(_Late)
            seconds = _AGAIN_S

    def _raise(self, error: type[BaseException] | None) -> None:
        """Have the working thread raise this next; None takes it back."""
        what = ctypes.py_object() if error is None else ctypes.py_object(error)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._worker), what)
