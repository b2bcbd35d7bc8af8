"""The oracle itself: it misses no plan, and its instances are not all alike."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace

import pytest

from hetopt.problem.training.pins import ANY
from tests.oracle import brute_force
from tests.oracle.instances import count_plans, make_instance


@pytest.mark.parametrize("seed", range(2000, 2040))
def test_no_plan_is_missed(seed: int) -> None:
    """Without pins and with memory for everything, the plans can be counted."""
    instance = make_instance(seed, pinned=False)
    roomy = replace(
        instance.table, usable_bytes=(10**12,) * len(instance.problem.clusters)
    )
    answer = brute_force.solve(instance.problem, roomy)
    assert answer.plans == count_plans(roomy)


def test_the_same_seed_makes_the_same_instance() -> None:
    first, second = make_instance(5), make_instance(5)
    assert first.problem == second.problem
    assert (
        brute_force.solve(first.problem, first.table).shapes
        == brute_force.solve(second.problem, second.table).shapes
    )


@pytest.mark.slow
def test_instances_are_of_every_sort() -> None:
    seen: Counter[str] = Counter()
    for seed in range(220):
        instance = make_instance(seed)
        problem, table, pins = instance.problem, instance.table, instance.problem.pins
        answer = brute_force.solve(problem, table)
        seen[problem.training.schedule] += 1
        seen[f"{len(problem.clusters)} clusters"] += 1
        seen[problem.model.granularity] += 1
        seen["tied"] += problem.model.tied
        seen["unequal units"] += sum(table.body) > 1
        seen["pin stages"] += pins.stages != ANY
        seen["pin microbatches"] += pins.microbatches != ANY
        seen["pin order"] += pins.order is not None
        seen["pin next"] += bool(pins.forbidden_next)
        seen["pin units"] += pins.units is not None
        for own in pins.clusters.values():
            for field in fields(own):
                if field.name in ("ep", "etp"):
                    continue
                seen[f"pin {field.name} of a cluster"] += (
                    getattr(own, field.name) != ANY
                )
        if answer.best is None:
            seen["infeasible"] += 1
            continue
        p, _, order, _, _ = answer.best.shape
        seen["one cluster used" if len(order) == 1 else "more used"] += 1
        seen["short" if p < 3 else "long"] += 1
        seen["plans ruled out"] += answer.plans < count_plans(table)
        if len(answer.shapes) > 1:
            seen["ties"] += answer.shapes[0].value_ns == answer.shapes[1].value_ns
    rare = {sort: count for sort, count in seen.items() if count < 5}
    assert not rare
    assert len(seen) == 30, sorted(seen)
