"""What is searched again agrees with brute force."""

from __future__ import annotations

from dataclasses import replace
from math import floor
from typing import TYPE_CHECKING

import numpy as np
import pytest

import hetopt
from hetopt.check.plan.plan import check_plan
from hetopt.check.verify import search as module
from hetopt.check.verify.bound import PS_PER_NS, unproven, unproven_ranges
from hetopt.check.verify.dominance import without_replaced
from hetopt.check.verify.fills import NEVER
from hetopt.check.verify.findings import Found
from hetopt.check.verify.search import search
from hetopt.problem.reading import read_problem
from hetopt.problem.training.pins import Domain
from tests.oracle import brute_force
from tests.oracle.instances import Instance, make_instance

if TYPE_CHECKING:
    from hetopt.problem.training.choices import ScheduleName


def _searched(instance: Instance, p: int, q: int, bound: int) -> Found | None:
    """Search one program for plans below a bound; None if the relaxation suffices."""
    problem, table = instance.problem, instance.table
    ranges = unproven_ranges(problem, table, q, {p: bound})
    if not ranges:
        return None
    return search(problem, table, q, {p: bound}, ranges)[p]


@pytest.mark.parametrize("seed", range(700, 706))
def test_no_false_bound_passes_and_no_true_one_is_refuted(seed: int) -> None:
    instance = make_instance(seed)
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


@pytest.mark.quick_cases(1)
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


def _together(instance: Instance, q: int, bounds: dict[int, int]) -> dict[int, Found]:
    """Search programs of one q for plans below bounds, all of them at once."""
    problem, table = instance.problem, instance.table
    ranges = unproven_ranges(problem, table, q, bounds)
    searched = {p: bounds[p] for p in ranges}
    return search(problem, table, q, searched, ranges) if ranges else {}


@pytest.mark.slow
@pytest.mark.parametrize(
    "schedule",
    [
        "virtual-1f1b",
        pytest.param("1f1b", marks=pytest.mark.slow),
        pytest.param("gpipe", marks=pytest.mark.slow),
    ],
)
def test_stage_counts_that_have_too_many_labels_together_are_settled_alone(
    schedule: ScheduleName, monkeypatch: pytest.MonkeyPatch
) -> None:
    """h2-exp-b-2 at q = 256: joint labels of nine stage counts filled the pool."""
    monkeypatch.setattr(module, "_MOST_LABELS", 100_000)
    settled = refuted = 0
    for seed in range(750, 754):
        instance = make_instance(seed, pinned=False, schedule=schedule)
        programs = brute_force.solve(instance.problem, instance.table).programs
        for q in {q for _, q in programs}:
            exact = {
                p: floor(found.closed_form_ns * PS_PER_NS)
                for (p, count), found in programs.items()
                if count == q
            }
            last = max(exact)
            false = exact | {last: floor(exact[last] * 1.01) + 2 * q}
            left_open = []
            # At first not even one label of several stage counts is kept.
            for most in (0, 50_000):
                monkeypatch.setattr(module, "_MOST_TOGETHER", most)
                found = _together(instance, q, exact)
                assert not any(own.plan for own in found.values())
                left_open.append({p for p, own in found.items() if own.open})
                wrong = _together(instance, q, false)[last]
                assert wrong.open or wrong.plan
                refuted += wrong.plan is not None
            assert left_open[0] <= left_open[1]
            settled += len(exact) - len(left_open[0])
    assert settled > refuted > 0


@pytest.mark.slow
def test_no_program_of_a_thousand_chips_of_four_kinds_is_left_open() -> None:
    problem = read_problem("h2-exp-b-2")
    # What the best plan of all has.
    stages, q = 16, 256
    pins = replace(
        problem.pins,
        stages=Domain(allowed=frozenset({stages})),
        microbatches=Domain(allowed=frozenset({q})),
    )
    best = hetopt.plan(replace(problem, pins=pins), solver="dp", jobs=1).best
    assert best is not None
    table = hetopt.build_table(problem)
    bounds = dict.fromkeys(range(12, 25), int(best.closed_form_s * 1e12) - q)
    ranges = unproven_ranges(problem, table, q, bounds)
    assert len(ranges) > 8
    found = search(problem, table, q, {p: bounds[p] for p in ranges}, ranges)
    assert found == {p: Found() for p in ranges}
