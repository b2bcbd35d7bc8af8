"""The search below bounds goes down to the optima that brute force finds."""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING

import pytest

from hetopt.check.plan.plan import check_plan
from hetopt.check.verify.bound import PS_PER_NS, unproven_ranges
from hetopt.check.verify.findings import Found
from hetopt.check.verify.search import search
from hetopt.check.verify.tasks import TOO_LONG_PS
from tests.oracle import brute_force

if TYPE_CHECKING:
    from tests.oracle.instances import Instance


def searched(instance: Instance, p: int, q: int, bound: int) -> Found | None:
    """Search one program for plans below a bound; None if the relaxation suffices."""
    problem, table = instance.problem, instance.table
    ranges = unproven_ranges(problem, table, q, {p: bound})
    return search(problem, table, q, {p: bound}, ranges)[p] if ranges else None


def ensure_least(instance: Instance) -> int:
    """Have the search go down to the optima of an instance; return how many."""
    problem, table = instance.problem, instance.table
    programs = brute_force.solve(problem, table).programs
    counts = {part.microbatches for part in table.slices}
    for p, q in problem.programs:
        if (p, q) in programs:
            exact = float(programs[p, q].closed_form_ns * PS_PER_NS)
            assert _descend(instance, p, q) == pytest.approx(exact, rel=1e-8)
        elif q in counts:
            assert searched(instance, p, q, TOO_LONG_PS) in (None, Found())
    return len(programs)


def _descend(instance: Instance, p: int, q: int) -> float:
    """Return the least closed form that the search finds, in ps."""
    bound, least = TOO_LONG_PS, 0.0
    while True:
        outcome = searched(instance, p, q, bound)
        if outcome is None or outcome.plan is None:
            assert outcome in (None, Found())
            return least
        pipeline = outcome.plan.pipeline
        assert (len(pipeline.stages), pipeline.microbatches) == (p, q)
        checked = check_plan(instance.problem, instance.table, outcome.plan)
        least = checked.closed_form_s * 1e12
        assert least < bound
        bound = floor(least)
