"""Ctrl-C, SIGTERM and SIGHUP: one way to stop, whatever the process is doing.

Each of them asks the command to stop. Python would raise KeyboardInterrupt for Ctrl-C
only, and between any two instructions, even where that does damage: while a library is
imported, in a destructor, between the end of a search and the writing of its plan. Here

- nothing is raised during an import, or where numba and LLVM cannot be interrupted: it
  is tried again a moment later;
- nothing is raised while signals are held (``hold``, ``held``), except inside
  ``released``: they are remembered, and the next ``released`` or ``check`` raises;
- one request is raised once: a second signal has no effect, as the command is already
  stopping. Only another Ctrl-C, more than ``INSIST_S`` later, interrupts that, too.

Without ``install`` (hetopt as a library) this module does nothing, and solvers catch
Python's own KeyboardInterrupt.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hetopt.base.frames import must_go_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType
    from typing import Self

#: Signals that ask to stop, as far as the system has them.
SIGNALS = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if hasattr(signal, name)
)
#: Seconds after which another Ctrl-C interrupts even the stopping.
INSIST_S = 10.0
#: Seconds until a request that came at such a moment is raised.
_AGAIN_S = 0.01
#: File name in the frames of an import.
_IMPORT = "<frozen importlib._bootstrap>"


class _State:
    """The request to stop, and the state of signals.

    Attributes
    ----------
    number
        The first signal; None if there was none.
    noted_s
        When it came, or when the last one was accepted.
    raised
        Whether KeyboardInterrupt was raised for it.
    held
        Whether nothing may be raised.
    handlers, hook
        Handlers of signals, and of exceptions that nobody catches, before ``install``.
    """

    def __init__(self, *, held: bool) -> None:
        self.number: int | None = None
        self.noted_s = 0.0
        self.raised = False
        self.held = held
        self.handlers: dict[int, Any] = {}
        self.hook: Callable[[sys.UnraisableHookArgs], Any] = sys.unraisablehook


_state = _State(held=False)


def install() -> None:
    """Handle and hold the signals; those that the parent ignored stay ignored."""
    global _state
    _state = _State(held=True)
    if threading.current_thread() is not threading.main_thread():
        return
    for number in SIGNALS:
        known = signal.getsignal(number)
        if known in (signal.SIG_DFL, signal.default_int_handler):
            _state.handlers[number] = known
            signal.signal(number, _note)
    if hasattr(signal, "setitimer"):
        _state.handlers[signal.SIGALRM] = signal.signal(signal.SIGALRM, _retry)
    sys.unraisablehook = _unraisable


def remove(*, ignore: bool = False) -> None:
    """Restore the handlers from before ``install``, and forget what was requested.

    Parameters
    ----------
    ignore
        Whether to ignore the signals instead: the process is about to end.
    """
    global _state
    _state.held = True
    if hasattr(signal, "setitimer") and signal.SIGALRM in _state.handlers:
        signal.setitimer(signal.ITIMER_REAL, 0)
    for number, handler in _state.handlers.items():
        signal.signal(number, signal.SIG_IGN if ignore else handler)
    sys.unraisablehook = _state.hook
    if not ignore:
        # Else a later search of the same process would stop for it, too.
        _state = _State(held=False)


def requested() -> int | None:
    """Return the signal that asked to stop; None if none did."""
    return _state.number


def check() -> None:
    """Raise KeyboardInterrupt if the command was asked to stop."""
    if _state.number is not None:
        _state.raised = True
        raise KeyboardInterrupt


def hold() -> None:
    """Hold signals from now on: there is a result that must not be lost."""
    _state.held = True


def is_held() -> bool:
    """Return whether signals are held."""
    return _state.held


@contextmanager
def held() -> Iterator[None]:
    """Hold signals during a short step that must not be left half done."""
    before, _state.held = _state.held, True
    try:
        yield
    finally:
        _state.held = before
    if not before and not _state.raised:
        check()


class released:
    """Let signals raise inside a block that can be stopped at any point.

    Raises
    ------
    KeyboardInterrupt
        Also on entry, if the command was asked to stop before.
    """

    def __enter__(self) -> Self:
        self._before = _state.held
        check()
        _state.held = False
        if _state.number is not None:
            _state.held = self._before
            check()
        return self

    def __exit__(self, *_: object) -> None:
        _state.held = self._before


def _note(number: int, frame: FrameType | None) -> None:
    now_s = time.monotonic()
    if _state.number is None:
        _state.number, _state.noted_s = number, now_s
    elif number == signal.SIGINT and now_s > _state.noted_s + INSIST_S:
        _state.noted_s, _state.raised, _state.held = now_s, False, False
    _raise(frame)


def _retry(number: int, frame: FrameType | None) -> None:
    if _state.number is not None:
        _raise(frame)


def _raise(frame: FrameType | None) -> None:
    if _state.raised or _state.held:
        return
    if hasattr(signal, "setitimer") and (_is_importing(frame) or must_go_on(frame)):
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
        return
    _state.raised = True
    raise KeyboardInterrupt


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == _IMPORT:
            return True
        frame = frame.f_back
    return False


def _unraisable(lost: sys.UnraisableHookArgs) -> None:
    """Raise a KeyboardInterrupt again that was lost in a destructor or a callback."""
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        _state.hook(lost)
        return
    _state.raised = False
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
