"""Work in this process ends on time, whatever it is doing."""

from __future__ import annotations

import time
from typing import NoReturn

import pytest

from hetopt.solvers import deadline
from hetopt.solvers.deadline import Stopped, run_until


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


@pytest.mark.parametrize("left_s", [None, 60.0])
def test_work_that_ends_returns_and_raises(left_s: float | None) -> None:
    assert run_until(left_s, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        run_until(left_s, lambda: 1 // 0)
