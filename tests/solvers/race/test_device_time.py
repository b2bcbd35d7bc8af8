"""Bounds by device time are true of what brute force finds."""

from __future__ import annotations

import numpy as np
import pytest

from hetopt.cost.build import build_table
from hetopt.formulations.chain import Chain
from hetopt.formulations.decision import Decision
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.pricing.price import pipeline_times
from hetopt.problem.reading import read_problem_text
from hetopt.problem.training.choices import SCHEDULE_CHOICES, ScheduleName
from hetopt.problem.training.principles import PRUNED, Principles
from hetopt.solvers.decisions.assembly import closed_value, plan_of
from hetopt.solvers.race.device_time import least_ns, least_values
from hetopt.solvers.race.ledger import Ledger
from hetopt.solvers.race.messages import NO_CUTOFF
from hetopt.solvers.simulated.ledger import SimulatedLedger
from tests.oracle import brute_force
from tests.oracle.instances import (
    OTHERS,
    OVERLAPPING,
    Instance,
    make_instance,
    make_other,
)


def _ensure_true(instance: Instance) -> None:
    """Compare with the best plan of every shape."""
    problem, table = instance.problem, instance.table
    chain, tight = Chain.of(table), 1.0
    least = {part.microbatches: least_ns(part, chain) for part in table.slices}
    for found in brute_force.solve(problem, table, estimated=True).shapes:
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


def _ensure_bounded(
    instance: Instance, principles: Principles = PRUNED, *, simulated: bool = False
) -> None:
    """Compare the first bound of every (p, q) with its best plan."""
    problem, table = instance.problem, instance.table
    kind = SimulatedLedger if simulated else Ledger
    ledger = kind(problem, table, top=1, limit=NO_CUTOFF)
    assert all(program.bound > 0 for program in ledger.open())
    for found in brute_force.solve(
        problem, table, principles, simulated=simulated
    ).shapes:
        value = found.simulated_ns if simulated else found.closed_form_ns
        assert value is not None
        program = ledger.programs[found.shape[:2]]
        assert program.how is None
        assert program.bound <= value * PERIOD_SCALE
    bound_s = ledger.bound_s()
    assert bound_s is None or bound_s > 0


@pytest.mark.quick_cases(20)
@pytest.mark.parametrize("kind", SCHEDULE_CHOICES)
@pytest.mark.parametrize("seed", range(4300, 4310))
def test_every_pair_has_a_bound_at_once(seed: int, kind: ScheduleName) -> None:
    _ensure_bounded(make_other(seed, kind))


@pytest.mark.parametrize("seed", range(4310, 4320))
def test_so_has_every_pair_of_a_model_with_experts(seed: int) -> None:
    _ensure_bounded(make_instance(seed, experts=True))


@pytest.mark.parametrize("names", [["p4"], ["p4-falling-tp"], ["p3"], ["p3", "p4"]])
@pytest.mark.parametrize("seed", range(4320, 4332))
def test_so_has_every_pair_where_principles_are_relaxed(
    seed: int, names: list[str]
) -> None:
    _ensure_bounded(make_instance(seed, widest=True), Principles.relaxing(names))


@pytest.mark.quick_cases(8)
@pytest.mark.parametrize("kind", OVERLAPPING)
@pytest.mark.parametrize("seed", range(4340, 4346))
def test_so_has_every_simulated_time(seed: int, kind: ScheduleName) -> None:
    _ensure_bounded(make_instance(seed, schedule=kind), simulated=True)


def test_stages_of_several_chunks_need_not_wait_for_a_whole_fill() -> None:
    """Two of the four stages have a layer less, and hide the others' waiting."""
    problem = read_problem_text(
        """
model: {layers: 60, hidden: 2048, heads: 16, ffn: 8192, vocab: 128}
clusters:
  - {name: a, accelerator: A100-80GB, nodes: 1, devices_per_node: 4, memory: 78 GB,
     overhead: 0 GB, max_tp: 1}
training: {global_batch: 8, seq_len: 4096, schedule: interleaved-1f1b, chunks: 2,
           zero: 0, recompute: none}
pin: {stages: 4, clusters: {a: {cp: 1}}}
"""
    )
    table = build_table(problem)
    (strategy,) = table.at(8).clusters[0].strategies
    decision = Decision(
        microbatches=8,
        order=(0,),
        strategies=(strategy,),
        hosted=(4,),
        units=(9, 8, 7, 8),
    )
    value = closed_value(pipeline_times(plan_of(decision, table, ""), table))
    assert least_values(table, closed=True)[8] <= value
