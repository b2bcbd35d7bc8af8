"""What is verified of plans on odd nodes is true of what brute force finds there."""

from __future__ import annotations

from math import floor

import pytest

from hetopt.check.plan.plan import check_plan
from hetopt.check.verify.bound import PS_PER_NS, unproven, unproven_ranges
from hetopt.check.verify.fills import NEVER
from hetopt.check.verify.search import search
from hetopt.problem.training.principles import Principles
from tests.oracle import brute_force
from tests.oracle.odd import make_odd


@pytest.mark.quick_cases(1)
@pytest.mark.quick_seeds(2)
@pytest.mark.parametrize("seed", range(300, 306))
def test_no_false_bound_passes_and_no_true_one_is_refuted(seed: int) -> None:
    instance = make_odd(seed)
    problem, table = instance.problem, instance.table
    for (p, q), found in brute_force.solve(problem, table).programs.items():
        bounds = [(NEVER, False)]
        if found is not None:
            exact = found.closed_form_ns * PS_PER_NS
            above = floor(exact * 1001 / 1000) + 2 * q + 4
            bounds = [(floor(exact), False), (above, True)]
        for bound, is_false in bounds:
            ranges = unproven_ranges(problem, table, q, {p: bound})
            if not ranges:
                assert not is_false
                continue
            outcome = search(problem, table, q, {p: bound}, ranges)[p]
            assert not is_false or outcome.open or outcome.plan is not None
            if outcome.plan is not None:
                assert is_false
                check_plan(problem, table, outcome.plan)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 206))
def test_nothing_above_an_optimum_is_proven_where_sizes_differ(seed: int) -> None:
    instance = make_odd(seed, widest=True)
    problem, table = instance.problem, instance.table
    space = Principles.relaxing(["p4"])
    programs = brute_force.solve(problem, table, space).programs
    for (p, q), found in programs.items():
        if found is not None:
            above = floor(found.closed_form_ns * PS_PER_NS) + 1
            assert unproven(problem, table, q, {p: above}, space) == [p]
