"""Reports on searches that branched over nodes, schedules, pipelines, launchers."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

from hetopt.plans.plan import Share
from hetopt.report.drawing.console import draw
from hetopt.report.drawing.sheet import Sheet
from hetopt.report.front.table import front_report
from hetopt.report.front.table import headline as front_headline
from hetopt.report.plan_report import alternatives_table, plan_report, schedules_table
from hetopt.report.summary import headline, summary
from hetopt.results.front import Front, FrontPoint
from hetopt.results.money import known_cost
from tests.cost.making import make_cluster, make_problem
from tests.report.test_summary import MODEL, PLAN, PRICED, result

PROBLEM = make_problem(
    (
        make_cluster("h20", price_per_hour=10.0),
        make_cluster("a100", price_per_hour=3.0),
    ),
    model=MODEL,
)
NAMES = ("virtual-1f1b", "zb-v", "gpipe")
OVER: tuple[dict[str, Any], ...] = (
    {"fleets": {"measure": "time", "budget": 90, "min_tokens_per_s": None}},
    {
        "schedules": [
            {"schedule": name, "chunks": 1, "warmup_epsilon": None} for name in NAMES
        ]
    },
    {"divisions": {"most": 2}},
    {"launcher": "megatron"},
)


def claims(*, of: int = 3) -> dict[str, Any]:
    """Return claims about one fleet, whose last schedule the engine cannot search."""
    whole = {"at": [{"h20": [8]}], "bound_s": 2.0, "best_s": 2.0}
    parts = [{"pipeline": 0, "batch": 4, "bound_s": 1.0}]
    divided = {
        "by": "divisions",
        "of": 2,
        "children": [whole, {"at": [{"h20": [4]}, {"h20": [4]}], "parts": parts}],
    }
    schedules = [
        {"at": OVER[1]["schedules"][0], **divided, "best_s": 2.0},
        {"at": OVER[1]["schedules"][1], "passed_over": "megatron does not run it"},
    ]
    one = {"by": "schedules", "of": 2, "children": schedules, "best_s": 2.0}
    children = [{"at": {"h20": 1}, **one}]
    return {"by": "fleets", "of": of, "children": children, "best_s": 2.0}


def branched(**changes: object) -> Any:
    return result(**{"over": OVER, "claims": claims(), "settlements": (), **changes})


def cells(table: Sheet) -> list[dict[str, str]]:
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


def test_the_first_line_says_all_that_was_searched() -> None:
    assert headline(branched()) == (
        "proven optimal of the plans that megatron can run, of up to 2 pipelines, "
        "over 2 schedules, over all choices of nodes of at most 90 an hour"
    )


def test_each_branching_has_a_line() -> None:
    lines = dict(summary(branched(), PRICED))
    assert lines["choices of nodes"] == "3: 1 searched"
    assert lines["schedules"] == (
        "best of 2 schedules; passed over zb-v: megatron does not run it"
    )
    assert (
        lines["divisions"] == "up to 2 ways to divide the nodes: 2 pipelines searched"
    )
    assert lines["search time"] == "1.2 s"
    assert "stages x micro-batches" not in lines
    costs = branched(objective="cost", lower_bound_s=None, lower_cost=0.25)
    bound = dict(summary(costs, PRICED))["lower bound"]
    assert bound == "0.25 an iteration in closed form, gap 0.00%"


def test_schedules_are_compared_over_all_nodes_and_pipelines() -> None:
    own, other = cells(schedules_table(branched().schedules))
    assert own == {
        "schedule": "virtual-1f1b",
        "status": "optimal",
        "best plan": "+0.0%",
        "lower bound": "+0.0%",
    }
    assert (other["status"], other["best plan"]) == ("refuted", "-")
    costs = branched(objective="cost", lower_bound_s=None).schedules
    assert [[*row] for row in map(dict.values, cells(schedules_table(costs)))] == [
        ["virtual-1f1b", "optimal"],
        ["gpipe", "refuted"],
    ]


def test_a_schedule_that_is_left_to_device_time_is_named() -> None:
    told = "Not searched, and so left to the bound of their device time: gpipe."
    open_ = branched(status="feasible", lower_bound_s=1.5, gap=0.25)
    assert told in plan_report(open_, PRICED)
    # Where the plan is proven, device time was enough.
    assert told not in plan_report(branched(), PRICED)


def divided() -> Any:
    """Return a plan of two pipelines under another schedule."""
    one = PLAN.pipeline
    pipelines = (
        replace(one, share=Share(batch=5, nodes={"h20": (8,), "a100": (8,)})),
        replace(
            one,
            stages=(replace(one.stages[0], end_unit=6, resharding=None),),
            microbatches=2,
            share=Share(batch=3, nodes={"h20": (8,)}),
        ),
    )
    plan = replace(PLAN, schedule="gpipe", pipelines=pipelines)
    return replace(PRICED, plan=plan, closed_form_s=2.5)


def test_alternatives_show_what_differs() -> None:
    found = branched(alternatives=(divided(),))
    best, other = cells(alternatives_table(found, PROBLEM))
    assert best["price an hour"] == "13.00"
    assert other == {
        "rank": "2",
        "against best": "+25.0%",
        "price an hour": "23.00",
        "schedule": "gpipe",
        "stages": "2 + 1",
        "micro-batches": "4 + 2",
        "de\u00advices": "18",
        "clusters": "h20 1 stage cp2 tp4 full recompute -> a100 1 stage dp2 | "
        "h20 1 stage cp2 tp4 full recompute",
    }
    # Schedules that do not differ, and prices that do not decide, are left out.
    alike = result(alternatives=(PRICED,))
    assert [*cells(alternatives_table(alike, PROBLEM))[0]] == [
        *("rank", "against best", "stages", "micro-batches"),
        *("de\u00advices", "clusters"),
    ]
    assert "gpipe" in draw(plan_report(found, PRICED, problem=PROBLEM), io.StringIO())


def test_alternatives_of_least_cost_are_compared_by_cost() -> None:
    found = branched(alternatives=(divided(),), objective="cost", lower_bound_s=None)
    other = cells(alternatives_table(found, PROBLEM))[1]
    # 23 an hour for 2.5 s, against 13 for 2 s.
    assert other["against best"] == "+121.2%"


def test_a_front_says_schedules_and_pipelines() -> None:
    points = tuple(
        FrontPoint(
            best=each,
            cost=known_cost(PROBLEM, each.plan, each.iteration_time_s),
            tokens_per_s=1e4,
        )
        for each in (PRICED, divided())
    )
    front = Front(
        status="optimal",
        objective="closed",
        solver="dp",
        points=points,
        search_time_s=1.0,
        open=0,
        over=OVER[:3],
        claims=claims(),
    )
    assert front_headline(front) == (
        "2 plans of up to 2 pipelines, over 2 schedules, none beaten in closed form "
        "and price, and none is missing"
    )
    parts = front_report(front, "next", verbose=True)
    (table,) = (each for each in parts if isinstance(each, Sheet))
    assert [each["schedule"] for each in cells(table)] == ["virtual-1f1b", "gpipe"]
    assert cells(table)[1]["stages"] == "2 + 1"
    assert "up to 2 ways to divide the nodes" in draw(parts, io.StringIO())
    alone = replace(front, over=OVER[:1])
    assert front_headline(alone).startswith("2 plans, none beaten in ")
