"""The MIQP as written: optima, constraints one by one, cuts, names."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pyomo.environ as pyo
import pytest

from hetopt.formulations.chain import Chain
from hetopt.formulations.miqp.program import QuadraticProgram
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.pricing.price import pipeline_times
from hetopt.problem.training.pins import ClusterPins, Pins
from hetopt.solvers.decisions.assembly import plan_of, value_of
from hetopt.solvers.decisions.exact import exact_value
from tests.formulations.mip import best, minimum, optimum, solved
from tests.formulations.programs import (
    LAYER,
    ONE,
    TWO,
    data_of,
    exactly,
    hosting,
    table,
    with_cluster,
    with_slices,
)
from tests.oracle import brute_force
from tests.oracle.instances import Instance, make_instance

if TYPE_CHECKING:
    from hetopt.formulations.program import ProgramData
    from tests.oracle.brute_force import Answer

#: Every schedule five times; kinds and cuts alike and unlike.
SEEDS = range(300, 325)
#: Micro-batch counts and stages of a generated instance that are tried.
PROGRAMS_PER_SEED = 4
ENOUGH = 10**12


@cache
def answered(seed: int) -> tuple[Instance, Answer]:
    instance = make_instance(seed)
    return instance, brute_force.solve(instance.problem, instance.table)


def programs(seed: int) -> list[tuple[int, int, ProgramData]]:
    """Some (p, q) of an instance, spread over all that it has."""
    instance, _ = answered(seed)
    most = Chain.of(instance.table).length
    keys = [
        (p, part.microbatches)
        for part in instance.table.slices
        for p in instance.problem.stage_counts
        if p <= most
    ]
    step = max(1, len(keys) // PROGRAMS_PER_SEED)
    pins = instance.problem.pins
    return [
        (p, q, data_of(instance.table, p, q, pins, cutoff=ENOUGH * PERIOD_SCALE))
        for p, q in keys[seed % step :: step]
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_same_optimum_as_brute_force(seed: int) -> None:
    instance, answer = answered(seed)
    for p, q, data in programs(seed):
        found = solved(data)
        expected = answer.programs.get((p, q))
        assert (found is None) == (expected is None), (p, q)
        if found is None or expected is None:
            continue
        limit = PERIOD_SCALE * expected.closed_form_ns
        assert limit <= found.value <= limit * (1 + 1e-8) + q, (p, q)
        times = pipeline_times(
            plan_of(found.decision, instance.table, ""), instance.table
        )
        assert found.value == value_of(times)


@pytest.mark.parametrize("seed", [*range(302, 320, 5), *range(301, 320, 5)])
def test_the_rest_implies_the_cuts(seed: int) -> None:
    for p, q, data in programs(seed)[:2]:
        bare = QuadraticProgram(data)
        cuts = [
            component
            for component in bare.model.component_objects(pyo.Constraint)
            if component.local_name.startswith("cut_")
        ]
        assert cuts or bare.places.impossible
        for cut in cuts:
            cut.deactivate()
        without, found = optimum(bare), solved(data)
        assert (without is None) == (found is None), (p, q)
        if without is not None and found is not None:
            assert without.value == pytest.approx(found.value, rel=1e-8), (p, q)


def test_products_stay_products() -> None:
    model = QuadraticProgram(data_of(table(schedule="virtual-1f1b"), 2, 4)).model
    quadratic = {
        row.parent_component().local_name
        for row in model.component_data_objects(pyo.Constraint, active=True)
        if row.body.polynomial_degree() == 2
    }
    assert quadratic == {"def_S", "def_n", "def_edge", "eq_lag"}


@pytest.mark.parametrize(("rows", "works"), [([], True), (["eq_order"], False)])
def test_a_chain_runs_forward_only_in_order(rows: list[str], works: bool) -> None:
    """Eq. 6a-6c alone let later units lie on earlier stages."""
    program = QuadraticProgram(data_of(table(), 2, 1, hosting(1, 1)))
    m = program.model
    for name in [*rows, "cut_nested"]:
        m.component(name).deactivate()
    for u in range(6):
        m.P[u, 0].setub(1)
        m.P[u, 1].setub(1)
    m.backwards = pyo.Constraint(expr=m.P[5, 0] + m.P[0, 1] == 2)
    assert (minimum(m) is None) == works


@pytest.mark.parametrize("rows", [(), ("eq_6a",), ("eq_6b",), ("eq_6c",)])
def test_contiguity_needs_all_of_eq_6(rows: tuple[str, ...]) -> None:
    """Units 0 and 2 on stage 0 with unit 1 between them on stage 1."""
    program = QuadraticProgram(data_of(table(), 2, 1))
    m = program.model
    for name in [*rows, "eq_order", "cut_nested"]:
        m.component(name).deactivate()
    for key in m.P:
        m.P[key].setub(1)
    m.torn = pyo.Constraint(expr=m.P[0, 0] + m.P[1, 1] + m.P[2, 0] == 3)
    assert (minimum(m) is None) == (not rows)


def test_a_cluster_does_not_come_back() -> None:
    """P3: stages on a, b and a again are no plan."""
    for rows, works in (((), False), (("eq_P3",), True)):
        m = QuadraticProgram(data_of(table(), 3, 1)).model
        for name in rows:
            m.component(name).deactivate()
        # with P3 gone a cluster opens twice, so P4 is stated anew
        m.eq_P4.deactivate()
        m.one = pyo.Constraint([0, 1], rule=lambda m, j: m.Y[j, 0] == 1)
        m.back = pyo.Constraint(expr=m.X[0, 0] + m.X[1, 1] + m.X[2, 0] == 3)
        assert (minimum(m) is not None) == works


def test_one_strategy_per_cluster() -> None:
    """P4: stages of one cluster cannot differ."""
    m = QuadraticProgram(data_of(table(ONE, TWO), 2, 1)).model
    m.differ = pyo.Constraint(expr=m.S[0, 0, 0] + m.S[1, 0, 1] == 2)
    assert minimum(m) is None


def test_devices_limit_stages() -> None:
    """Eq. 4: cluster b has 4 devices, so two stages of 2 and not three."""
    costs = table(TWO)
    assert best(costs, 2, 1, hosting(0, 2)) is not None
    assert best(costs, 3, 1, hosting(0, 3)) is None


@pytest.mark.parametrize(
    ("schedule", "most"),
    [("1f1b", 2), ("eager-1f1b", 3), ("virtual-1f1b", 3), ("gpipe", 4)],
)
def test_memory_counts_what_is_in_flight(schedule: Any, most: int) -> None:
    """Two stages on two clusters: the first holds min(W, q) micro-batches."""
    costs = table(schedule=schedule)
    one = int(costs.at(4).clusters[0].activation_bytes[0, 1])
    assert one > 0
    for spare, works in ((0, True), (-1, False)):
        program = QuadraticProgram(data_of(costs, 2, 4, hosting(1, 1)))
        places = program.places
        table_ = places.sets.table(0)
        kinds = range(len(costs.kinds))
        lead = places.chain.lead
        unit = table_.state_bytes[0] + most * table_.activation_bytes[0]
        counts = [lead[f] + (3 if f in places.chain.kinds else 0) for f in kinds]
        need = int(table_.fixed_bytes[0]) + int(sum(counts * unit))
        need += max(int(table_.temporary_bytes[0][f]) for f in kinds if counts[f])
        data = data_of(costs, 2, 4, Pins(order=("a", "b"), units=(4, 4)))
        data = replace(data, usable_bytes=(need + spare, data.usable_bytes[1]))
        assert (solved(data) is not None) == works


def test_pins_are_kept() -> None:
    costs = table()
    found = best(costs, 3, 2, Pins(order=("b", "a"), units=(3, 2, 3)))
    assert found is not None
    assert found.decision.order == (1, 0)
    assert found.decision.units == (3, 2, 3)
    pins = Pins(
        forbidden_next=frozenset({("a", "b")}),
        clusters={"a": ClusterPins(units=exactly(3))},
    )
    found = best(costs, 2, 2, pins)
    assert found is not None
    assert found.decision.order == (1, 0)
    assert found.decision.units == (5, 3)
    assert best(costs, 2, 2, Pins(units=(8,))) is None
    assert best(costs, 2, 2, Pins(units=(1, 7))) is None


def test_excluded_shapes_and_decisions() -> None:
    costs = table()
    data = data_of(costs, 2, 2, hosting(1, 1, order=("a", "b")))
    first = solved(data)
    assert first is not None
    program = QuadraticProgram(data)
    program.exclude(first.decision)
    assert optimum(program) is None
    program = QuadraticProgram(data)
    program.exclude(first.decision, units=True)
    second = optimum(program)
    assert second is not None
    assert second.decision.shape == first.decision.shape
    assert second.decision.units != first.decision.units


def test_the_cutoff_keeps_its_equals() -> None:
    data = data_of(table(), 2, 4)
    found = solved(data)
    assert found is not None
    again = solved(replace(data, cutoff=found.value, objective_min=found.value))
    assert again is not None
    assert again.value == found.value
    assert solved(replace(data, cutoff=found.value - 1000)) is None


def test_no_choice_is_no_plan() -> None:
    costs = table()
    data = replace(data_of(costs, 2, 4), usable_bytes=(1, 1))
    assert QuadraticProgram(data).places.impossible
    assert solved(data) is None


def test_a_decision_that_does_not_fit_has_no_value() -> None:
    data = data_of(table(), 2, 4)
    found = solved(data)
    assert found is not None
    assert exact_value(found.decision, data) == found.value
    assert exact_value(found.decision, replace(data, usable_bytes=(1, 1))) is None


def test_slow_links_and_tied_embeddings_count() -> None:
    plain = best(table(), 2, 2, hosting(1, 1))
    slow = best(with_slices(table(), transfer_ns=LAYER), 2, 2, hosting(1, 1))
    tied = best(with_slices(table(), tied_ns=LAYER), 2, 2, hosting(1, 1))
    faster = best(with_cluster(table(), 0, forward_ns=1), 2, 2, hosting(1, 1))
    assert plain is not None
    assert slow is not None
    assert tied is not None
    assert faster is not None
    assert slow.value > plain.value
    assert tied.value == plain.value + LAYER * PERIOD_SCALE
    assert faster.value < plain.value
