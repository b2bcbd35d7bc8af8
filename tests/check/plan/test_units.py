"""Plans with a strategy per unit: every claim that is tampered with is noticed."""

from __future__ import annotations

import copy
from dataclasses import replace
from math import isclose
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.check import check_plan, check_result
from hetopt.check.plan.reading import read_plan
from hetopt.cost.build import build_table
from hetopt.cost.table_file.file import table_digest
from hetopt.errors import CheckError
from hetopt.formulations.uniap.choice import UniapChoice
from hetopt.formulations.uniap.choice import price as uniap_price
from hetopt.formulations.uniap.programs import uniap_programs
from hetopt.plans.plan import Plan
from hetopt.pricing.price import price
from hetopt.problem.model.block import Block
from hetopt.problem.model.model import Model
from hetopt.solvers.uniap.outcome import plan_of
from tests.solvers.units import problem, solved, table

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.cost.table.table import CostTable


def document() -> dict[str, Any]:
    return copy.deepcopy(solved().to_json())


def findings(plan: Plan, costs: CostTable | None = None) -> list[str]:
    try:
        check_plan(problem(), costs or table(), plan)
    except CheckError as error:
        return error.findings
    return []


def stage(data: dict[str, Any], index: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = data["plan"]["pipelines"][0]["stages"][index]
    return found


def double(key: str) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        data[key] *= 2

    return change


def other_unit(data: dict[str, Any]) -> None:
    units = stage(data)["unit_strategies"]
    replicated = next(unit for unit in units if unit["dp"] > 1 and unit["zero"] == 0)
    replicated["zero"] = 3


def another_mesh(data: dict[str, Any]) -> None:
    units = stage(data)["unit_strategies"]
    units[-1] = {"dp": 4, "cp": 1, "tp": 1, "recompute": "none", "zero": 3}


def half_the_devices(data: dict[str, Any]) -> None:
    units = stage(data)["unit_strategies"]
    units[-1] = {"dp": 1, "cp": 1, "tp": 2, "recompute": "none", "zero": 0}


def unit_left_out(data: dict[str, Any]) -> None:
    stage(data)["unit_strategies"].pop()


def stage_without(data: dict[str, Any]) -> None:
    del stage(data)["unit_strategies"]


def not_of_the_most(data: dict[str, Any]) -> None:
    units = stage(data, 1)["unit_strategies"]
    rarest = min(units, key=units.count)
    stage(data, 1).update(rarest)


def unit_moved(data: dict[str, Any]) -> None:
    first, second = stage(data), stage(data, 1)
    first["end_unit"] -= 1
    second["first_unit"] -= 1
    second["unit_strategies"].insert(0, first["unit_strategies"].pop())


def bound_above_value(data: dict[str, Any]) -> None:
    data["lower_bound_s"] = data["objective_s"] * 1.01
    for settlement in data["settlements"]:
        if settlement["bound_s"] is not None:
            settlement["bound_s"] = data["objective_s"] * 1.01


def program_left_out(data: dict[str, Any]) -> None:
    gone = data["settlements"].pop(0)
    data["settled"][gone["how"]] -= 1
    if not data["settled"][gone["how"]]:
        del data["settled"][gone["how"]]


def another_objective(data: dict[str, Any]) -> None:
    data["objective"] = "closed"


def another_resharding(data: dict[str, Any]) -> None:
    stage(data)["resharding"] = "leader"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (double("objective_s"), "objective_s:"),
        (double("closed_form_s"), "closed_form_s:"),
        (double("iteration_time_s"), "iteration_time_s:"),
        (double("mfu"), "mfu:"),
        (other_unit, ""),
        (another_mesh, ""),
        (half_the_devices, "takes 2 devices, the stage 4"),
        (unit_left_out, "strategies for"),
        (stage_without, "no strategies per unit, other stages have some"),
        (not_of_the_most, "is not the strategy of the most units"),
        (unit_moved, ""),
        (bound_above_value, "more than the plan's"),
        (program_left_out, "is missing"),
        (another_objective, "objective: closed, but the plan has strategies per unit"),
        (another_resharding, "resharding leader, expected p2p"),
    ],
)
def test_tampering_is_noticed(
    change: Callable[[dict[str, Any]], None], expected: str
) -> None:
    data = document()
    assert check_result(problem(), table(), data) == []
    change(data)
    found = check_result(problem(), table(), data)
    assert any(expected in line for line in found), found


def test_a_plan_of_stages_does_not_claim_uniap_s_objective() -> None:
    data = document()
    for place in range(len(data["plan"]["pipelines"][0]["stages"])):
        del stage(data, place)["unit_strategies"]
    assert check_result(problem(), table(), data)


def test_memory_of_every_stage_to_the_byte() -> None:
    best = solved().best
    assert best is not None
    needs = price(best.plan, table()).memory_bytes
    for spare, fits in ((0, True), (-1, False)):
        costs = replace(table(), usable_bytes=(max(needs) + spare,))
        plan = replace(best.plan, table_digest=table_digest(costs))
        found = findings(plan, costs)
        assert (found == []) == fits
        assert fits or any("are usable on" in line for line in found)


def test_a_table_without_costs_per_unit() -> None:
    best = solved().best
    assert best is not None
    costs = replace(table(), per_unit=None)
    plan = replace(best.plan, table_digest=table_digest(costs))
    assert findings(plan, costs) == [
        "table: no costs per unit, but units have strategies of their own"
    ]


def encoder_decoder() -> Model:
    sizes: dict[str, Any] = {"layers": 3, "hidden": 64, "heads": 8, "kv_heads": 8}
    sizes["head_dim"] = 8
    encoder = Block(name="encoder", ffn=256, attention="bidirectional", **sizes)
    decoder = Block(name="decoder", ffn=256, context="encoder", **sizes)
    return Model(
        name="t",
        vocab=100,
        ffn=256,
        tied=True,
        attention="bidirectional",
        blocks=(encoder, decoder),
        **sizes,
    )


@pytest.mark.parametrize("shape", ["chain", "encoder-decoder"])
def test_check_price_and_program_agree_on_random_choices(shape: str) -> None:
    random = Random(f"units {shape}")
    cluster = replace(problem().clusters[0], memory_bytes=12 * 10**9)
    of = replace(problem(), clusters=(cluster,))
    if shape == "encoder-decoder":
        of = replace(of, model=encoder_decoder())
    costs = build_table(of)
    for program in uniap_programs(of, costs):
        layers = program.graph.layers
        for _ in range(5):
            ends = sorted(random.sample(range(1, len(layers)), program.stages - 1))
            choice = UniapChoice(
                stage=tuple(sum(end <= u for end in ends) for u in range(len(layers))),
                strategy=tuple(
                    random.randrange(len(layer.strategies)) for layer in layers
                ),
            )
            plan = plan_of(program, choice, costs)
            assert read_plan(plan.to_json(), "") == plan
            checked, priced = check_plan(of, costs, plan), price(plan, costs)
            value_s = uniap_price(program, choice).total_ns * 1e-9
            assert priced.uniap_s is not None
            assert isclose(priced.uniap_s, value_s, rel_tol=1e-12)
            for name in ("uniap_s", "closed_form_s", "iteration_time_s"):
                first, second = getattr(checked, name), getattr(priced, name)
                assert isclose(first, second, rel_tol=1e-12)
            assert checked.memory_bytes == priced.memory_bytes
            # What the program sets aside is never less than what a stage needs.
            assert max(priced.memory_bytes) <= costs.usable_bytes[0]
