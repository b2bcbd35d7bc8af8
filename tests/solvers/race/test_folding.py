"""Folded stages: exact solvers, the checker and brute force agree."""

from __future__ import annotations

import pytest

from hetopt.errors import InputError
from hetopt.problem.training.principles import Principles
from hetopt.solvers.refusals import ensure_keeps, ensure_plans
from hetopt.solvers.registry import SOLVERS
from tests.oracle.instances import Instance, make_folded
from tests.solvers.race.agreeing import ensure_best, with_plans


def drawn(seed: int) -> Instance:
    """Draw an instance."""
    return make_folded(9300 + seed)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", ["cp-sat", "milp", "dp"])
def test_plans_of_brute_force(name: str, seed: int) -> None:
    ensure_best(name, drawn(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5, 105))
@pytest.mark.parametrize("name", ["cp-sat", "milp", "dp"])
def test_more_plans_of_brute_force(name: str, seed: int) -> None:
    ensure_best(name, drawn(seed))


def test_many_instances_have_plans() -> None:
    assert with_plans(map(drawn, range(24))) >= 8


def test_other_solvers_are_refused_by_name() -> None:
    for name, record in SOLVERS.items():
        if record.splits:
            ensure_plans(name, "zb-v")
            continue
        with pytest.raises(InputError, match=f"solver {name} .*use auto, cp-sat, dp"):
            ensure_plans(name, "zb-v")


def test_only_where_all_principles_are_kept() -> None:
    with pytest.raises(InputError, match="zb-v: leave it out"):
        ensure_keeps("zb-v", Principles.relaxing(["p3"]))
