"""Work in this process ends on time, whatever it is doing."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import FunctionType
from typing import NoReturn

import pytest

from hetopt.base import run_until as ending
from hetopt.base.deadline import Deadline, Stopped
from hetopt.base.run_until import run_in_time, run_until


def _stubborn() -> NoReturn:
    """Work on, and take no exception for an answer, as numba's type inference does."""
    while True:
        try:
            time.sleep(0.001)
        except Exception:
            continue


def test_work_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "_GRACE_S", 0.0)
    with pytest.raises(Stopped):
        run_until(Deadline.after(0.01), _stubborn)
    # Nothing comes after it.
    time.sleep(0.05)


def test_a_watch_that_starts_late_ends_work_like_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a busy machine its thread may take longer to start than there is time."""
    monkeypatch.setattr(ending, "_GRACE_S", 0.0)
    start = threading.Thread.start

    def held_up(thread: threading.Thread) -> None:
        start(thread)
        end = time.monotonic() + 0.1
        while time.monotonic() < end:
            pass

    monkeypatch.setattr(threading.Thread, "start", held_up)
    hook = sys.unraisablehook
    with pytest.raises(Stopped):
        run_until(Deadline.after(0.0), _stubborn)
    assert sys.unraisablehook is hook


def test_an_error_of_work_that_was_disturbed_is_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """LLVM drops what is raised where it calls back, and then misses a kernel."""
    monkeypatch.setattr(ending, "_GRACE_S", 0.0)

    def work() -> NoReturn:
        with suppress(BaseException):
            _stubborn()
        msg = "no such kernel"
        raise KeyError(msg)

    with pytest.raises(Stopped):
        run_until(Deadline.after(0.01), work)


#: Work within its time and beyond it, then a profiled call.
_PROFILED = """
import cProfile
from hetopt.base import run_until as ending
from hetopt.base.deadline import Deadline, Stopped

ending._GRACE_S = 0.0
assert ending.run_until(Deadline.after(60.0), lambda: 1) == 1
try:
    ending.run_until(Deadline.after(0.01), lambda: [0 for _ in iter(int, 1)])
except Stopped:
    print("stopped")
print(cProfile.Profile().runcall(lambda: 2))
"""


def test_what_follows_can_be_profiled() -> None:
    """Python 3.11 looks for ever for an exception that was cancelled."""
    command = [sys.executable, "-c", _PROFILED]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["stopped", "2"]


def test_an_error_in_time_is_raised() -> None:
    def work() -> NoReturn:
        msg = "wrong"
        raise KeyError(msg)

    with pytest.raises(KeyError, match="wrong"):
        run_until(Deadline.after(10.0), work)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        # An exception there leaves numba unable to load a kernel ever after.
        ("site-packages/numba/core/base.py", "refresh"),
        # Or LLVM with code that numba has no more.
        ("site-packages/numba/core/codegen.py", "add_ir_module"),
        # Or a file that is open, which nothing closes.
        ("lib/python3.11/pathlib.py", "read_bytes"),
        ("lib/python3.13/pathlib/_local.py", "open"),
        ("<frozen importlib._bootstrap_external>", "get_data"),
    ],
)
def test_what_must_not_be_interrupted_ends_in_peace(
    file: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "_GRACE_S", 0.0)
    noted = []

    def take_note() -> None:
        end = time.monotonic() + 0.2
        while time.monotonic() < end:
            pass
        noted.append(True)

    code = take_note.__code__.replace(co_name=name, co_filename=file)
    refresh = FunctionType(code, globals(), closure=take_note.__closure__)

    def work() -> NoReturn:
        refresh()
        _stubborn()

    with pytest.raises(Stopped):
        run_until(Deadline.after(0.01), work)
    assert noted


def test_llvm_may_hand_over_what_it_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "_GRACE_S", 0.0)
    monkeypatch.setattr(ending, "_SOON_S", 0.001)
    kept: list[bool] = []

    def hand_over() -> None:
        # What C code calls back: exceptions end here, with a message.
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            pass
        kept.append(True)

    path = Path("site-packages", "llvmlite", "binding", "executionengine.py")
    code = hand_over.__code__.replace(co_filename=str(path))
    called_back = FunctionType(code, globals(), closure=hand_over.__closure__)
    callback = ctypes.CFUNCTYPE(None)(called_back)

    def work() -> NoReturn:
        callback()
        _stubborn()

    with pytest.raises(Stopped):
        run_until(Deadline.after(0.01), work)
    assert kept


class _Slow:
    """Takes its time to be destroyed: what is raised meanwhile, Python only prints."""

    def __del__(self) -> None:
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            pass


def test_nothing_is_said_of_an_end_that_a_destructor_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ending, "_GRACE_S", 0.0)
    monkeypatch.setattr(ending, "_AGAIN_S", 0.5)
    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)

    def work() -> NoReturn:
        _Slow()
        _stubborn()

    with pytest.raises(Stopped):
        run_until(Deadline.after(0.01), work)
    assert said == []
    assert sys.unraisablehook == said.append


@pytest.mark.parametrize("limit_s", [None, 60.0, 1e11])
def test_work_that_ends_returns_and_raises(limit_s: float | None) -> None:
    assert run_until(Deadline.after(limit_s), lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        run_until(Deadline.after(limit_s), lambda: 1 // 0)


def test_work_for_which_there_is_no_time_is_not_begun() -> None:
    begun: list[int] = []
    for limit_s in (None, 60.0):
        run_in_time(Deadline.after(limit_s), lambda: begun.append(1))
    assert len(begun) == 2
    with pytest.raises(Stopped):
        run_in_time(Deadline.after(0.0), lambda: begun.append(1))
    assert len(begun) == 2


def test_a_part_has_what_is_left_and_its_own_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 7.0)
    whole = Deadline(limit_s=10.0, began=0.0)
    assert (whole.elapsed_s(), whole.left_s(), whole.is_over()) == (7.0, 3.0, False)
    assert whole.within().limit_s == 3.0
    assert whole.within(1.0).limit_s == 1.0
    assert whole.within(5.0).limit_s == 3.0
    late = Deadline(limit_s=5.0, began=0.0)
    assert (late.left_s(), late.is_over()) == (-2.0, True)
    assert late.within(least_s=0.1).limit_s == 0.1


def test_without_a_limit_it_is_never_over() -> None:
    free = Deadline()
    assert (free.left_s(), free.is_over()) == (None, False)
    assert free.within(least_s=0.1).limit_s is None
    assert free.within(2.0).limit_s == 2.0
