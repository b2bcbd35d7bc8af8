"""HeteroAuto: step 2 accounts for everything, and no plan is better than can be."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from itertools import product
from random import Random

import pytest

from hetopt.check import check_result
from hetopt.errors import InputError
from hetopt.plans.plan import Plan
from hetopt.pricing.price import pipeline_times, price
from hetopt.problem.digest import problem_digest
from hetopt.problem.training.pins import ClusterPins, Domain
from hetopt.problem.training.principles import PRUNED
from hetopt.results.result import Result
from hetopt.solvers.heuristics.dfs import solve
from hetopt.solvers.heuristics.dfs_tree import h2_cost_ns
from hetopt.solvers.heuristics.layer_sharding import Share, shard
from hetopt.solvers.params import DfsParams
from hetopt.solvers.registry import SOLVERS
from hetopt.solvers.request import Request
from tests.oracle import brute_force
from tests.oracle.instances import Instance, make_instance

#: Instances; every fifth has the same schedule.
INSTANCES = int(os.environ.get("HETOPT_RIVALS_INSTANCES", "100"))


def plan(instance: Instance, **params: object) -> Result:
    own = DfsParams(**{"group_devices": 2, **params})  # type: ignore[arg-type]
    return solve(Request(problem=instance.problem, table=instance.table, params=own))


def drawn(seed: int) -> tuple[list[Share], int]:
    """Types with little room, and the layers to be placed on them."""
    rng = Random(seed)
    shares = [
        Share(
            unit_ns=rng.choice((1.0, 2.0, 3.0, rng.uniform(0.5, 9))),
            extra_ns=rng.choice((0.0, rng.uniform(0, 20))),
            most=tuple(rng.randint(rng.random() > 0.02, 9) for _ in range(count)),
            late=rng.random() < 0.5,
        )
        for count in (rng.randint(1, 5) for _ in range(rng.randint(1, 5)))
    ]
    return shares, rng.randint(1, max(2, sum(map(sum, (s.most for s in shares)))))


def test_step_2_is_tried_with_and_without_a_solution() -> None:
    solved = sum(shard(*drawn(seed)) is not None for seed in range(200))
    assert 60 < solved < 180


@pytest.mark.parametrize("seed", range(200))
def test_step_2_leaves_neither_layers_nor_memory_unaccounted(seed: int) -> None:
    shares, length = drawn(seed)
    units = shard(shares, length)
    ranges = [share_counts(share) for share in shares]
    if units is None:
        # Then there are too few layers or too little room, whatever is done.
        few = any(not counts for counts in ranges) or length < sum(map(min, ranges))
        assert few or length > sum(map(max, ranges))
        return
    assert sum(units) == length
    assert all(count in counts for count, counts in zip(units, ranges, strict=True))
    for share, count in zip(shares, units, strict=True):
        split = share.split(count)
        assert sum(split) == count
        assert max(split) - min(split) <= 1
        assert all(1 <= n <= most for n, most in zip(split, share.most, strict=True))


def share_counts(share: Share) -> list[int]:
    """Unit counts that memory has room for, each tried; a layer for every stage."""
    return [
        count
        for count in range(share.stages, sum(share.most) + 1)
        if all(
            n <= most for n, most in zip(share.split(count), share.most, strict=True)
        )
    ]


@pytest.mark.parametrize("seed", range(200))
def test_step_2_finds_the_best_pace(seed: int) -> None:
    """Where memory is plenty the longest stage is as short as can be."""
    rng = Random(seed)
    shares = [
        Share(unit_ns=rng.uniform(1, 9), extra_ns=0.0, most=(40,) * m, late=True)
        for m in (rng.randint(1, 3), rng.randint(1, 3))
    ]
    length = rng.randint(sum(share.stages for share in shares), 40)
    units = shard(shares, length)
    assert units is not None

    def pace(counts: tuple[int, ...]) -> float:
        return max(share.length_ns(n) for share, n in zip(shares, counts, strict=True))

    best = min(
        pace(counts)
        for counts in product(*(range(share.stages, length + 1) for share in shares))
        if sum(counts) == length
    )
    assert pace(tuple(units)) == best


@pytest.mark.parametrize("seed", range(INSTANCES))
def test_plans_hold_and_do_not_beat_the_optimum(seed: int) -> None:
    instance = make_instance(seed, widest=True)
    problem, table = instance.problem, instance.table
    try:
        result = plan(instance)
    except InputError:
        pins = problem.pins
        units = [own.units != Domain() for own in pins.clusters.values()]
        assert pins.units is not None or any(units)
        return
    assert check_result(problem, table, result.to_json()) == []
    assert result.relaxed == ("p4-falling-tp",)
    optimum = brute_force.solve(problem, table, SOLVERS["dfs"].space).best
    if optimum is None:
        assert result.best is None
        return
    assert result.lower_bound_s is not None
    assert result.lower_bound_s <= float(optimum.closed_form_ns) * 1e-9 * (1 + 1e-12)
    if result.best is not None:
        assert result.status == "feasible"
        least = float(optimum.closed_form_ns) * 1e-9
        assert result.best.closed_form_s >= least * (1 - 1e-9)


@pytest.mark.slow
def test_most_instances_get_a_good_plan() -> None:
    ratios = []
    for seed in range(24):
        instance = make_instance(seed, pinned=False)
        best = brute_force.solve(instance.problem, instance.table, PRUNED).best
        result = plan(instance, group_devices=None)
        if best is not None and result.best is not None:
            ratios.append(
                result.best.closed_form_s / (float(best.closed_form_ns) * 1e-9)
            )
    assert len(ratios) >= 8
    assert sorted(ratios)[len(ratios) // 2] < 1.6


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("units", range(3, 12))
def test_what_a_type_takes_is_its_longest_stage(units: int, late: bool) -> None:
    share = Share(unit_ns=2.0, extra_ns=1.5, most=(9, 9, 9), late=late)
    stages = [2.0 * held for held in share.split(units)]
    # The end is the embedding before shorter stages, or the head behind them.
    stages[0 if late else -1] += 1.5
    assert share.length_ns(units) == max(stages)


@pytest.mark.parametrize("cost", ["closed", "h2"])
@pytest.mark.parametrize("seed", range(INSTANCES))
def test_nothing_better_is_left_out(seed: int, cost: str) -> None:
    """A bound from one micro-batch count never hides the best plan of another."""
    instance = make_instance(seed, pinned=False)
    problem, table = instance.problem, instance.table
    costs = []
    for part in table.slices:
        pins = replace(
            problem.pins,
            microbatches=Domain(allowed=frozenset({part.microbatches})),
        )
        own = replace(problem, pins=pins)
        only = Instance(
            seed=seed,
            problem=own,
            table=replace(table, problem_digest=problem_digest(own), slices=(part,)),
        )
        found = plan(only, group_devices=None, cost=cost).best
        if found is not None:
            costs.append(cost_of(found.plan, only, cost))
    best = plan(instance, group_devices=None, cost=cost).best
    assert (best is None) == (not costs)
    if best is not None:
        assert cost_of(best.plan, instance, cost) == pytest.approx(min(costs), rel=1e-9)


def cost_of(found: Plan, instance: Instance, cost: str) -> float:
    priced = price(found, instance.table)
    return priced.closed_form_s if cost == "closed" else h2_cost_ns(priced.times)


@pytest.mark.parametrize("seed", range(0, 30, 3))
def test_each_cost_has_its_own_best_plan(seed: int) -> None:
    instance = make_instance(seed, pinned=False)
    make = partial(plan, instance, group_devices=None)
    by_h2, by_closed = make(cost="h2").best, make(cost="closed").best
    assert (by_h2 is None) == (by_closed is None)
    if by_h2 is None or by_closed is None:
        return
    assert by_closed.closed_form_s <= by_h2.closed_form_s * (1 + 1e-9)
    costs = [
        h2_cost_ns(pipeline_times(found.plan, instance.table))
        for found in (by_h2, by_closed)
    ]
    assert costs[0] <= costs[1]


def test_h2s_cost_by_hand() -> None:
    instance = make_instance(3, pinned=False)
    best = plan(instance).best
    assert best is not None
    times = pipeline_times(best.plan, instance.table)
    q = times.microbatches
    tau = [f + b for f, b in zip(times.forward_ns, times.backward_ns, strict=True)]
    assert h2_cost_ns(times) == max(
        q * tau[i] + times.sync_ns[i] + sum(tau[:i]) + sum(tau[i + 1 :])
        for i in range(len(tau))
    )


def test_units_cannot_be_pinned() -> None:
    instance = make_instance(3, pinned=False)
    name = instance.table.cluster_names[0]
    pins = replace(
        instance.problem.pins,
        clusters={name: ClusterPins(units=Domain(allowed=frozenset({2})))},
    )
    pinned = replace(instance, problem=replace(instance.problem, pins=pins))
    with pytest.raises(InputError, match="decides the units itself") as raised:
        plan(pinned)
    assert raised.value.field == f"pin.clusters.{name}.units"
