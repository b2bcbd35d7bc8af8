"""Every claim of a result, true and false; data that is no result."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.check import check_result
from hetopt.plans.strategy import Strategy
from hetopt.pricing.price import price
from hetopt.problem.training.pins import Domain, Pins
from hetopt.results.priced_plan import PricedPlan
from hetopt.results.result import Result
from hetopt.results.settlement import Settlement
from tests.oracle import brute_force, plain

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem

WIDE = Strategy(dp=2, cp=1, tp=2)
NARROW = Strategy(dp=2, cp=1, tp=1)


def sample() -> tuple[Problem, CostTable, dict[str, Any]]:
    """Return an optimal result with two alternatives, as plain data."""
    problem = plain.problem()
    table = plain.table(problem, (WIDE, NARROW))
    answer = brute_force.solve(problem, table)
    return problem, table, result_of(problem, table, answer).to_json()


def result_of(problem: Problem, table: CostTable, answer: brute_force.Answer) -> Result:
    priced = []
    for found in answer.shapes[:3]:
        plan = brute_force.to_plan(problem, table, found)
        price_ = price(plan, table)
        priced.append(
            PricedPlan(
                plan=plan,
                closed_form_s=price_.closed_form_s,
                iteration_time_s=price_.iteration_time_s,
            )
        )
    programs = answer.programs
    settlements = tuple(
        Settlement(
            stages=p,
            microbatches=q,
            how="solved" if (p, q) in programs else "infeasible",
            bound_s=float(programs[p, q].closed_form_ns) * 1e-9
            if (p, q) in programs
            else None,
        )
        for p in problem.stage_counts
        for q in problem.microbatch_counts
    )
    best = priced[0]
    devices = {"a": 8, "b": 4}
    used = sum(stage.strategy.devices for stage in best.plan.pipeline.stages)
    return Result(
        status="optimal",
        solver="brute-force",
        best=best,
        alternatives=tuple(priced[1:]),
        lower_bound_s=best.closed_form_s,
        gap=0.0,
        search_time_s=0.1,
        settlements=settlements,
        tokens_per_s=table.tokens / best.iteration_time_s,
        mfu=1e6 / (best.iteration_time_s * sum(devices.values()) * 1e12),
        mfu_used=1e6 / (best.iteration_time_s * used * 1e12),
        table_kinds=dict(zip(table.cluster_names, table.sources, strict=True)),
    )


def test_a_true_result_has_no_findings() -> None:
    problem, table, data = sample()
    assert len(data["alternatives"]) == 2
    assert check_result(problem, table, data) == []
    assert check_result(problem, table, json.loads(json.dumps(data))) == []


@pytest.mark.parametrize("factor", [1 + 1e-6, 1 - 1e-6])
@pytest.mark.parametrize(
    "key",
    [
        "closed_form_s",
        "iteration_time_s",
        "lower_bound_s",
        "tokens_per_s",
        "mfu",
        "mfu_used",
    ],
)
def test_a_number_that_is_wrong_by_a_millionth(key: str, factor: float) -> None:
    problem, table, data = sample()
    data[key] *= factor
    found = check_result(problem, table, data)
    assert found
    assert any(line.startswith(key) for line in found)


def settle(data: dict[str, Any], how: str, bound_s: float | None) -> dict[str, Any]:
    """Settle the first solved program otherwise, and count it so."""
    data = json.loads(json.dumps(data))
    entry = next(e for e in data["settlements"] if e["how"] == "solved")
    entry.update(how=how, bound_s=bound_s)
    hows = [e["how"] for e in data["settlements"]]
    data["settled"] = {name: hows.count(name) for name in dict.fromkeys(hows)}
    return data


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"gap": 0.5}, "gap: 0.5, expected 0.0"),
        ({"gap": None}, "gap: None"),
        ({"lower_bound_s": None}, "optimal, but there is no lower bound"),
        ({"lower_bound_s": 0.0, "gap": 1.0}, "optimal, but the gap is 1.0"),
        ({"status": "infeasible"}, "status: infeasible, but there is a plan"),
        ({"settled": {"solved": 1}}, "settled:"),
        ({"settlements": [], "settled": {}}, "(1, 1) is missing"),
        ({"table_kinds": {"a": "measured"}}, "table_kinds:"),
        ({"plan": None}, "status: optimal, but there is no plan"),
        ({"reason": "too large"}, "reason: there is one, but there is a plan"),
    ],
)
def test_a_false_claim(change: dict[str, Any], expected: str) -> None:
    problem, table, data = sample()
    data.update(change)
    found = check_result(problem, table, data)
    assert any(expected in line for line in found), found


def test_settlements_that_do_not_prove_the_bound() -> None:
    problem, table, data = sample()
    found = check_result(problem, table, settle(data, "unsettled", 1e-9))
    assert any("the settlements prove only" in line for line in found), found
    found = check_result(problem, table, settle(data, "unsettled", None))
    assert any("some (p, q) has no bound" in line for line in found), found
    found = check_result(problem, table, settle(data, "infeasible", 1.0))
    assert any("is infeasible, but has a bound" in line for line in found), found
    found = check_result(problem, table, settle(data, "refuted-by-bound", None))
    assert any("but has no bound" in line for line in found), found
    data["settlements"].append(data["settlements"][0])
    found = check_result(problem, table, data)
    assert any("more than once" in line for line in found), found


def test_alternatives_that_do_not_hold() -> None:
    problem, table, data = sample()
    other = json.loads(json.dumps(data))
    other["alternatives"][0]["closed_form_s"] *= 2
    found = check_result(problem, table, other)
    assert [line.split(":")[0] for line in found] == ["alternatives.0.closed_form_s"]
    other = json.loads(json.dumps(data))
    other["alternatives"][1] = {
        "plan": other["plan"],
        "closed_form_s": other["closed_form_s"],
        "iteration_time_s": other["iteration_time_s"],
    }
    found = check_result(problem, table, other)
    assert any("differs from another plan in its units only" in line for line in found)
    other = json.loads(json.dumps(data))
    other["alternatives"][0]["plan"]["pipelines"][0]["stages"][-1]["end_unit"] = 7
    found = check_result(problem, table, other)
    assert any("alternatives.0: units: the last stage" in line for line in found)


def test_a_broken_plan_shows_in_a_result() -> None:
    problem, table, data = sample()
    data["plan"]["pipelines"][0]["stages"][-1]["warmup"] = 7
    found = check_result(problem, table, data)
    assert any("warmup 7" in line for line in found), found


def test_an_infeasible_result() -> None:
    problem = plain.problem(
        pins=Pins(stages=Domain(allowed=frozenset({6})), order=("b",))
    )
    table = plain.table(problem, (WIDE, NARROW))
    answer = brute_force.solve(problem, table)
    assert answer.best is None
    data = Result(
        status="infeasible",
        solver="brute-force",
        best=None,
        lower_bound_s=None,
        gap=None,
        search_time_s=0.1,
        settlements=tuple(
            Settlement(stages=6, microbatches=q, how="infeasible", bound_s=None)
            for q in (1, 2, 4, 8)
        ),
        tokens_per_s=None,
        mfu=None,
        mfu_used=None,
        table_kinds={"a": "measured", "b": "measured"},
        reason="cluster b has room for two stages",
    ).to_json()
    assert check_result(problem, table, data) == []
    del data["settlements"][1:]
    data["settled"] = {"infeasible": 1}
    found = check_result(problem, table, data)
    assert found == [f"settlements: (6, {q}) is missing" for q in (2, 4, 8)]
