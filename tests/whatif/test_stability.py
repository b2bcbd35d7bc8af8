"""How far coefficients may move: held against plans of the moved problems."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import pytest

from hetopt.base.deadline import Deadline
from hetopt.cost.build import build_table
from hetopt.export.planning.runnable import launchable
from hetopt.planning.asked import Search
from hetopt.planning.posed import Posed, search
from hetopt.pricing.price import price
from hetopt.pricing.several import price_several
from hetopt.problem.reading import read_problem_text
from hetopt.results.crossing import MARGIN, Crossing
from hetopt.results.money import known_cost
from hetopt.results.spending import Spending
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from hetopt.solvers.search.branchings.divisions import Divisions
from hetopt.solvers.search.loop import Loop
from hetopt.whatif.moves import Move, moves_of
from hetopt.whatif.stability import FACTORS, Stability
from tests.search.composing import (
    ROUNDING,
    Asked,
    Truth,
    drawn,
    searched,
)

if TYPE_CHECKING:
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem
    from hetopt.results.priced_plan import PricedPlan

PROBLEM = read_problem_text(
    """\
model: {layers: 8, hidden: 1024, heads: 8, ffn: 4096, vocab: 32000}
clusters:
  - {name: a, accelerator: A100-80GB, nodes: 1, devices_per_node: 4, memory: 8 GB,
     overhead: 0 GB, inter_node: {bandwidth: 100 Gbps}}
  - {name: b, accelerator: A40, nodes: 1, devices_per_node: 2, uplink: 40 Gbps,
     inter_node: {bandwidth: 100 Gbps}}
links: {default: {bandwidth: 20 Gbps, latency: 1 ms}}
training: {global_batch: 16, seq_len: 2048, precision: fp16}
"""
)


@cache
def request() -> Request:
    return Request(
        problem=PROBLEM, table=build_table(PROBLEM), params=RaceParams(jobs=1)
    )


@cache
def crossings() -> tuple[Crossing, ...]:
    best = search(request(), solver="dp", objective="closed").best
    assert best is not None
    posed = Posed.of(Search(problem=PROBLEM, solver="dp", time="closed", jobs=1))
    stability = Stability(posed, request(), best.plan)
    told: list[str] = []
    found = stability.crossings(told.append)
    assert not stability.interrupted
    assert len(told) == len(found)
    return tuple(found)


def move_of(crossing: Crossing) -> Move:
    return Move(kind=crossing.kind, clusters=crossing.clusters)


def best_s(move: Move, factor: float) -> float:
    """Return the least time of the moved problem."""
    problem = move.in_problem(PROBLEM, factor)
    moved = replace(request(), problem=problem, table=build_table(problem))
    best = search(moved, solver="dp", objective="closed").best
    assert best is not None
    return best.closed_form_s


def plan_s(move: Move, factor: float) -> float:
    """Return what the plan takes in the moved problem."""
    best = search(request(), solver="dp", objective="closed").best
    assert best is not None
    return price(best.plan, build_table(move.in_problem(PROBLEM, factor))).closed_form_s


@pytest.mark.slow
def test_everything_is_moved_both_ways() -> None:
    moves = list(moves_of(PROBLEM))
    assert [move.words() for move in moves] == [
        "speed of a",
        "memory of a",
        "speed of b",
        "memory of b",
        "uplink of b",
        "link a-b",
    ]
    assert [(move_of(each), each.more) for each in crossings()] == [
        (move, more) for move in moves for more in (False, True)
    ]
    assert any(each.factor is not None for each in crossings())
    assert any(each.factor is None for each in crossings())


@pytest.mark.slow
def test_another_plan_is_better_where_it_is_said_to_be() -> None:
    for each in crossings():
        assert each.proven
        if each.factor is None or each.plan_s is None:
            continue
        assert each.other is not None
        assert each.plan_s == plan_s(move_of(each), each.factor)
        assert each.other.closed_form_s < each.plan_s * (1 - MARGIN)
        assert each.other.closed_form_s == best_s(move_of(each), each.factor)


@pytest.mark.slow
def test_none_is_better_before() -> None:
    for each in crossings():
        for step in FACTORS[::3]:
            factor = step if each.more else 1 / step
            reached = 1.0 if each.factor is None else each.factor
            beyond = factor >= reached if each.more else factor <= reached
            if each.factor is not None and beyond:
                break
            if each.kind == "memory" and not each.more:
                # Whether it fits there is looked at elsewhere.
                continue
            own = plan_s(move_of(each), factor)
            assert best_s(move_of(each), factor) >= own * (1 - MARGIN) * (1 - 1e-9)


@pytest.mark.slow
def test_a_plan_that_does_not_fit_any_more() -> None:
    less = next(
        each
        for each in crossings()
        if move_of(each) == Move(kind="memory", clusters=("a",)) and not each.more
    )
    assert less.factor is not None
    assert less.plan_s is None


@pytest.mark.parametrize("kind", ["speed", "memory", "link"])
def test_a_move_by_nothing_changes_nothing(kind: str) -> None:
    move = next(each for each in moves_of(PROBLEM) if each.kind == kind)
    problem = move.in_problem(PROBLEM, 1.0)
    assert problem.clusters == PROBLEM.clusters
    table = build_table(problem)
    for one, other in zip(table.slices, request().table.slices, strict=True):
        assert one.transfer_ns.tolist() == other.transfer_ns.tolist()
        for mine, theirs in zip(one.clusters, other.clusters, strict=True):
            assert mine.forward_ns.tolist() == theirs.forward_ns.tolist()


def test_speed_is_of_computation_alone() -> None:
    """What takes time between devices takes as long on quicker ones."""
    moved = build_table(Move(kind="speed", clusters=("a",)).in_problem(PROBLEM, 3.0))
    for new, old in zip(moved.slices, request().table.slices, strict=True):
        for name in ("forward_ns", "backward_ns"):
            times = getattr(new.clusters[0], name), getattr(old.clusters[0], name)
            for strategy, quick, slow in zip(
                old.clusters[0].strategies, *times, strict=True
            ):
                if strategy.tp * strategy.cp == 1:
                    assert quick == pytest.approx(slow / 3, abs=1)
                else:
                    assert (quick * 3 >= slow - 3).all()
        assert new.clusters[1].forward_ns.tolist() == (
            old.clusters[1].forward_ns.tolist()
        )


#: The plan of this drawn problem has one pipeline on one node of green.
SEED = 3
SLOWER = Move(kind="speed", clusters=("green",))


def best_of(asked: Asked, problem: Problem) -> PricedPlan:
    best = searched(problem, asked).run().best
    assert best is not None
    return best


def posed_of(problem: Problem, asked: Asked) -> Posed:
    """Return what ``searched`` searches."""
    return Posed(
        asked=Search(problem=problem, solver="dp", time=asked.time, jobs=1),
        problem=problem,
        table=build_table(problem),
        over=asked.over,
        objective=asked.time,
    )


@pytest.mark.parametrize(
    "asked",
    [
        Asked("time", False, 1, False, "closed", 1),
        Asked("cost", False, 1, False, "closed", 1),
        Asked(None, True, 1, False, "closed", 1),
        Asked(None, False, 2, False, "closed", 1),
        Asked(None, False, 1, True, "closed", 1),
        pytest.param(
            Asked("cost", True, 2, False, "closed", 1), marks=pytest.mark.slow
        ),
        pytest.param(
            Asked(None, True, 1, False, "simulated", 1), marks=pytest.mark.slow
        ),
    ],
)
def test_whatever_is_branched_over(asked: Asked) -> None:
    """Held against the least value of all plans of the changed problems."""
    problem, costs = drawn(SEED), asked.measure == "cost"
    plan = best_of(asked, problem).plan
    request = searched(problem, asked).request
    stability = Stability(posed_of(problem, asked), request, plan)
    crossing = stability.crossing(SLOWER, more=False)
    assert crossing is not None
    assert crossing.factor is not None
    assert crossing.other is not None
    assert crossing.proven
    before = [1 / step for step in FACTORS if 1 / step > crossing.factor]
    for factor in (*before, crossing.factor):
        moved = SLOWER.in_problem(problem, factor)
        own = plan_of(asked, moved, plan)
        least = Truth(moved).values(asked)[0]
        if factor > crossing.factor:
            assert least >= own * (1 - MARGIN) * (1 - ROUNDING)
            continue
        assert least < own * (1 - MARGIN)
        mine, its = crossing.plan_s, crossing.other.time_s(asked.time)
        if costs:
            assert crossing.plan_cost is not None
            assert crossing.other_cost is not None
            mine, its = 3600 * crossing.plan_cost, 3600 * crossing.other_cost
        assert (mine, its) == pytest.approx((own, least), rel=ROUNDING)


def plan_of(asked: Asked, moved: Problem, plan: Plan) -> float:
    """Return the value of a plan of one pipeline in a changed problem."""
    own = moved.of_plan(plan.schedule, plan.chunks, plan.warmup_epsilon)
    known = price(plan, build_table(own))
    simulated = asked.time == "simulated"
    time_s = known.iteration_time_s if simulated else known.closed_form_s
    if asked.measure != "cost":
        return time_s
    per_hour = known_cost(moved, plan, time_s).per_hour
    assert per_hour is not None
    return per_hour * time_s


def test_a_plan_that_is_too_slow_is_not_permitted_any_more() -> None:
    asked = Asked("cost", False, 1, False, "closed", 1)
    red, green = drawn(SEED).clusters
    # Others are quick enough, but dear.
    problem = replace(drawn(SEED), clusters=(replace(red, price_per_hour=50.0), green))
    best = best_of(asked, problem)
    rate = problem.training.tokens / best.closed_form_s * 0.7
    over = replace(asked.over, spending=Spending(min_tokens_per_s=rate))
    posed = replace(posed_of(problem, asked), over=over)
    stability = Stability(posed, searched(problem, asked).request, best.plan)
    crossing = stability.crossing(SLOWER, more=False)
    assert crossing is not None
    assert crossing.factor is not None
    assert 0.65 < crossing.factor < 0.75
    assert crossing.plan_s is not None
    assert crossing.plan_cost is None
    assert crossing.other is not None
    assert crossing.other.closed_form_s <= problem.training.tokens / rate


@pytest.mark.slow
def test_several_pipelines_are_priced_together() -> None:
    """A plan of two pipelines, though another is the best, is beaten at once."""
    asked = Asked(None, False, 2, False, "closed", 1)
    problem = drawn(SEED)
    search = searched(problem, asked)
    assert isinstance(search.root, Divisions)
    nodes = [search.root.child(n) for n in range(1, len(search.root.ways))]
    for node in nodes:
        Loop(node, Deadline(), lambda: None).run()
    plan = min(nodes, key=lambda node: node.value).best[0].priced.plan
    assert len(plan.pipelines) == 2
    slower = Move(kind="speed", clusters=(plan.pipelines[0].stages[0].cluster,))
    stability = Stability(posed_of(problem, asked), search.request, plan)
    crossing = stability.crossing(slower, more=False)
    assert crossing is not None
    assert crossing.factor is not None
    moved = slower.in_problem(problem, crossing.factor)
    assert crossing.plan_s == price_several(moved, plan).closed_form_s


def test_a_launchers_limits_go_to_workers() -> None:
    assert (
        pickle.loads(pickle.dumps(launchable("megatron", PROBLEM))).name == "megatron"
    )
