"""Bounds where P3 or P4 is relaxed are true of what brute force finds there."""

from __future__ import annotations

from math import floor

import pytest

from hetopt.check.verify.bound import PS_PER_NS, unproven, unproven_excess
from hetopt.problem.training.principles import Principles
from tests.agreement.generator import in_simulated_time, make
from tests.oracle import brute_force
from tests.oracle.instances import make_instance

SPACES = tuple(
    Principles.relaxing(names)
    for names in (["p4"], ["p4-falling-tp"], ["p3"], ["p3", "p4"])
)
#: Drawn instances with each of them.
RELAXED = (44, 52, 212, 105, 169)
#: Where relaxing p4 pays, or p3, or nothing else fits.
PAYING = ((6, 0), (79, 0), (319, 2), (8, 3), (4, 3))


def test_most_bounds_near_the_optimum_are_proven() -> None:
    near = proven = 0
    for seed in range(812, 820):
        instance = make_instance(seed, widest=True)
        problem, table, principles = instance.problem, instance.table, SPACES[seed % 4]
        programs = brute_force.solve(problem, table, principles).programs
        for (p, q), found in programs.items():
            if found is None:
                continue
            near += 1
            below = floor(found.closed_form_ns * PS_PER_NS * 8 / 10)
            proven += not unproven(problem, table, q, {p: below}, principles)
    assert proven > near / 2


@pytest.mark.parametrize("seed", RELAXED)
def test_bounds_on_simulated_times_hold(seed: int) -> None:
    features = in_simulated_time(seed)
    instance, principles = make(features), features.principles
    problem, table = instance.problem, instance.table
    programs = brute_force.solve(problem, table, principles, simulated=True).programs
    for (p, q), found in programs.items():
        if found is not None:
            assert found.simulated_ns is not None
            above = {p: found.simulated_ns * PS_PER_NS + 1000}
            wrong = unproven(
                problem, table, q, above, principles, objective="simulated"
            )
            assert wrong == [p]
            some = unproven_excess(problem, table, q, above, principles=principles)
            assert [*some] == [p]
