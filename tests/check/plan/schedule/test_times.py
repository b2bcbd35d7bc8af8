"""The checker's own times against the oracle, the pricing and sums by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from hetopt.check import check_plan
from hetopt.check.plan.schedule import run
from hetopt.check.plan.schedule.closed_form import closed_form
from hetopt.check.plan.schedule.times import Times, last_ends, warmups
from hetopt.pricing.price import price
from hetopt.schedule import run as running
from tests.oracle import brute_force
from tests.oracle.instances import make_instance
from tests.schedule.as_checked import makespan_of
from tests.schedule.pipelines import pipelines

if TYPE_CHECKING:
    from hetopt.schedule.times import PipelineTimes


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("schedule_index", range(5))
@pytest.mark.parametrize("first", [1000, pytest.param(1060, marks=pytest.mark.seeds)])
def test_checker_oracle_and_pricing_agree(schedule_index: int, first: int) -> None:
    feasible = 0
    for seed in range(first + schedule_index, first + 60, 5):
        instance = make_instance(seed)
        problem, table = instance.problem, instance.table
        answer = brute_force.solve(problem, table)
        for found in answer.shapes[:: max(1, len(answer.shapes) // 5)]:
            plan = brute_force.to_plan(problem, table, found)
            checked = check_plan(problem, table, plan)
            priced = price(plan, table)
            exact = float(found.closed_form_ns * Fraction(1, 10**9))
            assert checked.closed_form_s == pytest.approx(exact, rel=1e-12)
            assert priced.closed_form_s == pytest.approx(exact, rel=1e-12)
            assert checked.iteration_time_s == pytest.approx(
                priced.iteration_time_s, rel=1e-12
            )
            assert checked.memory_bytes == tuple(priced.memory_bytes)
            feasible += 1
    assert feasible > 30


def test_simulated_by_hand() -> None:
    """Two stages, two micro-batches, a boundary that takes 1 of the 2 it needs."""
    times = Times(
        schedule="1f1b",
        microbatches=2,
        forward=((3, 3),),
        backward=((4, 4),),
        transfer=(2,),
        occupancy=(1,),
        sync=(5, 0),
    )
    counts = warmups(times, ("a", "a"))
    assert counts == (2, 1)
    # F1 0-3, F2 3-6 | F1 5-8, B1 8-12, F2 12-15, B2 15-19 | B1 14-18, B2 21-25
    assert last_ends([times], counts) == [25, 19]
    assert closed_form([times], counts) == 14 + 4 + Fraction(18, 2) + 5


def test_closed_form_of_two_lengths_by_hand() -> None:
    """Lambda is (24 + 6) / 2 of two micro-batches, (7 + 2) / 2 of the three others."""
    longer = Times(
        schedule="1f1b",
        microbatches=2,
        forward=((4, 6),),
        backward=((8, 6),),
        transfer=(3,),
        occupancy=(3,),
        sync=(5, 0),
    )
    shorter = replace(
        longer,
        microbatches=3,
        forward=((2, 1),),
        backward=((2, 2),),
        transfer=(1,),
        occupancy=(1,),
    )
    expected = 24 + 6 + 15 + 3 * Fraction(9, 2) + 5
    assert closed_form([longer, shorter], (2, 1)) == expected


@settings(max_examples=100, deadline=None)
@given(pipelines())
def test_compiled_passes_end_as_plain_python_ones(drawn: PipelineTimes) -> None:
    plain = makespan_of(drawn)
    assert plain == running.simulate(drawn).makespan_ns
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "PAYS_FROM", 0)
        assert makespan_of(drawn) == plain


def test_a_blocked_pipeline_is_an_error() -> None:
    times = Times(
        schedule="1f1b",
        microbatches=2,
        forward=((1, 1),),
        backward=((1, 1),),
        transfer=(0,),
        occupancy=(0,),
        sync=(0, 0),
    )
    with pytest.raises(ValueError, match="block each other"):
        last_ends([times], (1, 2))
