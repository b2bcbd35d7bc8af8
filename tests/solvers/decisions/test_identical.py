"""Identical clusters: found where they are, and no answer changed by it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hetopt.formulations.decision import Decision
from hetopt.plans.strategy import Strategy
from hetopt.problem.training.pins import ClusterPins, Domain, Pins
from hetopt.problem.training.principles import PRUNED, Principles
from hetopt.schedule.shares import SharedLinks
from hetopt.solvers.decisions import copies, identical
from hetopt.solvers.loading import load
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from tests.oracle import brute_force
from tests.oracle.instances import OVERLAPPING
from tests.oracle.repeated import make_repeated

if TYPE_CHECKING:
    from hetopt.results.result import Result
    from tests.oracle.brute_force import Found
    from tests.oracle.instances import Instance

#: Plans brute force may have to look at.
FEW = 6_000


def solved(solver: str, instance: Instance, *, top: int = 1) -> Result:
    params = RaceParams(jobs=0, top=top)
    return load(solver)(
        Request(problem=instance.problem, table=instance.table, params=params)
    )


def groups_of(instance: Instance, pins: Pins | None = None) -> list[tuple[int, ...]]:
    table, own = instance.table, pins or instance.problem.pins
    return [identical.leaders(table, part, own, PRUNED) for part in table.slices]


@pytest.mark.parametrize("seed", range(40))
def test_repeated_clusters_are_found(seed: int) -> None:
    instance, kinds = make_repeated(seed)
    assert set(groups_of(instance)) == {kinds}


@pytest.mark.parametrize("field", ["forward_ns", "state_bytes", "sync_ns"])
def test_any_other_cost_tells_clusters_apart(field: str) -> None:
    instance, kinds = make_repeated(0)
    assert kinds == (0, 0, 0)
    part = instance.table.slices[0]
    other = getattr(part.clusters[1], field).copy()
    other.flat[-1] += 1
    clusters = list(part.clusters)
    clusters[1] = replace(clusters[1], **{field: other})
    changed = replace(part, clusters=tuple(clusters))
    found = identical.leaders(instance.table, changed, Pins(), PRUNED)
    assert found == (0, 1, 0)


def test_boundaries_tell_clusters_apart() -> None:
    instance, _ = make_repeated(0)
    part = instance.table.slices[0]
    second = next(a for a, own in enumerate(part.layouts) if own.cluster == 1)
    last = next(a for a, own in enumerate(part.layouts) if own.cluster == 2)
    slower = part.transfer_ns.copy()
    slower[0, second, last] += 1  # not so from last to second
    changed = replace(part, transfer_ns=slower)
    found = identical.leaders(instance.table, changed, Pins(), PRUNED)
    assert found == (0, 1, 2)


def test_uplinks_tell_clusters_apart() -> None:
    instance, _ = make_repeated(0)
    part = instance.table.slices[0]
    busy = np.array([5, 5, 6]), np.zeros((3, 3), dtype=np.int64)
    shared = SharedLinks(uplink_ns=busy[0], link_ns=busy[1])
    changed = replace(part, shared=shared)
    found = identical.leaders(instance.table, changed, Pins(), PRUNED)
    assert found == (0, 0, 2)


def test_pins_tell_clusters_apart() -> None:
    instance, _ = make_repeated(0)
    a, b, c = instance.table.cluster_names
    one = ClusterPins(stages=Domain(allowed=frozenset({1})))
    assert set(groups_of(instance, Pins(clusters={b: one}))) == {(0, 1, 0)}
    alike = Pins(clusters={a: one, b: one})
    assert set(groups_of(instance, alike)) == {(0, 0, 2)}
    assert set(groups_of(instance, Pins(order=(c, a, b)))) == {(0, 1, 2)}
    apart = Pins(forbidden_next=frozenset({(a, b)}))
    assert set(groups_of(instance, apart)) == {(0, 1, 2)}
    both = Pins(forbidden_next=frozenset({(a, b), (b, a)}))
    assert set(groups_of(instance, both)) == {(0, 0, 2)}
    part = instance.table.slices[0]
    wide = Principles(consecutive=False)
    assert identical.leaders(instance.table, part, Pins(), wide) == (0, 1, 2)


@pytest.mark.parametrize("seed", range(50))
def test_the_plan_of_the_tie_rule_all_the_same(seed: int) -> None:
    schedule = OVERLAPPING[seed % len(OVERLAPPING)]
    instance, _ = make_repeated(seed, schedule=schedule, most_plans=FEW)
    problem, table = instance.problem, instance.table
    best = brute_force.solve(problem, table).best
    result = solved("dp", instance)
    if best is None:
        assert result.status == "infeasible"
        return
    assert result.best is not None
    assert result.best.plan == brute_force.to_plan(problem, table, best)


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("solver", ["dp", "cp-sat"])
@pytest.mark.parametrize("seed", range(12))
def test_copies_are_no_different_choices(solver: str, seed: int) -> None:
    instance, kinds = make_repeated(
        seed, schedule=OVERLAPPING[seed % len(OVERLAPPING)], most_plans=1_000
    )
    problem, table = instance.problem, instance.table

    def is_canonical(found: Found) -> bool:
        order = found.shape[2]
        return all(
            [j for j in order if kinds[j] == kind]
            == [j for j, own in enumerate(kinds) if own == kind][
                : sum(kinds[j] == kind for j in order)
            ]
            for kind in set(kinds)
        )

    shapes = brute_force.solve(problem, table).shapes
    wanted = [found for found in shapes if is_canonical(found)][:4]
    result = solved(solver, instance, top=4)
    reported = [result.best, *result.alternatives] if result.best else []
    assert [one.plan for one in reported if one is not None] == [
        brute_force.to_plan(problem, table, found) for found in wanted
    ]


def test_copies_of_a_plan() -> None:
    decision = Decision(
        microbatches=4,
        order=(3, 1, 0),
        strategies=(Strategy(dp=1, cp=1, tp=1, recompute="none"),) * 3,
        hosted=(1, 2, 1),
        units=(2, 1, 1, 2),
    )
    groups = (0, 1, 0, 0)
    first = copies.canonical(decision, groups)
    assert first.order == (0, 1, 2)
    assert copies.last_first(decision, groups).order == (2, 1, 3)
    every = list(copies.all_copies([decision], groups))
    assert sorted(copy.order for copy in every) == [
        (a, 1, b) for a in (0, 2, 3) for b in (0, 2, 3) if a != b
    ]
    assert {replace(copy, order=decision.order) for copy in every} == {decision}
    assert list(copies.all_copies([decision], ())) == [decision]
