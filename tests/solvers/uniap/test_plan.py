"""``uniap`` as a solver: plans with a strategy per unit, and what it claims of them."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.base.deadline import Deadline
from hetopt.check import check_plan, check_result
from hetopt.cost.build import build_table
from hetopt.errors import InputError
from hetopt.formulations.uniap.choice import UniapChoice
from hetopt.formulations.uniap.choice import price as uniap_price
from hetopt.formulations.uniap.programs import uniap_programs
from hetopt.pricing.price import price
from hetopt.problem.training.pins import ClusterPins, Domain, Pins
from hetopt.problem.training.principles import Principles
from hetopt.solvers.loading import load
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from hetopt.solvers.uniap.outcome import plan_of
from hetopt.solvers.uniap.search import UniapParams, UniapSettlement
from hetopt.solvers.uniap.solver import solve
from hetopt.solvers.uniap.stopping import EarlyStopping
from tests.solvers.graphs import brute_force
from tests.solvers.units import problem, solved, table

if TYPE_CHECKING:
    from hetopt.plans.plan import Stage
    from hetopt.plans.strategy import Strategy
    from hetopt.problem.problem import Problem
    from hetopt.solvers.progress import Progress


def only(*values: Any) -> Domain:
    return Domain(allowed=frozenset(values))


def pinned(**pins: Any) -> Problem:
    return replace(problem(), pins=Pins(**pins))


def on_cluster(**pins: Any) -> Problem:
    return pinned(clusters={problem().clusters[0].name: ClusterPins(**pins)})


def test_the_plan_mixes_strategies_and_every_claim_holds() -> None:
    result = solved()
    assert result.status == "optimal"
    assert result.objective == "uniap"
    assert result.best is not None
    plan = result.best.plan
    stages = plan.pipeline.stages
    assert plan.per_unit
    assert sum(stage.units for stage in stages) == len(problem().model.units)
    used = {unit for stage in stages for unit in stage.unit_strategies or ()}
    assert len({(strategy.dp, strategy.tp) for strategy in used}) == 2
    assert check_result(problem(), table(), result.to_json()) == []
    priced = price(plan, table())
    assert priced.uniap_s == pytest.approx(result.best.objective_s, rel=1e-12)
    assert priced.closed_form_s == pytest.approx(result.best.closed_form_s)
    assert priced.iteration_time_s == pytest.approx(result.best.iteration_time_s)
    assert max(priced.memory_bytes) <= priced.usable_bytes[0]
    assert priced.recompute_ns == (0,) * len(stages)


def test_what_units_recompute_is_known_where_the_table_has_both() -> None:
    free = replace(problem(), training=replace(problem().training, recompute={}))
    costs = build_table(free)
    best = solved().best
    assert best is not None

    def full(strategy: Strategy) -> Strategy:
        return replace(strategy, recompute="full")

    def recomputing(stage: Stage) -> Stage:
        strategies = tuple(map(full, stage.unit_strategies or ()))
        return replace(stage, strategy=full(stage.strategy), unit_strategies=strategies)

    pipeline = best.plan.pipeline
    stages = tuple(map(recomputing, pipeline.stages))
    again = replace(best.plan, pipelines=(replace(pipeline, stages=stages),))
    plain, recomputed = price(best.plan, costs), price(again, costs)
    longer = zip(recomputed.times.backward_ns, plain.times.backward_ns, strict=True)
    assert recomputed.recompute_ns == tuple(one - other for one, other in longer)
    assert min(ns for ns in recomputed.recompute_ns if ns is not None) > 0
    for less, more in zip(
        recomputed.activation_bytes, plain.activation_bytes, strict=True
    ):
        assert 0 < less < more


def test_shardings_mix_where_memory_is_shorter_still() -> None:
    cluster = replace(problem().clusters[0], memory_bytes=1_000_000_000)
    tighter = replace(problem(), clusters=(cluster,))
    result = solved(tighter)
    assert result.best is not None
    stages = result.best.plan.pipeline.stages
    used = {unit for stage in stages for unit in stage.unit_strategies or ()}
    assert {strategy.zero for strategy in used} == {0, 3}
    assert check_result(tighter, build_table(tighter), result.to_json()) == []


def test_no_choice_of_a_smaller_model_is_better() -> None:
    small = replace(problem(), model=replace(problem().model, layers=2))
    small = replace(small, pins=Pins(microbatches=only(2, 4), stages=only(1, 2)))
    programs = uniap_programs(small, build_table(small))
    values = [brute_force(program) for program in programs]
    result = solved(small)
    assert result.best is not None
    expected = min(value for value in values if value is not None)
    assert result.best.objective_s == pytest.approx(expected * 1e-9, rel=1e-12)


def test_it_is_registered_and_answers_alike() -> None:
    again = load("uniap")(
        Request(problem=problem(), table=table(), deadline=Deadline.after(60), seed=3)
    )
    assert again.best == solved(seed=3).best


def test_every_pair_is_settled() -> None:
    pairs = {(item.stages, item.microbatches) for item in solved().settlements}
    assert pairs == {(p, q) for p in (1, 2, 4) for q in (2, 4)}


def test_cutoff() -> None:
    best = solved().best
    assert best is not None
    assert best.objective_s is not None
    assert solved(cutoff_s=best.objective_s * (1 + 1e-9)).best == best
    result = solved(cutoff_s=best.objective_s * 0.99)
    assert result.status == "unknown"
    assert result.reason == "no plan is within the cutoff"
    assert check_result(problem(), table(), result.to_json()) == []


def test_no_time_gives_no_plan_but_bounds() -> None:
    result = solved(deadline=Deadline.after(1e-9))
    assert result.status == "unknown"
    assert result.reason == "stopped before a plan was found"
    assert result.lower_bound_s is not None
    assert result.lower_bound_s > 0
    assert check_result(problem(), table(), result.to_json()) == []


def test_ctrl_c_returns_the_best_so_far() -> None:
    def give_up(settlement: UniapSettlement) -> None:
        raise KeyboardInterrupt

    params = UniapParams(on_settled=give_up)
    result = solve(Request(problem=problem(), table=table(), params=params))
    assert result.best is not None
    assert result.interrupted
    assert result.lower_bound_s is not None
    assert check_result(problem(), table(), result.to_json()) == []


def test_early_stopping_proves_no_more_than_it_saw() -> None:
    params = UniapParams(stopping=EarlyStopping(gap=1.0), starts=False)
    result = solve(Request(problem=problem(), table=table(), params=params))
    assert result.best is not None
    assert check_result(problem(), table(), result.to_json()) == []


def test_progress_ends_with_everything_settled() -> None:
    seen: list[Progress] = []
    params = RaceParams(on_progress=seen.append)
    result = solve(Request(problem=problem(), table=table(), params=params))
    assert seen[-1].settled == seen[-1].programs
    assert result.best is not None
    assert seen[-1].incumbent_s == pytest.approx(result.best.objective_s)
    assert seen[-1].gap == 0


@pytest.mark.parametrize(
    ("pins", "holds"),
    [
        ({"dp": only(1)}, lambda strategy: strategy.dp == 1),
        ({"tp": Domain(forbidden=frozenset({2}))}, lambda strategy: strategy.tp != 2),
        ({"recompute": only("none")}, lambda strategy: strategy.recompute == "none"),
    ],
)
def test_pins_of_strategies_hold_for_every_unit(pins: Any, holds: Any) -> None:
    of = on_cluster(**pins)
    of = replace(of, clusters=(replace(of.clusters[0], memory_bytes=12 * 10**9),))
    best = solved(of).best
    assert best is not None
    for stage in best.plan.pipeline.stages:
        assert all(map(holds, stage.unit_strategies or ()))


def test_pins_of_the_pipeline_hold() -> None:
    of = pinned(stages=only(4), microbatches=only(8))
    result = solved(of)
    assert result.best is not None
    assert len(result.best.plan.pipeline.stages) == 4
    assert result.best.plan.pipeline.microbatches == 8
    assert len(result.settlements) == 1
    result = solved(on_cluster(stages=only(1)))
    assert {item.stages for item in result.settlements} == {1}


@pytest.mark.parametrize(
    ("of", "params", "message"),
    [
        (pinned(units=(4, 4)), RaceParams(), "pin.units: uniap decides"),
        (on_cluster(cp=only(2)), RaceParams(), "cp: leaves no plan"),
        (on_cluster(units=only(0)), RaceParams(), "units: leaves no plan"),
        (problem(), RaceParams(top=2), "--top: is 2, but uniap reports one plan"),
        (
            problem(),
            RaceParams(principles=Principles.relaxing(["p4"])),
            "solver uniap cannot relax p4",
        ),
        (
            replace(problem(), training=replace(problem().training, schedule="1f1b")),
            RaceParams(),
            "is 1f1b, but UniAP plans gpipe",
        ),
        (
            replace(
                problem(),
                clusters=(
                    *problem().clusters,
                    replace(problem().clusters[0], name="other"),
                ),
            ),
            RaceParams(),
            "2 clusters, but UniAP plans for one",
        ),
    ],
)
def test_refuses_what_it_cannot_honour(
    of: Problem, params: RaceParams, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        solve(Request(problem=of, table=build_table(of), params=params))


@pytest.mark.parametrize(
    ("memory_bytes", "reason"),
    [(7 * 10**8, "the layers need at least"), (10**8, "has room for one layer")],
)
def test_says_why_nothing_fits(memory_bytes: int, reason: str) -> None:
    cluster = replace(problem().clusters[0], memory_bytes=memory_bytes)
    of = replace(problem(), clusters=(cluster,))
    result = solved(of)
    assert result.status == "infeasible"
    assert result.reason is not None
    assert reason in result.reason
    assert check_result(of, build_table(of), result.to_json()) == []


def test_a_stage_may_hold_the_embedding_alone() -> None:
    # UniAP's (7b) asks for a layer of any kind.
    cluster = replace(problem().clusters[0], memory_bytes=12 * 10**9)
    of = replace(problem(), clusters=(cluster,))
    costs = build_table(of)
    (program,) = (
        program
        for program in uniap_programs(of, costs)
        if (program.stages, program.microbatches) == (2, 4)
    )
    layers = len(program.graph.layers)
    choice = UniapChoice(stage=(0, *(1,) * (layers - 1)), strategy=(0,) * layers)
    checked = check_plan(of, costs, plan_of(program, choice, costs))
    value = uniap_price(program, choice).total_ns
    assert checked.uniap_s == pytest.approx(value * 1e-9, rel=1e-12)


def test_params_survive_pickling() -> None:
    params = UniapParams(stopping=EarlyStopping(gap=0.04))
    assert pickle.loads(pickle.dumps(params)) == params


@pytest.mark.parametrize("better", ["memory", "network", "recomputation"])
def test_better_hardware_or_more_freedom_never_costs(better: str) -> None:
    before = solved().best
    cluster = problem().clusters[0]
    of = problem()
    if better == "memory":
        cluster = replace(cluster, memory_bytes=cluster.memory_bytes * 11 // 10)
    if better == "network":
        link = cluster.inter_node
        faster = replace(link, bandwidth_bytes_per_s=2 * link.bandwidth_bytes_per_s)
        cluster = replace(cluster, inter_node=faster)
    if better == "recomputation":
        of = replace(of, training=replace(of.training, recompute={}))
    after = solved(replace(of, clusters=(cluster,))).best
    assert before is not None
    assert after is not None
    assert before.objective_s is not None
    assert after.objective_s is not None
    assert after.objective_s <= before.objective_s * (1 + 1e-9)
