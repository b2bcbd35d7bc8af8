"""UniAP's program against brute force over P and S, and against known optima."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hetopt.base.deadline import Deadline
from hetopt.cost.per_unit.layer_graph import Edge, GraphLayer, LayerGraph
from hetopt.formulations.uniap.choice import (
    UniapChoice,
    UniapProgram,
    lower_bound_ns,
    price,
)
from hetopt.formulations.uniap.program import UniapLinear
from hetopt.solvers.mip.highs import HighsRun
from hetopt.solvers.uniap.engine import UniapEngine
from hetopt.solvers.uniap.search import (
    UniapParams,
    UniapResult,
    UniapSettlement,
    solve_programs,
)
from hetopt.solvers.uniap.start import start
from hetopt.solvers.uniap.stopping import NO_STOPPING, PUBLISHED_STOPPING, EarlyStopping
from tests.solvers.graphs import SHAPES, brute_force, generated

if TYPE_CHECKING:
    from collections.abc import Sequence

REFERENCE = Path(__file__).parents[4] / "shared" / "reference" / "uniap.json"
#: The reference's numbers have two decimals.
SCALE = 100
#: HiGHS needs half a minute for the last one.
QUICK_CASES = 3

PLAIN = UniapParams(starts=False)


def solve_one(program: UniapProgram, params: UniapParams = PLAIN) -> UniapResult:
    return solve_programs([program], params)


def chain(count: int, **changes: Any) -> UniapProgram:
    layers = tuple(
        GraphLayer(
            name=f"layer {u}",
            strategies=("dp", "fsdp"),
            cost_ns=(100, 130),
            memory_bytes=(60, 40),
        )
        for u in range(count)
    )
    edges = tuple(
        Edge(
            first=u,
            second=u + 1,
            within_ns=((0, 5), (5, 0)),
            across_ns=((20, 25), (25, 20)),
        )
        for u in range(count - 1)
    )
    graph = LayerGraph(layers=layers, edges=edges, memory_bytes=200)
    program = UniapProgram(stages=2, microbatches=4, graph=graph)
    return replace(program, **changes)


def fits(result: UniapResult) -> bool:
    assert result.program is not None
    assert result.choice is not None
    cost = price(result.program, result.choice)
    assert cost.total_ns == result.value_ns
    return max(cost.memory_bytes) <= result.program.graph.memory_bytes


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("starts", [False, True], ids=["plain", "started"])
def test_agrees_with_brute_force(shape: str, starts: bool) -> None:
    random = Random(f"uniap {shape}")
    feasible = 0
    for _ in range(24):
        program = generated(random, shape)
        expected = brute_force(program)
        result = solve_one(program, UniapParams(starts=starts))
        assert result.value_ns == expected
        if expected is None:
            assert result.status == "infeasible"
            continue
        feasible += 1
        assert result.status == "optimal"
        assert result.lower_bound_ns == expected
        bound = lower_bound_ns(program)
        assert bound is not None
        assert bound <= expected
        assert fits(result)
    assert feasible > 0


def test_one_stage_is_the_quadratic_program_of_intra_layer_parallelism() -> None:
    random = Random("intra-layer")
    for shape in SHAPES:
        program = replace(generated(random, shape), stages=1, microbatches=1)
        assert solve_one(program).value_ns == brute_force(program)


def test_enumeration_finds_the_best_program() -> None:
    random = Random("enumeration")
    for shape in SHAPES:
        programs = [generated(random, shape) for _ in range(4)]
        values = [brute_force(program) for program in programs]
        found = [value for value in values if value is not None]
        result = solve_programs(programs, PLAIN)
        assert result.value_ns == min(found, default=None)
        assert len(result.settlements) == len(programs)
        for settlement, value in zip(result.settlements, values, strict=True):
            assert settlement.how != "unsettled"
            if value is None:
                assert settlement.value_ns is None
            else:
                assert settlement.bound_ns is not None
                assert settlement.bound_ns <= value


def test_the_answer_does_not_depend_on_the_order_of_programs() -> None:
    random = Random("order")
    programs = [generated(random, "chain") for _ in range(6)]
    forward = solve_programs(programs)
    backward = solve_programs(programs[::-1])
    assert forward.value_ns == backward.value_ns
    assert forward.lower_bound_ns == backward.lower_bound_ns


def reference_cases() -> Sequence[dict[str, Any]]:
    if not REFERENCE.exists():
        return []
    cases: list[dict[str, Any]] = json.loads(REFERENCE.read_text("utf-8"))["cases"]
    return cases


def reference_program(case: dict[str, Any]) -> UniapProgram:
    def whole(row: Sequence[float]) -> tuple[int, ...]:
        return tuple(round(SCALE * value) for value in row)

    layers = tuple(
        GraphLayer(
            name=f"layer {u}",
            strategies=tuple(f"s{k}" for k in range(case["K"])),
            cost_ns=whole(case["A"][u]),
            memory_bytes=whole(case["M"][u]),
        )
        for u in range(case["V"])
    )
    edges = tuple(
        Edge(
            first=u,
            second=u + 1,
            within_ns=tuple(map(whole, case["R"])),
            across_ns=tuple(map(whole, case["Rp"])),
        )
        for u in range(case["V"] - 1)
    )
    return UniapProgram(
        stages=case["deg"],
        microbatches=case["c"],
        graph=LayerGraph(
            layers=layers, edges=edges, memory_bytes=round(SCALE * case["mem"])
        ),
    )


@pytest.mark.skipif(not REFERENCE.exists(), reason="no reference folder")
@pytest.mark.parametrize("case", reference_cases()[:QUICK_CASES])
def test_reference_optima(case: dict[str, Any]) -> None:
    result = solve_one(reference_program(case), UniapParams())
    assert result.status == "optimal"
    assert result.value_ns == round(SCALE * case["optimum"])


@pytest.mark.slow
@pytest.mark.skipif(not REFERENCE.exists(), reason="no reference folder")
@pytest.mark.parametrize("case", reference_cases()[QUICK_CASES:])
def test_large_reference_optima_are_within_the_bounds(case: dict[str, Any]) -> None:
    result = solve_programs([reference_program(case)], deadline=Deadline.after(3))
    assert result.value_ns is not None
    assert result.lower_bound_ns is not None
    assert fits(result)
    assert result.lower_bound_ns <= round(SCALE * case["optimum"]) <= result.value_ns


@pytest.mark.skipif(not REFERENCE.exists(), reason="no reference folder")
def test_published_order_lets_a_chain_run_backwards() -> None:
    form = UniapLinear(reference_program(reference_cases()[0]), published_order=True)
    run = HighsRun(form.linear)
    assert run.solve() == "optimal"
    assert run.objective * form.time_unit_ns == pytest.approx(27195)
    assert run.values is not None
    stage = form.extract(np.array(run.values)).stage
    assert any(first > second for first, second in pairwise(stage))


def test_an_edge_that_skips_a_stage_is_charged_on_both_boundaries() -> None:
    graph = chain(3).graph
    skip = Edge(first=0, second=2, within_ns=((0, 0),) * 2, across_ns=((7, 7), (7, 7)))
    graph = replace(graph, edges=(*graph.edges, skip))
    program = UniapProgram(stages=3, microbatches=1, graph=graph)
    cost = price(program, UniapChoice(stage=(0, 1, 2), strategy=(0, 0, 0)))
    assert cost.boundaries_ns == (27, 27)
    assert solve_one(program).value_ns == 3 * 100 + 2 * 27


def test_memory_makes_some_layers_take_another_strategy() -> None:
    # BERT-Huge's shape in small: every stage mixes DP with FSDP.
    result = solve_one(chain(8))
    assert result.choice is not None
    assert result.choice.stage == (0,) * 4 + (1,) * 4
    for stage in (slice(0, 4), slice(4, 8)):
        assert sorted(result.choice.strategy[stage]) == [0, 0, 1, 1]


def test_memory_holds_to_the_byte() -> None:
    # One byte of 16 GB is far below any solver's tolerance.
    size = 2**33
    layers = tuple(
        GraphLayer(
            name="layer",
            strategies=("large", "small"),
            cost_ns=(100, 101),
            memory_bytes=(size + 1, size - 1),
        )
        for _ in range(2)
    )
    for spare, expected in ((0, 201), (-1, 202), (1, 201), (2, 200)):
        graph = LayerGraph(layers=layers, edges=(), memory_bytes=2 * size + spare)
        program = UniapProgram(stages=1, microbatches=1, graph=graph)
        assert solve_one(program).value_ns == expected


def test_more_stages_than_layers_is_infeasible() -> None:
    result = solve_programs([chain(2, stages=3)])
    assert result.status == "infeasible"
    assert result.lower_bound_ns is None
    assert result.settlements[0].how == "infeasible"


def test_cutoff_refutes_what_is_worse() -> None:
    best = solve_one(chain(6)).value_ns
    assert best is not None
    assert solve_programs([chain(6)], cutoff_ns=best).value_ns == best
    refuted = solve_programs([chain(6)], cutoff_ns=best - 1)
    assert refuted.status == "infeasible"
    assert refuted.settlements[0].how.startswith("refuted")


def test_no_time_leaves_programs_unsettled_with_their_bounds() -> None:
    program = chain(6)
    result = solve_programs([program], PLAIN, deadline=Deadline.after(0.0))
    assert result.status == "unknown"
    assert result.settlements[0].how == "unsettled"
    assert result.lower_bound_ns == lower_bound_ns(program)


def test_published_stopping() -> None:
    leaves = PUBLISHED_STOPPING.leaves
    assert PUBLISHED_STOPPING.time_limit_s == 60
    assert not leaves(14.0, 97.0, 100.0, 1000.0)
    assert leaves(15.1, 97.0, 100.0, 1000.0)
    assert not leaves(15.1, 95.0, 100.0, 1000.0)
    assert not leaves(4.9, 95.0, 100.0, 90.0)
    assert leaves(5.1, 95.0, 100.0, 90.0)
    assert not leaves(5.1, 85.0, 100.0, 90.0)
    assert not leaves(50.0, 1.0, float("inf"), float("inf"))
    assert not NO_STOPPING.leaves(1e9, 100.0, 100.0, 1.0)


def test_start_fits_and_is_never_better_than_the_optimum() -> None:
    random = Random("starts")
    for shape in SHAPES:
        program = generated(random, shape)
        choice, best = start(program), brute_force(program)
        if choice is not None:
            assert best is not None
            cost = price(program, choice)
            assert max(cost.memory_bytes) <= program.graph.memory_bytes
            assert cost.total_ns >= best


def test_start_divides_uneven_layers_evenly() -> None:
    graph = chain(12).graph
    layers = tuple(
        replace(layer, cost_ns=(900, 1200) if u < 2 else (100, 130))
        for u, layer in enumerate(graph.layers)
    )
    graph = replace(graph, layers=layers, memory_bytes=10**6)
    choice = start(UniapProgram(stages=3, microbatches=8, graph=graph))
    assert choice is not None
    assert choice.stage == (0, 1, *(2,) * 10)


def test_engine_starts_from_a_choice() -> None:
    program = chain(6)
    engine = UniapEngine(UniapLinear(program), stopping=NO_STOPPING, seed=1)
    answer = engine.settle(deadline=Deadline(), best_ns=None, start=start(program))
    assert answer.verdict == "optimal"
    assert answer.value_ns == solve_one(program).value_ns


def test_names_are_readable_and_unique() -> None:
    linear = UniapLinear(chain(3)).linear
    assert "y(0_layer_0,0,dp)" in linear.names
    assert len(set(linear.names)) == len(linear.names)
    assert len(set(linear.row_names)) == len(linear.row_names)


def test_ctrl_c_returns_what_is_known() -> None:
    def give_up(settlement: UniapSettlement) -> None:
        raise KeyboardInterrupt

    programs = [chain(6, microbatches=c) for c in (4, 8)]
    result = solve_programs(programs, UniapParams(on_settled=give_up))
    assert result.value_ns is not None
    assert result.lower_bound_ns is not None
    assert result.lower_bound_ns <= result.value_ns
    assert len(result.settlements) == len(programs)


def test_early_stopping_leaves_a_program_with_its_bound() -> None:
    random = Random("early")
    graph = LayerGraph(
        layers=tuple(
            replace(layer, cost_ns=(random.randint(90, 110), random.randint(110, 140)))
            for layer in chain(30).graph.layers
        ),
        edges=chain(30).graph.edges,
        memory_bytes=500,
    )
    program = UniapProgram(stages=3, microbatches=8, graph=graph)
    early = EarlyStopping(gap=1.0)
    result = solve_programs(
        [program], UniapParams(stopping=early), deadline=Deadline.after(10)
    )
    (settlement,) = result.settlements
    assert settlement.how == "unsettled"
    assert settlement.value_ns == result.value_ns
    assert settlement.bound_ns is not None
    assert settlement.gap is not None
    assert 0 <= settlement.gap < 1


def test_programs_survive_pickling() -> None:
    # Spawned workers get the frozen program and build its form themselves.
    program = chain(3)
    assert pickle.loads(pickle.dumps(program)) == program
