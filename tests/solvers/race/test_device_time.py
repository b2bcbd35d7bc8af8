"""Bounds on the plans that use a strategy are true of what brute force finds."""

from __future__ import annotations

import numpy as np
import pytest

from hetopt.formulations.chain import Chain
from hetopt.problem.training.choices import ScheduleName
from hetopt.solvers.race.device_time import least_ns
from tests.oracle import brute_force
from tests.oracle.instances import OTHERS, Instance, make_instance, make_other


def _ensure_true(instance: Instance) -> None:
    """Compare with the best plan of every shape."""
    problem, table = instance.problem, instance.table
    chain, tight = Chain.of(table), 1.0
    least = {part.microbatches: least_ns(part, chain) for part in table.slices}
    for found in brute_force.solve(problem, table).shapes:
        _, q, order, rows, _ = found.shape
        bounds = [least[q][j][row] for j, row in zip(order, rows, strict=True)]
        assert max(bounds) <= found.closed_form_ns
        tight = max(bounds) / float(found.closed_form_ns)
    assert tight > 0.1


@pytest.mark.parametrize("experts", [False, True])
@pytest.mark.parametrize("seed", range(4200, 4240))
def test_no_plan_is_better_than_its_strategies_permit(seed: int, experts: bool) -> None:
    _ensure_true(make_instance(seed, experts=experts))


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("seed", range(4240, 4250))
def test_nor_with_other_schedules(seed: int, kind: ScheduleName) -> None:
    _ensure_true(make_other(seed, kind))


def test_a_cluster_without_strategies_has_no_bounds() -> None:
    for seed in range(4200, 4300):
        table = make_instance(seed).table
        for part in table.slices:
            empty = [not own.strategies for own in part.clusters]
            if any(empty):
                least = least_ns(part, Chain.of(table))
                assert [len(own) == 0 for own in least] == empty
                assert all(np.isfinite(own).all() for own in least)
                return
    pytest.fail("every cluster has strategies")
