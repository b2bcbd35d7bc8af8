"""Rows of what-if, made by hand: table, JSON, CSV and bars."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from hetopt.problem.problem import Problem
from hetopt.problem.reading import read_problem_text
from hetopt.report.drawing import plots
from hetopt.report.drawing.console import draw
from hetopt.report.whatif.plot import whatif_figure
from hetopt.report.whatif.table import Whatif, rows, whatif_csv, whatif_report
from hetopt.results.priced_plan import PricedPlan
from hetopt.results.result import Result
from hetopt.whatif.solving import Answer
from hetopt.whatif.variants import Variant
from tests.cli.conftest import SMALL
from tests.report.comparisons import PLAN
from tests.schemas import ensure_fits

PROBLEM = read_problem_text(SMALL)


def result(time_s: float, *, microbatches: int = 4, gap: float = 0.0) -> Result:
    (pipeline,) = PLAN.pipelines
    plan = replace(PLAN, pipelines=(replace(pipeline, microbatches=microbatches),))
    best = PricedPlan(plan=plan, closed_form_s=time_s, iteration_time_s=1.5 * time_s)
    return Result(
        status="optimal" if gap == 0 else "feasible",
        solver="dp",
        best=best,
        lower_bound_s=time_s * (1 - gap),
        gap=gap,
        search_time_s=1.0,
        settlements=(),
        tokens_per_s=1e6 / time_s,
        mfu=0.5,
        mfu_used=0.5,
        table_kinds={"a": "modelled"},
    )


def no_plan() -> Result:
    return replace(
        result(1.0),
        status="infeasible",
        best=None,
        lower_bound_s=None,
        gap=None,
        tokens_per_s=None,
        reason="it does not fit",
    )


def variant(change: str, problem: Problem | None = PROBLEM) -> Variant:
    return Variant(change=change, problem=problem)


FOUND = rows(
    [
        variant("as it is"),
        variant("better"),
        variant("open"),
        variant("too small"),
        variant("no problem", None),
        variant("not reached"),
    ],
    [
        Answer(result=result(2.0)),
        Answer(result=result(1.5, microbatches=8)),
        Answer(result=result(2.5, gap=0.2)),
        Answer(result=no_plan()),
        Answer(result=None, failure="pins"),
        Answer(result=None, failure="not searched: interrupted"),
    ],
)


def test_rows() -> None:
    assert [row.status for row in FOUND] == [
        *("optimal", "optimal", "feasible"),
        *("infeasible", "infeasible", "failed"),
    ]
    assert [row.against_base for row in FOUND] == [0.0, -0.25, 0.25, None, None, None]
    assert FOUND[1].tokens_per_day == pytest.approx(1e6 / 1.5 * 86400)
    (change,) = FOUND[1].plan_changes
    assert (change.what, change.before, change.after) == ("micro-batches", "4", "8")
    assert FOUND[2].plan_changes == ()
    assert [row.reason for row in FOUND[3:]] == [
        *("it does not fit", "pins", "not searched: interrupted")
    ]


def test_what_is_minimised_is_compared() -> None:
    answers = [
        Answer(result=replace(result(time_s), objective="simulated"))
        for time_s in (2.0, 3.0)
    ]
    first, second = rows([variant("as it is"), variant("x")], answers)
    assert first.time_s == first.iteration_time_s
    assert second.against_base == pytest.approx(0.5)


def test_without_a_base_plan_nothing_is_against_it() -> None:
    answers = [Answer(result=no_plan()), Answer(result=result(2.0))]
    _, second = rows([variant("as it is"), variant("x")], answers)
    assert (second.against_base, second.plan_changes) == (None, ())


def test_table() -> None:
    printed = draw(whatif_report(FOUND, "closed", result(2.0)), None)
    lines = printed.splitlines()
    assert "closed form s" in printed
    (better,) = [line for line in lines if line.startswith("better")]
    for words in ("1.50", "-25.0%", "667,000", "57.6", "micro-batches 4 -> 8"):
        assert words in better
    (unproven,) = [line for line in lines if line.startswith("open")]
    assert "20.00%" in unproven
    assert "the same" in unproven
    (base,) = [line for line in lines if line.startswith("as it is")]
    assert "the same" not in base
    for words in ("no plan: it does not fit", "no plan: pins", "no plan: not searched"):
        assert words in printed


def test_json_and_csv() -> None:
    data = Whatif(problem="p", objective="closed", rows=tuple(FOUND)).to_json()
    ensure_fits(data, "whatif")
    assert [row["change"] for row in data["rows"]] == [row.change for row in FOUND]
    lines = whatif_csv(FOUND).splitlines()
    assert len(lines) == len(FOUND) + 1
    assert lines[2].startswith("better,optimal,1.5,2.25,-0.25,1.5,0.0,")
    assert lines[4].endswith(",it does not fit")


def test_bars_say_what_is_proven() -> None:
    drawn = plots.svg(whatif_figure(FOUND, "closed", "p"))
    assert drawn == plots.svg(whatif_figure(FOUND, "closed", "p"))
    texts = "|".join(ElementTree.fromstring(drawn).itertext())
    for words in ("1.5 (-25.0%)", "2.5 (+25.0%, not proven)", "no plan", "too small"):
        assert words in texts
    assert "cost of a trillion tokens" not in texts
