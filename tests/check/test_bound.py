"""Bounds derived again are true of what brute force finds, and rarely loose."""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING

import pytest

from hetopt.check.bound import PS_PER_NS, unproven
from hetopt.check.hosting import NEVER
from tests.oracle import brute_force
from tests.oracle.instances import make_instance

if TYPE_CHECKING:
    from hetopt.problem.training import ScheduleName


@pytest.mark.parametrize("schedule", [None, "auto"])
@pytest.mark.parametrize("seed", range(900, 915))
def test_nothing_above_an_optimum_is_proven(
    seed: int, schedule: ScheduleName | None
) -> None:
    instance = make_instance(seed, schedule=schedule)
    problem, table = instance.problem, instance.table
    programs = brute_force.solve(problem, table).programs
    for (p, q), found in programs.items():
        if found is None:
            continue
        above = floor(found.closed_form_ns * PS_PER_NS) + 1
        assert unproven(problem, table, q, {p: above}) == [p]
        assert unproven(problem, table, q, {p: NEVER}) == [p]


@pytest.mark.parametrize("schedule", [None, "auto"])
def test_most_bounds_near_the_optimum_are_proven(
    schedule: ScheduleName | None,
) -> None:
    near = proven = 0
    for seed in range(925, 930):
        instance = make_instance(seed, pinned=False, schedule=schedule)
        problem, table = instance.problem, instance.table
        for (p, q), found in brute_force.solve(problem, table).programs.items():
            if found is None:
                continue
            near += 1
            below = floor(found.closed_form_ns * PS_PER_NS * 8 / 10)
            proven += not unproven(problem, table, q, {p: below})
    assert proven > near / 2
