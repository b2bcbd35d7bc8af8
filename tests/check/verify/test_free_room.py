"""What memory leaves where warm-ups are free, against every way to fill stages."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hetopt.check.verify.free_room import FreeRoom

LENGTH, STAGES = 5, 3


def by_trial(
    run: list[int], kappa: int, fits: list[int], within: int, after: int, period: int
) -> list[int]:
    """The most units on m stages, W as small as the windows let it be."""
    most = [0] * (STAGES + 1)
    for m in range(1, STAGES + 1):
        for units in product(range(1, within + 1), repeat=m):
            if sum(units) > LENGTH:
                continue
            tails = [sum(units[i:]) for i in range(m)]
            times = [
                run[tail] + 2 * kappa * (m - 1 - i) + after
                for i, tail in enumerate(tails)
            ]
            counts = [max(1, -(-time // period)) for time in times]
            room = [fits[min(count, len(fits)) - 1] for count in counts]
            if all(n <= most for n, most in zip(units, room, strict=True)):
                most[m] = max(most[m], sum(units))
    return most


@given(
    steps=st.lists(st.integers(1, 6), min_size=LENGTH, max_size=LENGTH),
    kappa=st.integers(0, 9),
    falls=st.lists(st.integers(0, 2), min_size=1, max_size=6),
    after=st.integers(0, 30),
    slack=st.integers(0, 9),
)
def test_no_less_than_any_way_and_able_where_one_is(
    steps: list[int], kappa: int, falls: list[int], after: int, slack: int
) -> None:
    # Every further unit takes at least as long as the one before: runs of unlike
    # units are of that kind.
    steps = sorted(steps)
    run = [sum(steps[:n]) for n in range(LENGTH + 1)]
    fits = [max(0, LENGTH - sum(falls[: n + 1])) for n in range(len(falls))]
    period = run[1] + slack
    within = sum(time <= period for time in run) - 1
    room = FreeRoom(
        run=np.array([run]),
        inner=np.array([kappa]),
        fits=np.array([fits]),
        stages=np.array([STAGES]),
    )
    found = room.most_units(period, np.array([within]), np.array([[after]]))[0, 0]
    least = by_trial(run, kappa, fits, within, after, period)
    assert (found >= least).all()
    assert [int(n) for n in found > 0] == [int(n > 0) for n in least]
    # On one stage nothing is left to chance.
    assert found[1] == least[1]


def test_rows_are_independent() -> None:
    """Strategies with other devices, and cases of what follows, side by side."""
    room = FreeRoom(
        run=np.array([[0, 4, 8, 12], [0, 1, 2, 3]]),
        inner=np.array([0, 3]),
        fits=np.array([[3, 1], [3, 0]]),
        stages=np.array([2, 1]),
    )
    after = np.array([[0, 20], [0, 20]])
    found = room.most_units(12, np.array([3, 3]), after)
    # One warm-up holds three units, two hold one unit; 20 ns that follow ask for two.
    assert found[0].tolist() == [[0, 3, 3], [0, 1, 2]]
    assert found[1].tolist() == [[0, 3, 0], [0, 0, 0]]
