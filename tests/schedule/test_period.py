from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from hetopt.schedule.period import period_by_recursion
from hetopt.schedule.run import simulate
from tests.schedule.pipelines import pipeline, pipelines, random_pipeline

if TYPE_CHECKING:
    from hetopt.schedule.times import PipelineTimes


def window_maximum(times: PipelineTimes) -> Fraction:
    """MODEL.md section 4, word by word."""
    tau, kappa, w = times.round_trip_ns, times.transfer_ns, times.warmups
    ratios = [
        Fraction(sum(tau[i : k + 1]) + 2 * sum(kappa[i:k]), w[i] - w[k] + 1)
        for k in range(len(tau))
        for i in range(k + 1)
    ]
    return max([*ratios, *map(Fraction, times.occupancy_ns)])


def period_is_feasible(
    times: PipelineTimes, period: Fraction | int, reverse: bool = False
) -> bool:
    """Whether MODEL.md's recursion stays within a period, from either end."""
    exact = Fraction(period)
    if any(occupancy > exact for occupancy in times.occupancy_ns):
        return False
    limit, scale = exact.numerator, exact.denominator
    step = -1 if reverse else 1
    transfer = times.transfer_ns[::step]
    deltas = [here - after for here, after in pairwise(times.warmups)][::step]
    excess = 0
    for stage, duration in enumerate(times.round_trip_ns[::step]):
        if stage:
            excess = max(
                0, excess + 2 * transfer[stage - 1] * scale - deltas[stage - 1] * limit
            )
        excess += duration * scale
        if excess > limit:
            return False
    return True


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        # One stage: its own time.
        (pipeline([2], [3], microbatches=4, warmups=[1]), Fraction(5)),
        # 1F1B hides nothing of a transfer between balanced stages: (20 + 2*3) / 2.
        (pipeline([4, 4], [6, 6], [3], microbatches=4, warmups=[2, 1]), Fraction(13)),
        # One more warm-up hides it: max(10, 26 / 3).
        (pipeline([4, 4], [6, 6], [3], microbatches=4, warmups=[3, 1]), Fraction(10)),
        # A ratio that is no whole number: (20 + 2*6) / 3.
        (
            pipeline([4, 4], [6, 6], [6], microbatches=4, warmups=[3, 1]),
            Fraction(32, 3),
        ),
        # The link limits: omega of 40.
        (
            pipeline(
                [4, 4], [6, 6], [40], microbatches=4, warmups=[30, 1], occupancy=[40]
            ),
            Fraction(40),
        ),
        # HAPT's {5, 2, 1}: (30 + 2*(9+1)) / 5 = 10; {5, 2}: (20 + 18) / 4.
        (
            pipeline([4] * 3, [6] * 3, [9, 1], microbatches=4, warmups=[5, 2, 1]),
            Fraction(11),
        ),
    ],
)
def test_hand_computed(times: PipelineTimes, expected: Fraction) -> None:
    assert window_maximum(times) == expected
    assert period_by_recursion(times) == expected


def test_both_forms_agree_on_many_pipelines() -> None:
    random = Random(20)
    for _ in range(4_000):
        times = random_pipeline(random, max_stages=12, microbatches=1)
        period = period_by_recursion(times)
        assert period == window_maximum(times)
        for reverse in (False, True):
            assert period_is_feasible(times, period, reverse)
            assert not period_is_feasible(times, period - Fraction(1, 10**9), reverse)
            assert period_is_feasible(times, period + 1, reverse)


@given(pipelines())
def test_both_forms_agree_with_zeros_and_ties(times: PipelineTimes) -> None:
    times = replace(times, schedule="1f1b")
    assert period_by_recursion(times) == window_maximum(times)


def test_steady_state_of_the_simulation() -> None:
    """Far from both ends, one micro-batch completes every period."""
    random = Random(21)
    for _ in range(60):
        times = random_pipeline(random, max_stages=6, microbatches=300)
        longer = replace(times, microbatches=900)
        slope = (simulate(longer).makespan_ns - simulate(times).makespan_ns) / 600
        assert slope == pytest.approx(float(period_by_recursion(times)), rel=1e-3)


def test_steady_state_is_exact_over_whole_cycles() -> None:
    """W_1 - W_k + 1 micro-batches take exactly that many periods."""
    times = pipeline([4, 4], [6, 6], [6], microbatches=60, warmups=[3, 1])
    longer = replace(times, microbatches=63)
    difference = simulate(longer).makespan_ns - simulate(times).makespan_ns
    assert difference == 3 * period_by_recursion(times) == 32


def test_warmups_beyond_q_count_in_the_period() -> None:
    times = pipeline([4, 4], [6, 6], [6], microbatches=1, warmups=[3, 1])
    assert period_by_recursion(times) == Fraction(32, 3)


def test_refuses_gpipe_and_deadlock() -> None:
    gpipe = pipeline([1], [1], microbatches=2, warmups=[2], schedule="gpipe")
    with pytest.raises(ValueError, match="gpipe has no steady state"):
        period_by_recursion(gpipe)
    rising = pipeline([1, 1], [1, 1], [0], microbatches=4, warmups=[1, 2])
    with pytest.raises(ValueError, match="stage 1 warms up with 2 forwards, stage 0"):
        period_by_recursion(rising)
