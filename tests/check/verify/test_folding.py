"""Folded stages: bounds and searches are brute force's."""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hetopt.check.plan.plan import check_plan
from hetopt.check.verify import search as module
from hetopt.check.verify.bound import PS_PER_NS, unproven, unproven_ranges
from hetopt.check.verify.chunks import at_rest
from hetopt.check.verify.findings import Found
from hetopt.check.verify.search import search
from hetopt.check.verify.tasks import TOO_LONG_PS
from hetopt.check.verify.weights import unit_times
from hetopt.cost.folding import with_both_chunks
from hetopt.problem.training.choices import FOLDED
from tests.oracle import brute_force
from tests.oracle.instances import Instance, make_folded

if TYPE_CHECKING:
    from hetopt.problem.training.choices import ScheduleName

#: Seeds of what is compared in seconds, and of all that is.
FEW, MANY = range(8400, 8412), range(8412, 8492)


def _searched(instance: Instance, p: int, q: int, bound: int) -> Found | None:
    """Search one program for plans below a bound; None if the relaxation suffices."""
    problem, table = instance.problem, instance.table
    ranges = unproven_ranges(problem, table, q, {p: bound})
    return search(problem, table, q, {p: bound}, ranges)[p] if ranges else None


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


@pytest.mark.parametrize("schedule", FOLDED)
def test_no_bound_above_an_optimum_is_proven(schedule: ScheduleName) -> None:
    for seed in range(8330, 8350):
        instance = make_folded(seed, schedule)
        problem, table = instance.problem, instance.table
        for (p, q), found in brute_force.solve(problem, table).programs.items():
            above = {p: floor(found.closed_form_ns * PS_PER_NS) + 1}
            assert unproven(problem, table, q, above) == [p], (seed, p, q)


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


def _ensure_least(seed: int, schedule: ScheduleName = "zb-v") -> int:
    """Have the search go down to the optima of an instance; return how many."""
    instance = make_folded(seed, schedule, pinned=False)
    problem, table = instance.problem, instance.table
    programs = brute_force.solve(problem, table).programs
    counts = {part.microbatches for part in table.slices}
    for p, q in problem.programs:
        if (p, q) in programs:
            exact = float(programs[p, q].closed_form_ns * PS_PER_NS)
            assert _descend(instance, p, q) == pytest.approx(exact, rel=1e-8)
        elif q in counts:
            outcome = _searched(instance, p, q, TOO_LONG_PS)
            assert outcome in (None, Found())
    return len(programs)


def _descend(instance: Instance, p: int, q: int) -> float:
    """Return the least closed form that the search finds, in ps."""
    bound, least = TOO_LONG_PS, 0.0
    while True:
        outcome = _searched(instance, p, q, bound)
        if outcome is None or outcome.plan is None:
            assert outcome in (None, Found())
            return least
        checked = check_plan(instance.problem, instance.table, outcome.plan)
        least = checked.closed_form_s * 1e12
        assert least < bound
        bound = floor(least)


@pytest.fixture
def _little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_LABELS", 200_000)


@pytest.mark.slow
@pytest.mark.usefixtures("_little_memory")
@pytest.mark.parametrize("schedule", FOLDED)
def test_the_search_goes_down_to_every_optimum(schedule: ScheduleName) -> None:
    assert sum(_ensure_least(seed, schedule) for seed in FEW) > 3


@pytest.mark.slow
@pytest.mark.usefixtures("_little_memory")
@pytest.mark.parametrize("first", MANY[::10])
def test_the_search_goes_down_to_every_optimum_of_many(first: int) -> None:
    found = [_ensure_least(seed) for seed in range(first, first + 10)]
    assert any(found)
