"""When work has to end, and work that ends on time even inside a library.

Compiling, for one, asks no clock.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hetopt.interruption import hold, is_held

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

_T = TypeVar("_T")

#: Seconds that work gets to notice by itself that its time is up.
_GRACE_S = 0.3
#: Seconds until an exception that was lost, in a destructor perhaps, is raised again.
_AGAIN_S = 1.0
#: Seconds until another try where work must not be ended just now.
_SOON_S = 0.01


class Stopped(Exception):
    """The clock ran out."""


class Interrupted(Exception):
    """A search ended before it was done: out of time or memory, or told to stop."""


class _Late(BaseException):
    """Raised in the working thread; libraries catch an Exception and go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """Since when work is timed, and until when it may go on.

    It is about the clock of one machine: another one is told seconds.

    Attributes
    ----------
    limit_s
        Seconds that the work may take; None for as long as it needs.
    began
        On the clock of ``time.monotonic``.
    """

    limit_s: float | None = None
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def after(cls, limit_s: float | None) -> Deadline:
        """Return the deadline of work that begins now."""
        return cls(limit_s=limit_s)

    def elapsed_s(self) -> float:
        """Return the seconds since the work began."""
        return time.monotonic() - self.began

    def left_s(self) -> float | None:
        """Return the seconds left, negative when late; None without a limit."""
        return None if self.limit_s is None else self.limit_s - self.elapsed_s()

    def is_over(self) -> bool:
        """Whether the time is up."""
        left_s = self.left_s()
        return left_s is not None and left_s <= 0

    def within(
        self, limit_s: float | None = None, *, least_s: float = -inf
    ) -> Deadline:
        """Return the deadline of a part of the work, which begins now.

        Parameters
        ----------
        limit_s
            Seconds that the part may take, if that many are left.
        least_s
            Seconds that it gets in any case, if there is a limit.
        """
        known = [each for each in (self.left_s(), limit_s) if each is not None]
        return Deadline.after(max(min(known), least_s) if known else None)


def run_until(deadline: Deadline, work: Callable[[], _T]) -> _T:
    """Return what work returns, unless its time is up before.

    A single call of machine code is not interrupted: LLVM compiles a large kernel in
    about a second.

    Raises
    ------
    Stopped
        The time is up. What the work changed is as it was at that moment. An error
        that it ends in from then on counts as that, too: a library that is disturbed
        may drop the exception, and then miss what it was about to make.
    """
    left_s = deadline.left_s()
    if left_s is None:
        return work()
    were_held = is_held()
    watch = _Timer(max(left_s, 0.0) + _GRACE_S)
    try:
        try:
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
        # It may have been raised on the way out of ``released``.
        hold()
    raise Stopped


def _must_go_on(frame: FrameType | None) -> bool:
    """Whether numba or LLVM would not survive an exception that comes just now.

    numba takes note of what it can compile in generators. One that an exception ends
    stays ended, and no kernel can be loaded any more. LLVM hands what it compiled to
    a function that it calls back: an exception there is dropped, and the kernel with
    it, which ends in an error later on.
    """
    while frame is not None:
        code = frame.f_code
        packages = Path(code.co_filename).parts
        if "llvmlite" in packages or (
            code.co_name == "refresh" and "numba" in packages
        ):
            return True
        frame = frame.f_back
    return False


class _Timer:
    """Raises ``_Late`` in the thread that made it, after so many seconds.

    Attributes
    ----------
    has_raised
        Whether it did.
    """

    def __init__(self, seconds: float) -> None:
        self.has_raised = False
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
            seconds = _AGAIN_S
            if _must_go_on(sys._current_frames().get(self._worker)):
                seconds = _SOON_S
            else:
                self.has_raised = True
                self._raise(_Late)

    def _raise(self, error: type[BaseException] | None) -> None:
        """Have the working thread raise this next; None takes it back."""
        what = ctypes.py_object() if error is None else ctypes.py_object(error)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._worker), what)
