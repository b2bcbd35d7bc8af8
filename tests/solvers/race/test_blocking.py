"""Plans whose transfers block: exact solvers, the checker and brute force agree."""

from __future__ import annotations

from fractions import Fraction

import pytest

from hetopt.check import check_result
from hetopt.errors import InputError
from hetopt.problem.training import ScheduleName
from hetopt.solvers.loading import load
from hetopt.solvers.params import RaceParams
from hetopt.solvers.registry import SOLVERS, ensure_plans
from hetopt.solvers.request import Request
from tests.oracle import brute_force
from tests.oracle.instances import make_instance

BLOCKING: tuple[ScheduleName, ...] = ("1f1b-batched", "1f1b-blocking")
TICK = Fraction(1, 10**9)


@pytest.mark.parametrize("schedule", BLOCKING)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["cp-sat", "milp", "dp"])
def test_plans_of_brute_force(name: str, seed: int, schedule: ScheduleName) -> None:
    _ensure_best(name, seed, schedule)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", BLOCKING)
@pytest.mark.parametrize("seed", range(4, 54))
@pytest.mark.parametrize("name", ["cp-sat", "milp", "dp"])
def test_more_plans_of_brute_force(
    name: str, seed: int, schedule: ScheduleName
) -> None:
    _ensure_best(name, seed, schedule)


def _ensure_best(name: str, seed: int, schedule: ScheduleName) -> None:
    """Compare a solver's answer with brute force's."""
    instance = make_instance(9100 + seed, schedule=schedule)
    problem, table = instance.problem, instance.table
    best = brute_force.solve(problem, table).best
    request = Request(problem=problem, table=table, params=RaceParams(jobs=0))
    result = load(name)(request)
    if best is None:
        assert result.status == "infeasible"
        return
    assert result.status == "optimal"
    assert result.best is not None
    exact = float(best.closed_form_ns * TICK)
    assert result.best.closed_form_s == pytest.approx(exact, rel=1e-12)
    assert result.best.plan == brute_force.to_plan(problem, table, best)
    assert check_result(problem, table, result.to_json()) == []


@pytest.mark.parametrize("schedule", BLOCKING)
def test_other_solvers_are_refused_by_name(schedule: ScheduleName) -> None:
    for name, record in SOLVERS.items():
        if record.blocks:
            ensure_plans(name, schedule)
            continue
        with pytest.raises(InputError, match=f"solver {name} .*use auto, cp-sat, dp"):
            ensure_plans(name, schedule)
