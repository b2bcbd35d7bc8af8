"""Bounds on simulated times, derived again, are true of what brute force finds."""

from __future__ import annotations

from dataclasses import replace
from math import floor

import pytest

from hetopt.check.verify.bound import PS_PER_NS, unproven, unproven_excess
from hetopt.check.verify.plans_left import search_simulated
from tests.agreement.generator import features_of, make
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


#: Where boundaries of a cluster share its uplink; other seeds go through schedules.
SHARED = (46, 65, 69, 174, 187, 240)
SEEDS = (1313, 1317, 1319, 1320, 1321, *SHARED)


@pytest.mark.quick_seeds(8)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_least_simulated_time_is_confirmed_and_more_is_refuted(seed: int) -> None:
    features = replace(features_of(seed), objective="simulated", relaxed=())
    instance = make(replace(features, lengths=False, large=False))
    assert (features.links == "shared") == (seed in SHARED)
    problem, table = instance.problem, instance.table
    programs = brute_force.solve(problem, table, simulated=True).programs
    for (p, q), found in programs.items():
        if found is None:
            continue
        assert found.simulated_ns is not None
        least = found.simulated_ns * PS_PER_NS
        for bound, refuted in ((least, False), (least + least // 1000 + 99, True)):
            ranges = unproven_excess(problem, table, q, {p: bound}).get(p, [])
            outcome = search_simulated(problem, table, q, (p, bound), ranges)
            assert (outcome.plan is not None) == refuted
            assert not outcome.open
