"""Stages of several chunks: exact solvers, the checker and brute force agree."""

from __future__ import annotations

import pytest

from hetopt.errors import InputError
from hetopt.problem.training import INTERLEAVED
from hetopt.solvers.registry import SOLVERS, ensure_plans
from tests.oracle import brute_force
from tests.oracle.instances import Instance, make_chunked
from tests.solvers.race.agreeing import ensure_best


def drawn(seed: int) -> Instance:
    """Draw an instance of two to four chunks."""
    return make_chunked(7300 + seed, 2 + seed % 3)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["cp-sat", "milp", "dp"])
def test_plans_of_brute_force(name: str, seed: int) -> None:
    ensure_best(name, drawn(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 104))
@pytest.mark.parametrize("name", ["cp-sat", "milp", "dp"])
def test_more_plans_of_brute_force(name: str, seed: int) -> None:
    ensure_best(name, drawn(seed))


def test_many_instances_have_plans() -> None:
    found = [
        brute_force.solve(instance.problem, instance.table).best is not None
        for instance in map(drawn, range(24))
    ]
    assert sum(found) >= 12


def test_other_solvers_are_refused_by_name() -> None:
    for name, record in SOLVERS.items():
        if record.interleaves:
            ensure_plans(name, INTERLEAVED)
            continue
        with pytest.raises(InputError, match=f"solver {name} .*use auto, cp-sat, dp"):
            ensure_plans(name, INTERLEAVED)
