"""Work in this process ends on time, whatever it is doing."""

from __future__ import annotations

import sys
import time
from typing import NoReturn

import pytest

from hetopt.solvers.pools import deadline
from hetopt.solvers.pools.deadline import Stopped, run_until


def _stubborn() -> NoReturn:
    """Work on, and take no exception for an answer, as numba's type inference does."""
    while True:
        try:
            time.sleep(0.001)
        except Exception:
            continue


def test_work_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "_GRACE_S", 0.0)
    with pytest.raises(Stopped):
        run_until(0.01, _stubborn)
    # Nothing comes after it.
    time.sleep(0.05)


class _Slow:
    """Takes its time to be destroyed: what is raised meanwhile, Python only prints."""

    def __del__(self) -> None:
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            pass


def test_nothing_is_said_of_an_end_that_a_destructor_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deadline, "_GRACE_S", 0.0)
    monkeypatch.setattr(deadline, "_AGAIN_S", 0.5)
    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)

    def work() -> NoReturn:
        _Slow()
        _stubborn()

    with pytest.raises(Stopped):
        run_until(0.01, work)
    assert said == []
    assert sys.unraisablehook == said.append


@pytest.mark.parametrize("left_s", [None, 60.0])
def test_work_that_ends_returns_and_raises(left_s: float | None) -> None:
    assert run_until(left_s, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        run_until(left_s, lambda: 1 // 0)
