"""``h-1f1b`` with three epsilons against brute force, links from quick to slow."""

from __future__ import annotations

import pytest

from tests.oracle.instances import make_slow
from tests.solvers.race.agreeing import ensure_best, with_plans

#: Three epsilons, four speeds of links; every third is pinned.
SEEDS = range(12)


@pytest.mark.parametrize("name", ["cp-sat", "milp"])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_plan(seed: int, name: str) -> None:
    ensure_best(name, make_slow(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_plan_by_miqp(seed: int) -> None:
    ensure_best("miqp-highs", make_slow(seed))


def test_each_epsilon_has_plans() -> None:
    drawn = [make_slow(seed) for seed in SEEDS]
    assert {each.table.warmup_epsilon for each in drawn} == {0.05, 0.1, 0.01}
    assert with_plans(drawn) > len(drawn) / 2
