"""Plans whose transfers block: exact solvers, the checker and brute force agree."""

from __future__ import annotations

import pytest

from hetopt.errors import InputError
from hetopt.problem.training.choices import ScheduleName
from hetopt.solvers.refusals import ensure_plans
from hetopt.solvers.registry import SOLVERS
from tests.oracle.instances import make_instance
from tests.solvers.race.agreeing import ensure_best

BLOCKING: tuple[ScheduleName, ...] = ("1f1b-batched", "1f1b-blocking")


@pytest.mark.parametrize("schedule", BLOCKING)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["cp-sat", "milp", "dp"])
def test_plans_of_brute_force(name: str, seed: int, schedule: ScheduleName) -> None:
    ensure_best(name, make_instance(9100 + seed, schedule=schedule))


@pytest.mark.slow
@pytest.mark.parametrize("schedule", BLOCKING)
@pytest.mark.parametrize("seed", range(4, 54))
@pytest.mark.parametrize("name", ["cp-sat", "milp", "dp"])
def test_more_plans_of_brute_force(
    name: str, seed: int, schedule: ScheduleName
) -> None:
    ensure_best(name, make_instance(9100 + seed, schedule=schedule))


@pytest.mark.parametrize("schedule", BLOCKING)
def test_other_solvers_are_refused_by_name(schedule: ScheduleName) -> None:
    for name, record in SOLVERS.items():
        if record.blocks:
            ensure_plans(name, schedule)
            continue
        with pytest.raises(InputError, match=f"solver {name} .*use auto, cp-sat, dp"):
            ensure_plans(name, schedule)
