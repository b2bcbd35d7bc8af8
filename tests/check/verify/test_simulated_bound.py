"""Bounds on simulated times, derived again, are true of what brute force finds."""

from __future__ import annotations

from math import floor

from hetopt.check.verify.bound import PS_PER_NS, unproven
from tests.oracle import brute_force
from tests.oracle.instances import make_instance


def test_many_bounds_near_the_optimum_are_proven() -> None:
    near = proven = 0
    for seed in range(612, 620):
        instance = make_instance(seed, pinned=False)
        problem, table = instance.problem, instance.table
        programs = brute_force.solve(problem, table, simulated=True).programs
        for (p, q), found in programs.items():
            if found is None:
                continue
            assert found.simulated_ns is not None
            near += 1
            below = {p: floor(found.simulated_ns * PS_PER_NS * 7 / 10)}
            proven += not unproven(problem, table, q, below, objective="simulated")
    assert proven > near / 2
