"""What reports read off a tree of claims."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from hetopt.results.claims import bound_of
from hetopt.results.front import Front
from hetopt.results.several import Several
from hetopt.results.spending import Spending, Spent
from tests.results.test_result import priced, result

FLEETS = {"fleets": {"measure": "time", "budget": 5.0, "min_tokens_per_s": None}}
DIVISIONS = {"divisions": {"most": 2}}


def at(schedule: str) -> dict[str, Any]:
    return {"schedule": schedule, "chunks": 1, "warmup_epsilon": None}


def over(*names: str) -> dict[str, Any]:
    return {"schedules": [at(name) for name in names]}


def one_of(by: str, of: int, *children: dict[str, Any]) -> dict[str, Any]:
    return {"by": by, "of": of, "children": [*children]}


def statuses(found: Any) -> dict[str, tuple[str, float | None]]:
    return {x.schedule: (x.status, x.lower_bound_s) for x in found.schedules}


def test_without_branchings_there_is_nothing_to_tell() -> None:
    found = result()
    told = found.launcher, found.spent, found.several, found.schedules
    assert told == (None, None, None, ())


def test_fleets_are_counted() -> None:
    claims = one_of("fleets", 7, {"at": {"fast": 2}, "bound_s": 1.0})
    found = result(over=(FLEETS, {"launcher": "nemo"}), claims=claims)
    assert found.spent == Spent(spending=Spending(budget=5.0), searched=1, choices=7)
    assert found.launcher == "nemo"
    none = Spent(spending=Spending(budget=5.0), searched=0, choices=0)
    assert result(over=(FLEETS,)).spent == none
    front = Front(
        status="optimal",
        objective="closed",
        solver="dp",
        points=(),
        search_time_s=1.0,
        open=0,
        over=(FLEETS, over("1f1b", "zb-v")),
        claims=claims,
    )
    assert front.spent == found.spent
    assert [each.schedule for each in front.schedules] == ["1f1b", "zb-v"]


def test_a_pipeline_of_several_divisions_is_counted_once() -> None:
    halves = [{"a": [1]}, {"a": [1]}]
    parts = [{"pipeline": 0, "batch": n, "bound_s": 1.0} for n in (3, 4)]
    claims = one_of(
        "divisions",
        9,
        {"at": [{"a": [2]}], "bound_s": 2.0},
        {"at": halves, "parts": parts},
        {"at": [{"b": [1]}, {"a": [1]}], "parts": [{**parts[0], "pipeline": 1}]},
    )
    known = Several(most=2, divisions=9, searched=3)
    assert result(over=(DIVISIONS,), claims=claims).several == known
    # Fleets are other problems.
    deep = one_of("fleets", 2, *({"at": {"a": n}, **claims} for n in (1, 2)))
    found = result(over=(FLEETS, DIVISIONS), claims=deep)
    assert found.several == replace(known, searched=6)


def test_children_that_are_not_listed_have_the_bound_of_the_whole() -> None:
    some = one_of("divisions", 2, {"at": [], "bound_s": 3.0})
    assert bound_of(some, 2.0) == 2.0
    assert bound_of({**some, "of": 1}, 2.0) == 3.0
    assert bound_of(one_of("divisions", 0), 2.0) == 2.0
    assert bound_of({"at": [], "bound_s": None}, 2.0) == math.inf


def test_pipelines_of_another_batch_bound_nothing() -> None:
    """The longest of all batches that were tried is not the best batch."""
    parts = [{"pipeline": 0, "batch": n, "bound_s": float(n)} for n in (4, 7)]
    assert bound_of({"at": [], "parts": parts}, 3.5) == 3.5


def test_each_schedule_has_a_status() -> None:
    """The reported plan takes 1 s under 1f1b."""
    claims = one_of(
        "schedules",
        6,
        {"at": at("1f1b"), "bound_s": 1.0, "best_s": 1.0},
        {"at": at("gpipe"), "bound_s": 1.2, "best_s": 1.2},
        {"at": at("eager-1f1b"), "bound_s": 1.1, "best_s": 1.2},
        {"at": at("zb-v"), "bound_s": None},
        {"at": at("v-min"), "passed_over": "blocks"},
        {"at": at("zb-h1"), "bound_s": 0.9, "best_s": 1.3},
    )
    names = ("1f1b", "gpipe", "eager-1f1b", "zb-v", "v-min", "zb-h1", "v-half")
    found = result(
        status="feasible",
        gap=0.2,
        lower_bound_s=0.8,
        over=(over(*names),),
        claims=claims,
    )
    assert statuses(found) == {
        "1f1b": ("optimal", 1.0),
        "gpipe": ("optimal", 1.2),
        "eager-1f1b": ("refuted", 1.1),
        "zb-v": ("infeasible", None),
        "v-min": ("passed-over", None),
        "zb-h1": ("feasible", 0.9),
        "v-half": ("unknown", 0.8),
    }
    reasons = {each.schedule: each.reason for each in found.schedules if each.reason}
    assert reasons == {"v-min": "blocks", "v-half": "not searched"}
    # If the plan is proven, what was not searched is refuted.
    proven = result(over=(over("1f1b", "v-half"),), claims=claims)
    assert statuses(proven)["v-half"] == ("refuted", 1.0)


@pytest.mark.parametrize(("status", "other"), [("feasible", 0.7), ("optimal", 1.0)])
def test_a_schedule_is_bounded_over_all_fleets(status: str, other: float) -> None:
    claims = one_of(
        "fleets",
        9,
        {
            "at": {"a": 1},
            **one_of("schedules", 2, {"at": at("zb-v"), "bound_s": 5.0, "best_s": 5.0}),
        },
    )
    found = result(
        status=status,
        lower_bound_s=other,
        over=(FLEETS, over("1f1b", "zb-v")),
        claims=claims,
    )
    own = "optimal" if status == "optimal" else "unknown"
    rest = "refuted" if status == "optimal" else "feasible"
    assert statuses(found) == {"1f1b": (own, other), "zb-v": (rest, other)}


def test_schedules_are_not_compared_by_time_if_cost_decides() -> None:
    quick = one_of("schedules", 2, {"at": at("zb-v"), "bound_s": 0.1, "best_s": 0.1})
    found = result(
        objective="cost",
        lower_bound_s=None,
        over=(FLEETS, over("1f1b", "zb-v")),
        claims=one_of("fleets", 3, {"at": {"a": 9}, **quick}),
    )
    assert statuses(found) == {"1f1b": ("optimal", None), "zb-v": ("refuted", None)}
    assert all(each.objective_s is None for each in found.schedules)


def test_without_any_plan_every_schedule_is_infeasible() -> None:
    found = result(
        status="infeasible",
        best=None,
        lower_bound_s=None,
        gap=None,
        over=(over("1f1b", "zb-v"),),
        claims=one_of("schedules", 2, {"at": at("1f1b"), "bound_s": None}),
    )
    assert {each.status for each in found.schedules} == {"infeasible"}
    assert priced(1.0).plan.schedule == "1f1b"
