"""Transfers that block: against the checker's, and the longest path of a graph."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from random import Random

import pytest

from hetopt.problem.training.choices import ScheduleName
from hetopt.schedule.closed_form import closed_form_ns
from hetopt.schedule.period import period_by_recursion
from hetopt.schedule.run import simulate
from hetopt.schedule.schedules import rule_of
from hetopt.schedule.times import PipelineTimes
from tests.schedule.as_checked import closed_form_of, makespan_of
from tests.schedule.pipelines import pipeline

SCHEDULES: tuple[ScheduleName, ...] = ("1f1b-batched", "1f1b-blocking")


def drawn(seed: int, *, most: int = 6) -> PipelineTimes:
    rng = Random(seed)
    p, q = rng.randint(1, most), rng.randint(1, 9)
    return pipeline(
        [rng.randint(0, 20) for _ in range(p)],
        [rng.randint(0, 20) for _ in range(p)],
        [rng.randint(0, 25) for _ in range(p - 1)],
        microbatches=q,
        warmups=range(p, 0, -1),
        sync=[rng.randint(0, 9) for _ in range(p)],
        schedule=SCHEDULES[seed % 2],
    )


def longest_path(times: PipelineTimes) -> int:
    """Relax the edges of an event graph until nothing changes.

    An event is a pass or a meeting; each starts after those before it on the list of
    every stage that takes part.
    """
    chi, p, q = rule_of(times.schedule).blocking, times.stages, times.microbatches
    lasts: dict[tuple[str, int, int, int], int] = {}
    lists = []
    for i in range(p):
        ahead, own = p - 1 - i, []
        for n in range(q + ahead):
            # The n-th forward, and the backward that comes after it.
            m = n - ahead
            if i and n < q and m < 1:
                own.append(("to", i - 1, n, -1))
            if n < q:
                own.append(("F", i, n, 0))
            if i < p - 1 and (n < q or m >= 0):
                own.append(("to", i, n if n < q else -1, m if m >= 0 else -1))
            if m >= 0:
                own.append(("B", i, m, 0))
                if i:
                    own.append(("to", i - 1, n + 1 if n + 1 < q else -1, m))
        lists.append(own)
        for event in own:
            kind, at, ahead_batch, batch = event
            if kind == "to":
                twice = ahead_batch >= 0 and batch >= 0 and chi == 2
                lasts[event] = times.transfer_ns[at] * (2 if twice else 1)
            else:
                lasts[event] = (times.forward_ns if kind == "F" else times.backward_ns)[
                    at
                ]
    starts = dict.fromkeys(lasts, 0)
    changed = True
    while changed:
        changed = False
        for own in lists:
            for before, after in pairwise(own):
                if starts[before] + lasts[before] > starts[after]:
                    starts[after] = starts[before] + lasts[before]
                    changed = True
    ends = [starts["B", i, q - 1, 0] + times.backward_ns[i] for i in range(p)]
    return max(end + g for end, g in zip(ends, times.sync_ns, strict=True))


@pytest.mark.parametrize("seed", range(120))
def test_simulations_are_the_longest_path(seed: int) -> None:
    times = drawn(seed)
    simulation = simulate(times)
    assert simulation.makespan_ns == longest_path(times)
    assert makespan_of(times) == simulation.makespan_ns
    assert closed_form_of(times) == closed_form_ns(times)
    path = simulation.critical_path()
    assert path[0].start_ns == 0
    assert path[-1].end_ns == simulation.makespan_ns
    for before, after in pairwise(path):
        assert before.end_ns == after.start_ns


@pytest.mark.parametrize("seed", range(40))
def test_many_microbatches_come_at_the_period(seed: int) -> None:
    """Simulated lambda is at least the formula's, and never far above it."""
    once = replace(drawn(seed), microbatches=400)
    twice = replace(once, microbatches=800)
    pace = Fraction(simulate(twice).makespan_ns - simulate(once).makespan_ns, 400)
    period = period_by_recursion(once)
    assert period <= pace <= Fraction(13, 10) * period


def test_warmups_that_do_not_fall_by_one_deadlock() -> None:
    times = replace(drawn(5), warmups=(3,) * drawn(5).stages)
    assert times.stages > 1
    with pytest.raises(ValueError, match="deadlocks"):
        simulate(times)


def test_exchange_and_one_after_the_other() -> None:
    """Two equal stages, kappa 10: by hand."""
    spans = {}
    for schedule in SCHEDULES:
        times = pipeline(
            [4, 4],
            [6, 6],
            [10],
            microbatches=3,
            warmups=(2, 1),
            schedule=schedule,
        )
        spans[schedule] = (simulate(times).makespan_ns, int(period_by_recursion(times)))
    # F 4, to 14, F B 24, [exchange, B F] twice less the last: B 6 after the last.
    assert spans["1f1b-batched"] == (4 + 10 + 10 + 2 * (10 + 10) + 10 + 6, 20)
    assert spans["1f1b-blocking"] == (4 + 10 + 10 + 2 * (20 + 10) + 10 + 6, 30)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_link_that_many_share_sets_the_pace(schedule: ScheduleName) -> None:
    """Omega is then longer than a stage computes and transfers."""
    times = pipeline(
        [4, 4],
        [6, 6],
        [10],
        microbatches=3,
        warmups=(2, 1),
        occupancy=[70],
        schedule=schedule,
    )
    assert period_by_recursion(times) == 70
    assert closed_form_of(times) == closed_form_ns(times)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_stage_alone_waits_for_nothing(schedule: ScheduleName) -> None:
    times = PipelineTimes(
        schedule=schedule,
        microbatches=1003,
        forward_ns=(3,),
        backward_ns=(5,),
        transfer_ns=(),
        occupancy_ns=(),
        sync_ns=(7,),
        warmups=(1,),
    )
    assert simulate(times).makespan_ns == 1003 * 8 + 7
