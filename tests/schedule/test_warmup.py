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
    epsilon: float | None = None,
) -> tuple[int, ...]:
    return warmup_counts(
        schedule,
        microbatches=7,
        crosses=crosses,
        round_trip_ns=round_trip,
        transfer_ns=transfer,
        epsilon=epsilon,
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


def case_study(share: float, epsilon: float | None) -> tuple[int, ...]:
    """Return launches of HAPT's case study (section 2.3.2, Table 1).

    Stages take 1.13 and 1.10 t. The first boundary's transfer takes a share of the
    longest on 5 Gbps Ethernet; the second's, of a tensor of the same size on 200 Gbps
    InfiniBand, a 40th of that.
    """
    slow = int(share * 1_130_000)
    stages = [1_130_000, 1_100_000, 1_100_000]
    return counts("h-1f1b", [True, False], stages, [slow, slow // 40], epsilon)


@pytest.mark.parametrize("share", [0.501, 0.75, 1])
def test_hapt_example_of_three_stages(share: float) -> None:
    """HAPT: {5, 2, 1} with c between half of the longest stage's time and all of it."""
    assert case_study(share, None) == (5, 2, 1)
    assert all(case_study(share, epsilon) == (5, 2, 1) for epsilon in (1 / 3, 1 / 40))
    assert case_study(share, 1 / 81) == case_study(share, 0.01) == (6, 3, 1)


def test_hapt_default_has_a_margin_of_two() -> None:
    """InfiniBand at half its rate is still quick; below 1 / 40 not even at its own."""
    stages = [1_130_000, 1_100_000, 1_100_000]
    half_rate = [1_130_000, 1_130_000 // 20]
    assert counts("h-1f1b", [True, False], stages, half_rate) == (5, 2, 1)
    assert case_study(1, 1 / 41) == (6, 3, 1)


@pytest.mark.parametrize(
    ("transfer", "delta"), [(0, 1), (10, 1), (11, 2), (100, 2), (101, 3), (200, 3)]
)
def test_hapt_thresholds_are_exact(transfer: int, delta: int) -> None:
    assert counts("h-1f1b", [True], [150, 200], [transfer]) == (1 + delta, 1)


def test_slow_transfer_is_the_measure_when_longer_than_every_stage() -> None:
    # lambda_0 = 500: 250 is half of it, 251 more, and 500 itself needs no 4.
    assert counts("h-1f1b", [True] * 4, [9] * 5, [250, 251, 25, 500]) == (
        10,
        8,
        5,
        4,
        1,
    )


@given(
    round_trip=st.integers(1, 10**12),
    transfer=st.integers(0, 10**12),
    parts=st.integers(3, 1000),
)
def test_hapt_delta_is_the_formula_of_the_model(
    round_trip: int, transfer: int, parts: int
) -> None:
    longest, own = max(round_trip, transfer), [round_trip, round_trip]
    formula = 1 if parts * transfer <= longest else 1 - (-2 * transfer // longest)
    first, _ = counts("h-1f1b", [True], own, [transfer], 1 / parts)
    assert first - 1 == formula
    if parts * transfer > longest and longest < 10**6:
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
