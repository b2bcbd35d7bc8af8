from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetopt.schedule.warmup import warmup_counts

if TYPE_CHECKING:
    from hetopt.problem.training.choices import ScheduleName


def counts(
    schedule: ScheduleName,
    crosses: list[bool],
    round_trip: list[int],
    transfer: list[int],
) -> tuple[int, ...]:
    return warmup_counts(
        schedule,
        microbatches=7,
        crosses=crosses,
        round_trip_ns=round_trip,
        transfer_ns=transfer,
    )


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("1f1b", (4, 3, 2, 1)),
        ("eager-1f1b", (7, 5, 3, 1)),
        ("virtual-1f1b", (5, 4, 2, 1)),
        ("h-1f1b", (7, 6, 4, 1)),
        ("gpipe", (7, 7, 7, 7)),
    ],
)
def test_counts_of_four_stages(
    schedule: ScheduleName, expected: tuple[int, ...]
) -> None:
    crosses = [False, True, False]
    assert counts(schedule, crosses, [90, 100, 80, 95], [1, 50, 51]) == expected


def test_hapt_example_of_three_stages() -> None:
    """A slow first boundary and a quick second one: 5, 2, 1 launches."""
    assert counts("h-1f1b", [True, False], [100, 90, 95], [60, 1]) == (5, 2, 1)


@pytest.mark.parametrize(
    ("transfer", "delta"), [(0, 1), (2, 1), (3, 2), (100, 2), (101, 3), (200, 3)]
)
def test_hapt_thresholds_are_exact(transfer: int, delta: int) -> None:
    assert counts("h-1f1b", [True], [150, 200], [transfer]) == (1 + delta, 1)


def test_slow_transfer_is_the_measure_when_longer_than_every_stage() -> None:
    # lambda_0 = 500: 250 is half of it, 251 more, and 500 itself needs no 4.
    assert counts("h-1f1b", [True] * 4, [9] * 5, [250, 251, 5, 500]) == (10, 8, 5, 4, 1)


@given(
    round_trip=st.integers(1, 10**12),
    transfer=st.integers(0, 10**12),
)
def test_hapt_delta_is_the_formula_of_the_model(round_trip: int, transfer: int) -> None:
    longest = max(round_trip, transfer)
    formula = 1 if 100 * transfer <= longest else 1 - (-2 * transfer // longest)
    first, _ = counts("h-1f1b", [True], [round_trip, round_trip], [transfer])
    assert first - 1 == formula
    if 100 * transfer > longest and longest < 10**6:
        assert formula == ceil(1 + 2 * transfer / longest)


@pytest.mark.parametrize("schedule", ["1f1b", "virtual-1f1b", "h-1f1b"])
def test_single_stage(schedule: ScheduleName) -> None:
    assert counts(schedule, [], [3], []) == (1,)


def test_all_times_zero() -> None:
    assert counts("h-1f1b", [True], [0, 0], [0]) == (2, 1)


def test_unknown_schedule() -> None:
    with pytest.raises(ValueError, match="unknown schedule 'zero-bubble'"):
        counts("zero-bubble", [], [3], [])  # type: ignore[arg-type]


@pytest.mark.parametrize("transfer", [[], [1, 2]])
def test_lengths_must_fit(transfer: list[int]) -> None:
    with pytest.raises(ValueError, match="one stage more"):
        counts("1f1b", [True], [3, 3], transfer)
