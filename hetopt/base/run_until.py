"""End work on time even inside a library, such as a compiler that checks no clock."""

from __future__ import annotations

import ctypes
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from hetopt.base.deadline import Stopped
from hetopt.base.frames import must_go_on
from hetopt.base.interruption import hold, is_held

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.base.deadline import Deadline

_T = TypeVar("_T")

#: Seconds that work gets to end by itself after its time is up.
_GRACE_S = 0.3
#: Seconds until an exception that was lost, in a destructor perhaps, is raised again.
_AGAIN_S = 1.0
#: Seconds until the next try while work must not be interrupted.
_SOON_S = 0.01
#: Steps of a loop, at the first of which Python raises what it was asked to.
_STEPS = 10


class _Late(BaseException):
    """Raised in the working thread; libraries that catch any Exception miss it."""


def run_until(deadline: Deadline, work: Callable[[], _T]) -> _T:
    """Return what work returns, unless its time is up before.

    A single call of machine code is not interrupted: LLVM compiles a large kernel in
    about a second.

    Raises
    ------
    Stopped
        The time is up. What the work changed is as it was at that moment. Any error
        from then on is taken for this one: an interrupted library may drop the
        exception and fail later, as a result is missing.
    """
    left_s = deadline.left_s()
    if left_s is None:
        return work()
    were_held = is_held()
    watch = _Timer(max(left_s, 0.0) + _GRACE_S)
    try:
        try:
            watch.begin()
            return work()
        finally:
            watch.close()
    except _Late:
        # It may have been raised while the watch was being closed.
        watch.close()
    except Exception:
        if not watch.has_raised:
            raise
    if were_held:
        # ``_Late`` may have kept ``released`` from holding signals again.
        hold()
    raise Stopped


def run_in_time(deadline: Deadline, work: Callable[[], _T]) -> _T:
    """Do the same, but begin nothing after the end: there it would get time as well."""
    if deadline.is_over():
        raise Stopped
    return run_until(deadline, work)


class _Timer:
    """Raises ``_Late`` in the thread that made it, some seconds after ``begin``.

    Attributes
    ----------
    has_raised
        Whether ``_Late`` was raised.
    """

    def __init__(self, seconds: float) -> None:
        self.has_raised = False
        self._worker = threading.get_ident()
        self._unraisable = sys.unraisablehook
        # Python cannot wait for longer than that, which is centuries.
        self._seconds = min(seconds, threading.TIMEOUT_MAX)
        self._begun, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._wait, daemon=True)

    def begin(self) -> None:
        """Let the time run; nothing is raised before its thread has started.

        On a busy machine that may take longer than all the time there is.
        """
        sys.unraisablehook = self._tell
        self._thread.start()
        self._begun.set()

    def close(self) -> None:
        """End the watch; nothing is raised from then on."""
        self._over.set()
        self._begun.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._take()
        sys.unraisablehook = self._unraisable

    def _take(self) -> None:
        """Take an exception that is still to come, at one of the next steps.

        If it was cancelled instead, Python 3.11 would go on looking for it: under a
        profiler or a debugger that never ends.
        """
        if self.has_raised:
            with suppress(_Late):
                for _ in range(_STEPS):
                    pass

    def _tell(self, unraisable: sys.UnraisableHookArgs) -> None:
        """Pass on all but ``_Late``: if lost in a destructor, it is raised again."""
        if unraisable.exc_type is not _Late:
            self._unraisable(unraisable)

    def _wait(self) -> None:
        self._begun.wait()
        seconds = self._seconds
        while not self._over.wait(seconds):
            seconds = _AGAIN_S
            if must_go_on(sys._current_frames().get(self._worker)):
                seconds = _SOON_S
            else:
                self.has_raised = True
                self._raise()

    def _raise(self) -> None:
        """Make the working thread raise ``_Late`` next."""
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(self._worker), ctypes.py_object(_Late)
        )
