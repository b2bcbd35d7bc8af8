"""Orders that repeat a building block: V-half and V-min."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

import pytest

from hetopt.check.plan.schedule import orders as checked
from hetopt.schedule.orders import FOLDS, Orders, most_ahead
from hetopt.schedule.run import simulate
from hetopt.schedule.times import Fold, PipelineTimes
from hetopt.schedule.warmup import warmup_counts
from tests.schedule.as_checked import makespan_of

if TYPE_CHECKING:
    from hetopt.problem.training.choices import ScheduleName

KINDS = {"F": checked.FORWARD, "B": checked.BACKWARD, "W": checked.WEIGHT}
THEIRS = {"v-half": checked.v_half, "v-min": checked.v_min}
SHAPES = [(p, q) for p in range(1, 8) for q in (p + 1, 2 * p + 1, 4 * p)]
#: Passes of V-half could run early just when the last F of the first stage is due.
SHAPES.append((8, 12))


def orders_of(schedule: ScheduleName, p: int, q: int) -> Orders:
    return Orders(
        warmups=(1,) * p,
        microbatches=q,
        chunks=2,
        folded=True,
        block=FOLDS[schedule],
        splits=True,
    )


@pytest.mark.parametrize("schedule", THEIRS)
@pytest.mark.parametrize(("p", "q"), SHAPES)
def test_orders_are_whole_and_those_of_the_checker(
    schedule: ScheduleName, p: int, q: int
) -> None:
    orders = orders_of(schedule, p, q)
    counts = warmup_counts(
        schedule,
        microbatches=q,
        crosses=[False] * (p - 1),
        round_trip_ns=[1] * p,
        transfer_ns=[0] * (p - 1),
    )
    assert all(before >= after for before, after in pairwise(counts))
    for stage in range(p):
        own = list(orders.of(stage))
        theirs = THEIRS[schedule](checked.Position(stage, p, q, 2, 0))
        assert [(KINDS[kind], n % 2, n // 2) for kind, n in own] == theirs
        assert Counter(own) == Counter(
            (kind, n) for kind in KINDS for n in range(2 * q)
        )
        assert orders.ahead(stage) == counts[stage]
        for chunk in (0, 1):
            most_held = orders.most_held(stage, chunk, "W")
            assert checked.most_until_weight(theirs, chunk) == most_held
        held, first = [0], [0]
        for kind, number in own:
            step = (kind == "F") - (kind == "W")
            held.append(held[-1] + step)
            first.append(first[-1] + step * (number % 2 == 0))
        most, most_first = most_ahead(FOLDS[schedule], p)[stage]
        assert max(held) <= most
        assert max(first) <= most_first


def alike(schedule: ScheduleName, p: int, q: int) -> PipelineTimes:
    """Passes of 1 each, and transfers that take no time."""
    return PipelineTimes(
        schedule=schedule,
        microbatches=q,
        forward_ns=(2,) * p,
        backward_ns=(4,) * p,
        weight_ns=(2,) * p,
        transfer_ns=(0,) * (p - 1),
        occupancy_ns=(0,) * (p - 1),
        sync_ns=(0,) * p,
        warmups=warmup_counts(
            schedule,
            microbatches=q,
            crosses=[False] * (p - 1),
            round_trip_ns=[6] * p,
            transfer_ns=[0] * (p - 1),
        ),
        fold=Fold(
            forward_ns=(1,) * p,
            backward_ns=(2,) * p,
            weight_ns=(1,) * p,
            handed_on_ns=(2,) * p,
            fill_ns=(1,) * p,
        ),
    )


@pytest.mark.parametrize(("schedule", "share"), [("v-half", 1 / 2), ("v-min", 1 / 3)])
@pytest.mark.parametrize("p", [4, 8, 12])
def test_activations_are_a_share_of_those_of_1f1b(
    schedule: ScheduleName, share: float, p: int
) -> None:
    """Within two of its passes, and no micro-batch waits in the steady state."""
    most = max(passes for passes, _ in most_ahead(FOLDS[schedule], p))
    # Under 1F1B, and ZB-V, a stage holds 2 p passes of half of its layers.
    assert share * 2 * p <= most <= share * 2 * p + 3
    idle = {q: simulate(alike(schedule, p, q)).makespan_ns - 6 * q for q in (40, 80)}
    assert idle[40] == idle[80]
    bubble_of_1f1b = 6 * (p - 1)
    assert idle[40] < bubble_of_1f1b


@pytest.mark.parametrize("schedule", THEIRS)
@pytest.mark.parametrize("seed", range(20))
def test_simulation_is_that_of_the_checker(schedule: ScheduleName, seed: int) -> None:
    rng = Random(seed)
    p = rng.randint(1, 6)
    q = rng.randint(p + 1, 3 * p + 2)

    def two() -> list[tuple[int, int]]:
        return [(rng.randint(0, 30), rng.randint(0, 30)) for _ in range(p)]

    forward, before, weight = two(), two(), two()
    backward = [
        (max(b, w) + w, max(c, x) + x)
        for (b, c), (w, x) in zip(before, weight, strict=True)
    ]
    times = PipelineTimes(
        schedule=schedule,
        microbatches=q,
        forward_ns=tuple(map(sum, forward)),
        backward_ns=tuple(map(sum, backward)),
        weight_ns=tuple(map(sum, weight)),
        transfer_ns=tuple(2 * rng.randint(0, 20) for _ in range(p - 1)),
        occupancy_ns=tuple(2 * rng.randint(0, 5) for _ in range(p - 1)),
        sync_ns=tuple(rng.randint(0, 9) for _ in range(p)),
        warmups=warmup_counts(
            schedule,
            microbatches=q,
            crosses=[False] * (p - 1),
            round_trip_ns=[1] * p,
            transfer_ns=[0] * (p - 1),
        ),
        fold=Fold(
            forward_ns=tuple(each[0] for each in forward),
            backward_ns=tuple(each[0] for each in backward),
            weight_ns=tuple(each[0] for each in weight),
            handed_on_ns=(0,) * p,
            fill_ns=(0,) * p,
        ),
    )
    assert makespan_of(times) == simulate(times).makespan_ns
