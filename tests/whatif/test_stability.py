"""How far coefficients may move: held against plans of the moved problems."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from hetopt.cost.build import build_table
from hetopt.planning.plan import search
from hetopt.pricing.price import price
from hetopt.problem.reading import read_problem_text
from hetopt.results.crossing import MARGIN, Crossing
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from hetopt.whatif.moves import Move, moves_of
from hetopt.whatif.stability import FACTORS, Stability

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
    stability = Stability(request(), best.plan, solver="dp", objective="closed")
    told: list[str] = []
    found = stability.crossings(told.append)
    assert not stability.interrupted
    assert len(told) == len(found)
    return tuple(found)


def move_of(crossing: Crossing) -> Move:
    return Move(kind=crossing.kind, clusters=crossing.clusters)


def best_s(move: Move, factor: float) -> float:
    """Return the least time of the moved problem."""
    problem, table = move.applied(PROBLEM, request().table, factor)
    moved = replace(request(), problem=problem, table=table)
    best = search(moved, solver="dp", objective="closed").best
    assert best is not None
    return best.closed_form_s


def plan_s(move: Move, factor: float) -> float:
    """Return what the plan takes in the moved problem."""
    best = search(request(), solver="dp", objective="closed").best
    assert best is not None
    _, table = move.applied(PROBLEM, request().table, factor)
    return price(best.plan, table).closed_form_s


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
    problem, table = move.applied(PROBLEM, request().table, 1.0)
    assert problem.clusters == PROBLEM.clusters
    for one, other in zip(table.slices, request().table.slices, strict=True):
        assert one.transfer_ns.tolist() == other.transfer_ns.tolist()
        for mine, theirs in zip(one.clusters, other.clusters, strict=True):
            assert mine.forward_ns.tolist() == theirs.forward_ns.tolist()
