"""Tree search against brute force, its tree, and its manners."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hetopt.base.deadline import Deadline
from hetopt.check import check_result
from hetopt.cost.build import build_table
from hetopt.cost.table.ticks import TICK_S
from hetopt.errors import InputError
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.problem.catalogue import problem_files
from hetopt.problem.reading import read_problem, read_problem_text
from hetopt.problem.training.principles import Principles
from hetopt.solvers.mcts import tree as mcts_tree
from hetopt.solvers.mcts.data import SearchData
from hetopt.solvers.mcts.solver import EXPLORATION, shares, solve
from hetopt.solvers.mcts.subtree import Subtree
from hetopt.solvers.mcts.tree import TreeSize
from hetopt.solvers.mcts.worker import GrowTask, TreesSpec, make
from hetopt.solvers.params import MctsParams, RaceParams
from hetopt.solvers.race.messages import NO_CUTOFF, Found
from hetopt.solvers.request import Request
from tests.formulations.programs import table as plain_table
from tests.oracle import brute_force, plain
from tests.oracle.instances import make_instance
from tests.solvers.mcts.space import is_held
from tests.solvers.mcts.values import exact, shape_of

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.formulations.decision import Decision
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Result
    from hetopt.solvers.progress import Progress
    from tests.oracle.instances import Instance

HERE = MctsParams(jobs=0, iterations=4000)
TWINS = """\
model: {layers: 4, hidden: 1024, heads: 8, ffn: 4096, vocab: 32000}
clusters:
  - {name: left, accelerator: A40, nodes: 1, devices_per_node: 2, inter_node: &net
      {bandwidth: 100 Gbps}}
  - {name: right, accelerator: A40, nodes: 1, devices_per_node: 2, inter_node: *net}
links: {default: {bandwidth: 100 Gbps, latency: 10 us}}
training: {global_batch: 4, seq_len: 1024}
"""
#: Plans of an instance that a few thousand iterations meet one and all.
FEW = 150
#: The seed of an instance with many plans.
BIG = 5
#: Hundreds of iterations of each tree that may be needed for that.
MANY = 1200


def uncompiled(function: Any) -> Any:
    return function.py_func


def tree_of(search_data: SearchData, stages: int) -> Subtree:
    # So curious that all children are visited alike.
    return Subtree(search_data, stages, seed=[0], exploration=1e6, most_nodes=1 << 20)


def grow(
    problem: Problem, table: CostTable, stages: int, iterations: int
) -> tuple[Subtree, list[tuple[int, Decision]]]:
    """A tree after so many iterations, and every plan it met."""
    tree = tree_of(SearchData.of(problem, table), stages)
    met: list[tuple[int, Decision]] = []

    def take(value: int, decision: Decision) -> int:
        met.append((value, decision))
        return NO_CUTOFF

    tree.iterate(iterations, take, NO_CUTOFF)
    return tree, met


def run(instance: Instance, params: RaceParams = HERE, seed: int = 0) -> Result:
    return solve(
        Request(
            problem=instance.problem, table=instance.table, params=params, seed=seed
        )
    )


# --- against brute force ------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_plans_pass_the_check_and_none_beats_the_optimum(seed: int) -> None:
    instance = make_instance(seed)
    answer = brute_force.solve(instance.problem, instance.table)
    result = run(instance, replace(HERE, top=1 + seed % 3))
    findings = check_result(instance.problem, instance.table, result.to_json())
    assert findings == []
    if answer.best is None:
        assert result.best is None
        assert result.status in ("infeasible", "unknown")
        return
    assert result.best is not None
    held = [
        found
        for found in answer.shapes
        if is_held(instance.problem, instance.table, found.shape)
    ]
    optimum = float(answer.best.closed_form_ns) * 1e-9
    assert result.lower_bound_s is not None
    assert result.lower_bound_s <= optimum * (1 + 1e-9)
    slack = result.best.plan.pipeline.microbatches * 1e-9
    least = float(held[0].closed_form_ns) * 1e-9
    assert result.best.closed_form_s >= least - slack
    if answer.plans <= FEW:
        assert result.best.closed_form_s == pytest.approx(least, abs=slack)


@pytest.mark.parametrize("seed", range(60))
def test_the_tree_holds_the_plans_of_its_space_that_brute_force_tries(
    seed: int,
) -> None:
    instance = make_instance(seed)
    problem, table = instance.problem, instance.table
    held = {
        (found.shape, found.units)
        for found in brute_force.every_plan(problem, table)
        if is_held(problem, table, found.shape)
    }
    search_data = SearchData.of(problem, table)
    assert {shape[0] for shape, _ in held} <= set(search_data.stages)
    different: dict[tuple[object, ...], int] = {}

    def take(value: int, decision: Decision) -> int:
        key = (shape_of(table, decision), decision.units)
        if key not in different:
            assert exact(problem, table, decision) == value
        assert different.setdefault(key, value) == value
        return NO_CUTOFF

    trees = [tree_of(search_data, stages) for stages in search_data.stages]
    for turn in range(MANY):
        for tree in trees:
            tree.iterate(100, take, NO_CUTOFF)
        # Some turns more, to see that there are no others.
        if len(held) > FEW or (len(different) >= len(held) and turn % 4 == 3):
            break
    assert different.keys() <= held
    if len(held) <= FEW:
        assert different.keys() == held


@pytest.mark.slow
def test_some_instances_are_small_enough_to_be_searched_whole() -> None:
    counts = [
        brute_force.solve(made.problem, made.table).plans
        for made in map(make_instance, range(60))
    ]
    assert sum(0 < count <= FEW for count in counts) >= 10


# --- HetAuto's reading --------------------------------------------------------------


@cache
def shipped(name: str) -> tuple[Problem, CostTable]:
    problem = read_problem(str(problem_files()[name]))
    return problem, build_table(problem)


@pytest.mark.parametrize("stages", [2, 3, 6])
def test_no_device_of_a_cluster_that_hosts_stages_idles(stages: int) -> None:
    problem, table = shipped("hetauto-exp1")
    _, met = grow(problem, table, stages, 2000)
    assert {len(decision.order) for _, decision in met} == {1, 2}
    for _, decision in met:
        for j, strategy, hosted in zip(
            decision.order, decision.strategies, decision.hosted, strict=True
        ):
            own = table.at(decision.microbatches).clusters[j]
            devices = int(own.devices[own.row(strategy)])
            assert devices == own.devices[own.max_stages >= hosted].max()
            # On one cluster of 32 devices, 3 or 6 stages always let some idle.
            if len(decision.order) == 2:
                assert hosted * devices == table.cluster_devices[j]


def test_recomputation_is_one_level_of_the_plan() -> None:
    problem, table = shipped("hetauto-exp1")
    levels = set()
    for _, decision in grow(problem, table, 2, 2000)[1]:
        (level,) = {strategy.recompute for strategy in decision.strategies}
        levels.add(level)
    assert levels == {"none", "selective", "full"}


def test_a_cluster_keeps_the_recomputation_that_the_problem_gives_it() -> None:
    given = "recompute: {left: none, right: full}"
    problem = read_problem_text(TWINS.replace("seq_len", f"{given}, seq_len"))
    _, met = grow(problem, build_table(problem), 2, 2000)
    levels = {
        (j, strategy.recompute)
        for _, decision in met
        for j, strategy in zip(decision.order, decision.strategies, strict=True)
    }
    assert levels == {(0, "none"), (1, "full")}


def test_counts_of_stages_that_fill_no_cluster_have_plans_too() -> None:
    # 7 stages on two clusters of 32 devices: no two powers of two.
    _, met = grow(*shipped("hetauto-exp1"), 7, 2000)
    assert met


@pytest.mark.parametrize(
    ("name", "stages", "closed_form_s"),
    [
        ("hetauto-exp1", 2, 10.50),
        ("hetauto-exp2", 4, 12.43),
        ("hetauto-exp3", 4, 13.22),
    ],
)
def test_so_many_iterations_find_a_plan_as_good(
    name: str, stages: int, closed_form_s: float
) -> None:
    problem, table = shipped(name)
    tree = Subtree(
        SearchData.of(problem, table),
        stages,
        seed=[0],
        exploration=EXPLORATION,
        most_nodes=1 << 20,
    )
    values = [NO_CUTOFF]

    def take(value: int, decision: Decision) -> int:
        values.append(value)
        return value - 1

    tree.iterate(20_000, take, NO_CUTOFF)
    assert values[-1] / PERIOD_SCALE * TICK_S <= closed_form_s


# --- the tree -----------------------------------------------------------------------


def test_visits_and_rewards_add_up() -> None:
    problem, table = plain.problem(), plain_table()
    tree, met = grow(problem, table, 3, 3000)
    nodes, size = tree.nodes, int(tree.nodes.size[TreeSize.NODES])
    assert nodes.visits[0] == 3000
    assert nodes.reward[0] == pytest.approx(
        sum(1 / (1 + value / PERIOD_SCALE * 1e-9) for value, _ in met)
    )
    assert (nodes.visits[:size] > 0).all()
    assert (nodes.reward[:size] <= nodes.visits[:size]).all()
    children = 0
    for node in range(size):
        first = nodes.first[node]
        if first < 0 or not nodes.branches[node]:
            continue
        tried = nodes.child[first : first + nodes.tried[node]]
        children += len(tried)
        moves = nodes.move[first : first + nodes.branches[node]]
        assert len(set(moves.tolist())) == len(moves)
        # Its first visit ended at the node itself; the root has no such visit.
        assert nodes.visits[node] == nodes.visits[tried].sum() + (node > 0)
        # A child is tried a second time only when all have been tried once.
        if nodes.tried[node] < nodes.branches[node]:
            assert (nodes.visits[tried] == 1).all()
    assert children == size - 1


def test_ucb_is_the_papers() -> None:
    # Eq. 1: rewards of 1.5 in 3 of 9 visits, lambda = 10.
    assert uncompiled(mcts_tree.ucb)(1.5, 3, 9, 10.0) == pytest.approx(
        0.5 + 10 * math.sqrt(math.log(9) / 3)
    )


@pytest.mark.parametrize(("exploration", "chosen"), [(0.0, 1), (10.0, 2)])
def test_selection_weighs_reward_against_visits(
    monkeypatch: pytest.MonkeyPatch, exploration: float, chosen: int
) -> None:
    monkeypatch.setattr(mcts_tree, "ucb", uncompiled(mcts_tree.ucb))
    nodes = mcts_tree.new_nodes(4, 3, 1)
    nodes.first[0], nodes.branches[0], nodes.tried[0] = 0, 3, 3
    nodes.child[:] = [1, 2, 3]
    nodes.visits[:] = [9, 4, 4, 1]
    nodes.reward[:] = [3.3, 1.2, 2.0, 0.1]
    assert uncompiled(mcts_tree._select)(nodes, 0, exploration) == chosen


def test_reward_falls_with_the_time() -> None:
    one_second = 10**9 * PERIOD_SCALE
    assert uncompiled(mcts_tree.reward_of)(0) == 1.0
    assert uncompiled(mcts_tree.reward_of)(one_second) == 0.5
    assert uncompiled(mcts_tree.reward_of)(3 * one_second) == 0.25


def test_what_does_not_fit_earns_nothing() -> None:
    problem = plain.problem()
    table = replace(plain_table(), usable_bytes=(1, 1))
    tree, met = grow(problem, table, 2, 500)
    assert not met
    assert tree.nodes.visits[0] == 500
    assert not tree.nodes.reward.any()
    result = solve(Request(problem=problem, table=table, params=HERE))
    assert result.best is None
    assert result.status in ("infeasible", "unknown")


def test_a_tree_that_is_full_goes_on() -> None:
    problem, table = plain.problem(), plain_table()
    tree = Subtree(
        SearchData.of(problem, table), 3, seed=[0], exploration=1.0, most_nodes=1 << 10
    )
    tree.iterate(20_000, lambda value, decision: value - 1, NO_CUTOFF)
    assert tree.nodes.visits[0] == 20_000
    assert tree.nodes.size[TreeSize.NODES] <= 1 << 10


# --- the solver ---------------------------------------------------------------------


def test_iterations_are_shared_out() -> None:
    assert shares(11, (1, 2, 5)) == {1: 4, 2: 4, 5: 3}
    assert shares(None, (1, 2)) == {1: None, 2: None}


def test_every_better_plan_is_told() -> None:
    instance = make_instance(BIG)
    told: list[Progress] = []
    result = run(instance, replace(HERE, on_progress=told.append))
    assert result.best is not None
    values = [said.incumbent_s for said in told if said.incumbent_s is not None]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) > 1
    assert values[-1] == pytest.approx(result.best.closed_form_s)
    times = [said.elapsed_s for said in told]
    assert times == sorted(times)


def test_time_ends_it() -> None:
    began = time.monotonic()
    instance = make_instance(BIG)
    result = solve(
        Request(
            problem=instance.problem,
            table=instance.table,
            params=RaceParams(jobs=0),
            deadline=Deadline.after(0.5),
        )
    )
    assert result.status in ("feasible", "optimal")
    assert time.monotonic() - began < 10


def test_ctrl_c_returns_the_best_so_far() -> None:
    def interrupt(progress: Progress) -> None:
        if progress.incumbent_s is not None:
            raise KeyboardInterrupt

    instance = make_instance(BIG)
    result = run(instance, MctsParams(jobs=0, on_progress=interrupt))
    assert result.best is not None
    assert result.interrupted
    assert result.search_time_s < 30


def test_a_cutoff_leaves_out_what_is_worse() -> None:
    instance = make_instance(BIG)
    best = run(instance).best
    assert best is not None
    tight = solve(
        Request(
            problem=instance.problem,
            table=instance.table,
            params=HERE,
            cutoff_s=best.closed_form_s * 0.2,
        )
    )
    assert tight.best is None
    assert tight.status == "unknown"


def test_other_spaces_are_refused() -> None:
    instance = make_instance(BIG)
    with pytest.raises(InputError, match="cannot relax p4"):
        run(instance, replace(HERE, principles=Principles.relaxing(["p4"])))
    free = make_instance(BIG, schedule="free-1f1b")
    with pytest.raises(InputError, match="leaves warm-up counts to hetopt plan"):
        run(free)


def test_a_lost_workers_trees_are_grown_by_another() -> None:
    problem, table = plain.problem(), plain_table()
    search_data = SearchData.of(problem, table)
    mine, lost = search_data.stages[::2], search_data.stages[1::2]
    assert mine
    assert lost
    told: list[Found] = []
    spec = TreesSpec(
        search_data=search_data,
        seed=0,
        top=1,
        exploration=1.0,
        iterations=dict.fromkeys(search_data.stages, 1000),
    )
    grow_all = make(spec, SimpleNamespace(value=NO_CUTOFF), told.append)
    assert grow_all(GrowTask(stages=mine, limit_s=None))
    assert {found.decision.stages for found in told} <= {*mine}
    assert grow_all(GrowTask(stages=lost, limit_s=None))
    assert {found.decision.stages for found in told} & {*lost}


def test_twins_make_no_copies() -> None:
    problem = read_problem_text(TWINS)
    table = build_table(problem)
    params = MctsParams(jobs=0, iterations=5000, top=5)
    result = solve(Request(problem=problem, table=table, params=params))
    assert result.best is not None
    orders = set()
    for each in (result.best, *result.alternatives):
        stages = each.plan.pipeline.stages
        names = tuple(dict.fromkeys(stage.cluster for stage in stages))
        assert names in (("left",), ("left", "right"))
        orders.add(names)
    assert ("left", "right") in orders


def test_seeds_are_of_64_bits() -> None:
    problem, table = plain.problem(), plain_table()
    search_data = SearchData.of(problem, table)
    trees = [
        Subtree(search_data, 2, seed=[seed], exploration=1.0, most_nodes=10)
        for seed in (0, 1, 2**40)
    ]
    states = {int(tree.state.seed[0]) for tree in trees}
    assert len(states) == 3
    assert all(tree.state.seed.dtype == np.uint64 for tree in trees)
