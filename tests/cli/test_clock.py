"""What reading takes beyond a second is not added to a time limit."""

from __future__ import annotations

import pytest

from hetopt.cli import clock


@pytest.mark.parametrize(
    ("limit_s", "spent_s", "left_s"),
    [
        (None, 9.0, None),
        (5.0, 0.5, 5.0),
        (5.0, 3.0, 3.0),
        (5.0, 9.0, 0.25),
        (0.1, 9.0, 0.1),
    ],
)
def test_a_limit_is_for_the_whole_command(
    monkeypatch: pytest.MonkeyPatch,
    limit_s: float | None,
    spent_s: float,
    left_s: float | None,
) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    clock.begin()
    now += spent_s
    assert clock.left_s(limit_s) == left_s
