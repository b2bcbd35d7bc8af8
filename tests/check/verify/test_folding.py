"""Folded stages: bounds and searches are brute force's."""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hetopt.check.plan.schedule.schedules import STEPS
from hetopt.check.verify import search as module
from hetopt.check.verify.bound import PS_PER_NS, unproven
from hetopt.check.verify.chunks import at_rest
from hetopt.check.verify.simulated_bound import own_counts, trip_counts
from hetopt.check.verify.weights import unit_times
from hetopt.cost.folding import with_both_chunks
from hetopt.problem.training.choices import FOLDED
from hetopt.schedule.paths import folded_trips, folded_weights
from tests.check.verify.descending import ensure_least
from tests.oracle import brute_force
from tests.oracle.instances import make_folded

if TYPE_CHECKING:
    from hetopt.problem.training.choices import ScheduleName

#: Seeds of what is compared in seconds, and of all that is.
FEW, MANY = range(8400, 8412), range(8412, 8492)


@pytest.mark.parametrize("schedule", FOLDED)
def test_units_take_and_hold_what_programs_say(schedule: ScheduleName) -> None:
    for seed in FEW:
        table = make_folded(seed, schedule).table
        ends = ~np.array(table.body)
        for part in table.slices:
            for p in range(1, part.microbatches):
                found = at_rest(table, part.microbatches, p)
                expected = with_both_chunks(part, ends, p)
                assert found.ahead == expected.ahead
                for own, other in zip(found.clusters, expected.clusters, strict=True):
                    assert np.array_equal(own.state_bytes, other.state_bytes)
                    assert np.array_equal(own.activation_bytes, other.activation_bytes)
            for own in part.clusters:
                times = unit_times(own)
                assert np.array_equal(times.fill, own.fill_ns)
                assert np.array_equal(times.end, own.end_unit_ns)
                assert np.array_equal(times.handed_on, own.handed_on_ns)


def ensure_counts(schedule: ScheduleName, p: int, q: int) -> None:
    steps = STEPS[schedule]
    own = [own_counts(steps, q, p, i) for i in range(p)]
    assert np.array_equal(np.array(own).T, folded_weights(schedule, p, q)[:3])
    pairs = zip(trip_counts(steps, q, p), folded_trips(schedule, p, q), strict=True)
    for exact, found in pairs:
        assert exact == found or (q > 4 * p and exact[1] == found[1] + 1)


@pytest.mark.parametrize("schedule", FOLDED)
def test_paths_have_what_the_solver_counts(schedule: ScheduleName) -> None:
    for p in range(1, 9):
        for q in (p + 1, 2 * p + 1, 4 * p + 1, 5 * p + 2, 7 * p):
            ensure_counts(schedule, p, q)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", FOLDED)
def test_paths_have_what_the_solver_counts_of_many(schedule: ScheduleName) -> None:
    for p in (*range(1, 20), 23, 24, 31, 32, 33, 46):
        for q in (*range(p + 1, p + 4), *range(4 * p, 4 * p + 7), 6 * p, 8 * p + 1):
            if q > p:
                ensure_counts(schedule, p, q)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("schedule", FOLDED)
def test_no_bound_above_an_optimum_is_proven(schedule: ScheduleName) -> None:
    for seed in range(8330, 8350):
        instance = make_folded(seed, schedule)
        problem, table = instance.problem, instance.table
        for (p, q), found in brute_force.solve(problem, table).programs.items():
            above = {p: floor(found.closed_form_ns * PS_PER_NS) + 1}
            assert unproven(problem, table, q, above) == [p], (seed, p, q)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("schedule", FOLDED)
def test_many_bounds_near_the_optimum_are_proven(schedule: ScheduleName) -> None:
    near = proven = 0
    for seed in range(8310, 8330):
        instance = make_folded(seed, schedule, pinned=False)
        problem, table = instance.problem, instance.table
        programs = brute_force.solve(problem, table).programs
        for (p, q), found in programs.items():
            near += 1
            below = floor(found.closed_form_ns * PS_PER_NS * 7 / 10)
            proven += not unproven(problem, table, q, {p: below})
    assert near >= 10
    assert proven > near / 2


@pytest.fixture
def _little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_LABELS", 200_000)


@pytest.mark.slow
@pytest.mark.usefixtures("_little_memory")
@pytest.mark.parametrize("schedule", FOLDED)
def test_the_search_goes_down_to_every_optimum(schedule: ScheduleName) -> None:
    drawn = [make_folded(seed, schedule, pinned=False) for seed in FEW]
    assert sum(map(ensure_least, drawn)) > 3


@pytest.mark.slow
@pytest.mark.usefixtures("_little_memory")
@pytest.mark.parametrize("first", MANY[::10])
def test_the_search_goes_down_to_every_optimum_of_many(first: int) -> None:
    seeds = range(first, first + 10)
    drawn = [make_folded(seed, "zb-v", pinned=False) for seed in seeds]
    assert any([ensure_least(each) for each in drawn])
