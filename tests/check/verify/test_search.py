"""What is searched again agrees with brute force."""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hetopt.check.plan.plan import check_plan
from hetopt.check.verify.bound import PS_PER_NS, unproven, unproven_ranges
from hetopt.check.verify.dominance import without_replaced
from hetopt.check.verify.fills import NEVER
from hetopt.check.verify.search import Found, search
from tests.oracle import brute_force
from tests.oracle.instances import Instance, make_instance

if TYPE_CHECKING:
    from hetopt.problem.training import ScheduleName


def _searched(instance: Instance, p: int, q: int, bound: int) -> Found | None:
    """Search one program for plans below a bound; None if the relaxation suffices."""
    problem, table = instance.problem, instance.table
    ranges = unproven_ranges(problem, table, q, {p: bound})
    if not ranges:
        return None
    return search(problem, table, q, {p: bound}, ranges)[p]


@pytest.mark.parametrize("schedule", [None, "auto"])
@pytest.mark.parametrize("seed", range(700, 706))
def test_no_false_bound_passes_and_no_true_one_is_refuted(
    seed: int, schedule: ScheduleName | None
) -> None:
    instance = make_instance(seed, schedule=schedule)
    problem, table = instance.problem, instance.table
    for (p, q), found in brute_force.solve(problem, table).programs.items():
        if found is None:
            outcome = _searched(instance, p, q, NEVER)
            assert outcome is None or outcome.plan is None
            continue
        exact = found.closed_form_ns * PS_PER_NS
        true = _searched(instance, p, q, floor(exact))
        assert true is None or true.plan is None
        bound = floor(exact * 1001 / 1000) + 2 * q + 4
        false = _searched(instance, p, q, bound)
        assert false is not None
        assert false.open or false.plan is not None
        if false.plan is not None:
            checked = check_plan(problem, table, false.plan)
            assert checked.closed_form_s * 1e12 < bound
            pipeline = false.plan.pipeline
            assert (len(pipeline.stages), pipeline.microbatches) == (p, q)


@pytest.mark.parametrize("schedule", ["1f1b", "eager-1f1b", "virtual-1f1b", "gpipe"])
def test_most_optima_are_settled_without_another_engine(
    schedule: ScheduleName,
) -> None:
    settled = programs = 0
    for seed in range(730, 732):
        instance = make_instance(seed, pinned=False, schedule=schedule)
        problem, table = instance.problem, instance.table
        for (p, q), found in brute_force.solve(problem, table).programs.items():
            if found is None:
                continue
            programs += 1
            # A plan's lambda is rounded up to whole ps.
            bound = floor(found.closed_form_ns * PS_PER_NS)
            true = _searched(instance, p, q, bound)
            false = _searched(instance, p, q, floor(bound * 1.01) + 2 * q)
            settled += true is None or not true.open
            settled += false is not None and false.plan is not None
    assert settled > 2 * programs * 0.9


def test_strategies_that_are_left_out_change_no_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = 0
    for seed in range(740, 745):
        instance = make_instance(seed, pinned=False)
        problem, table = instance.problem, instance.table
        programs = brute_force.solve(problem, table).programs
        bounds = {
            (p, q): floor(found.closed_form_ns * 900)
            for (p, q), found in programs.items()
            if found is not None
        }
        fewer = {
            (p, q): unproven(problem, table, q, {p: bound})
            for (p, q), bound in bounds.items()
        }
        with monkeypatch.context() as patch:
            patch.setattr(
                "hetopt.check.verify.bound.without_replaced", lambda part: part
            )
            for (p, q), bound in bounds.items():
                assert unproven(problem, table, q, {p: bound}) == fewer[p, q]
                compared += 1
    assert compared


def test_of_equal_strategies_one_stays() -> None:
    table = make_instance(741, pinned=False).table
    for part in table.slices:
        for before, after in zip(
            part.clusters, without_replaced(part).clusters, strict=True
        ):
            assert bool(before.strategies) == bool(after.strategies)
            for k, strategy in enumerate(after.strategies):
                row = before.row(strategy)
                assert np.array_equal(before.forward_ns[row], after.forward_ns[k])
