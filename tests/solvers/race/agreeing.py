"""An exact solver, the checker and brute force on one drawn instance."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from hetopt.check import check_result
from hetopt.solvers.loading import load
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from tests.oracle import brute_force

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.oracle.instances import Instance

TICK = Fraction(1, 10**9)


def ensure_best(name: str, instance: Instance) -> float | None:
    """Return the least closed form in seconds, or None if there is no plan.

    Fails unless the solver reports brute force's plan, proven, and it passes.
    """
    problem, table = instance.problem, instance.table
    best = brute_force.solve(problem, table).best
    request = Request(problem=problem, table=table, params=RaceParams(jobs=0))
    result = load(name)(request)
    if best is None:
        assert result.status == "infeasible"
        return None
    assert result.status == "optimal"
    assert result.best is not None
    exact = float(best.closed_form_ns * TICK)
    assert result.best.closed_form_s == pytest.approx(exact, rel=1e-12)
    assert result.best.plan == brute_force.to_plan(problem, table, best)
    assert check_result(problem, table, result.to_json()) == []
    return result.best.closed_form_s


def with_plans(instances: Iterable[Instance]) -> int:
    """Return how many instances have a plan at all."""
    return sum(
        brute_force.solve(each.problem, each.table).best is not None
        for each in instances
    )
