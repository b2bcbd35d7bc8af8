"""What is measured within a budget; needs no PyTorch."""

from __future__ import annotations

from functools import partial

import pytest

from hetopt.profile import task_loop
from hetopt.profile.task_loop import (
    MeasuringOutcome,
    MeasuringProgress,
    Task,
    measure_tasks,
)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(task_loop, "time", found)
    return found


def tasks(clock: Clock, *actual_s: float, guess: float = 1.0) -> list[Task[float]]:
    """Return tasks that take ``actual_s``; ``guess`` of it is expected."""

    def measure(seconds: float) -> float:
        clock.now += seconds
        return seconds

    return [
        Task(
            label=f"{seconds} s",
            kind="x",
            expected_s=guess * seconds,
            measure=partial(measure, seconds),
        )
        for seconds in actual_s
    ]


def run(found: list[Task[float]], budget_s: float) -> MeasuringOutcome[float]:
    kept: list[float] = []
    outcome = measure_tasks(
        found, kept.append, lambda _: None, found=1, what="tasks", budget_s=budget_s
    )
    assert tuple(kept) == outcome.measured
    return outcome


def test_a_task_that_takes_too_much_of_the_time_is_left_out(clock: Clock) -> None:
    outcome = run(tasks(clock, 0.1, 1.0, 30.0), budget_s=100)
    assert outcome.measured == (0.1, 1.0)
    assert (outcome.found, outcome.remaining, outcome.interrupted) == (1, 1, False)


def test_a_task_waits_until_it_is_known_how_long_it_takes(clock: Clock) -> None:
    """Nothing is known before the first: it may take ``FIRST_PACE`` times as long."""
    assert run(tasks(clock, 3.0, 0.2), budget_s=100).measured == (0.2, 3.0)


def test_the_time_is_kept_even_if_tasks_take_longer_than_expected(clock: Clock) -> None:
    outcome = run(tasks(clock, *[2.0] * 100, guess=0.1), budget_s=100)
    assert clock.now <= 100
    assert len(outcome.measured) >= 49


def test_without_a_budget_all_is_measured(clock: Clock) -> None:
    seen: list[MeasuringProgress] = []
    found = tasks(clock, 100.0, 1.0)
    outcome = measure_tasks(found, lambda _: None, seen.append, found=2, what="tasks")
    assert outcome.measured == (100.0, 1.0)
    assert [progress.label for progress in seen] == ["100.0 s", "1.0 s", None]
    assert [(p.done, p.total, p.work_done) for p in seen] == [
        (2, 4, 0.0),
        (3, 4, 100.0),
        (4, 4, 101.0),
    ]
