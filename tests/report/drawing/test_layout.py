"""Reports fit the width of a terminal, and break no number."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hetopt.cli.commands import catalog
from hetopt.export.back.explaining import explain
from hetopt.export.back.importing import import_plan
from hetopt.plans.strategy import Strategy
from hetopt.report import forest
from hetopt.report.comparison.text import comparison_parts
from hetopt.report.drawing.console import draw
from hetopt.report.drawing.layout import heading, layout
from hetopt.report.drawing.sheet import Column, Lines, Sheet, sheet
from hetopt.report.explanation import explanation_report
from hetopt.report.plan_report import plan_report
from hetopt.report.showing import notebook
from hetopt.report.simulation import simulation_report
from hetopt.schedule.run import simulate
from tests.export.back.test_explaining import changed, two_clusters
from tests.report.comparisons import MIXED, made_comparison
from tests.report.test_summary import PLAN, PRICE, PRICED, PROBLEM, result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.report.drawing.sheet import Part

WIDTHS = (60, 80, 100, 120)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def large() -> list[Part]:
    """Return the report on a plan with long numbers, as of hundreds of devices."""
    times = replace(
        PRICE.times,
        forward_ns=(79_460_000, 1_079_460_000),
        backward_ns=(164_970_000, 12_164_970_000),
    )
    price = replace(PRICE, times=times, memory_bytes=(132_500_000_000, 9_100_000_000))
    stages = tuple(
        replace(stage, strategy=Strategy(dp=128, cp=16, tp=16, recompute="selective"))
        for stage in PLAN.pipeline.stages
    )
    plan = replace(PLAN, pipelines=(replace(PLAN.pipeline, stages=stages),))
    best = replace(PRICED, plan=plan, closed_form_s=1234.56789)
    found = result(best=best, alternatives=(best, best))
    return plan_report(found, best, problem=PROBLEM, prices=(price,), verbose=True)


def explanation() -> list[Part]:
    job, read_back = two_clusters()
    old = read_back.stages[0].strategy
    wide = replace(old, dp=8)
    mine = import_plan(read_back, job.problem)
    ours = import_plan(
        changed(read_back, ("hall0", 6, wide), ("hall1", 3, old), ("hall1", 3, old)),
        job.problem,
    )
    told = explain(mine, ours.plan, ours.table, ours.problem)
    return explanation_report(job.problem.model, told)


def scores() -> list[Part]:
    row = ("unseen hidden", "nearest neighbour", "12345", "123.4%", "45.6%", "789.0%")
    return [
        sheet(
            forest.SCORE_COLUMNS, [(*row, "0.987")] * 2, left=forest.SCORE_COLUMNS[:2]
        )
    ]


REPORTS: dict[str, list[Part]] = {
    "plan": large(),
    "simulate": simulation_report(PLAN, PRICE, simulate(PRICE.times)),
    "compare": comparison_parts(made_comparison(MIXED)),
    "explain": explanation(),
    "forest": scores(),
    "catalog": [catalog._accelerators(), catalog._models(), catalog._profiles()],
}


def drawn(parts: Sequence[Part], width: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(width))
    return draw(parts, Terminal(), coloured=False)


def numbers(part: Part) -> set[str]:
    """Return the words with digits in what every width shows."""
    match part:
        case Sheet():
            kept = [
                cell
                for row in part.rows
                for column, cell in zip(part.columns, row, strict=True)
                if not column.optional
            ]
        case Lines():
            kept = [text for _, text in part.pairs]
        case _:
            kept = [part]
    return {word for text in kept for word in text.split() if re.search(r"\d", word)}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", REPORTS)
def test_no_number_is_broken(
    name: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = REPORTS[name]
    text = drawn(parts, width, monkeypatch)
    assert max(map(len, text.split("\n"))) <= width
    wanted = set[str]().union(*map(numbers, parts))
    assert wanted
    assert wanted <= set(text.split())


def test_a_narrow_table_has_fewer_columns_then_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What stages hold goes first; then every cell follows the name of its column."""
    tables = [part for part in REPORTS["plan"] if isinstance(part, Sheet)][:1]
    lines = {
        width: drawn(tables, width, monkeypatch).split("\n") for width in (140, 100, 60)
    }
    assert "embedding + 3 layers" in lines[140][2]
    assert "embedding" not in "".join(lines[100])
    assert "79.46/164.97" in lines[140][2]
    assert lines[60][0].startswith("stage 0  cluster h20  units 0-3  holds embedding")
    assert "fwd/bwd ms 79.46/164.97" in "".join(lines[60])
    assert [line[:7] for line in lines[60] if line[:1] != " "][:2] == [
        "stage 0",
        "stage 1",
    ]


def test_a_plan_fits_80_columns_without_breaking_a_heading() -> None:
    best = replace(PRICED, plan=PLAN)
    parts = plan_report(result(best=best), best, problem=PROBLEM, prices=(PRICE,))
    (table,) = [part for part in parts if isinstance(part, Sheet)]
    text = draw([table], io.StringIO())
    assert max(map(len, text.split("\n"))) <= 80
    assert [column.name for column in table.columns if column.optional] == ["layers"]


def test_a_heading_breaks_at_spaces_and_hyphens_only() -> None:
    assert heading("de\u00advices", 7) == ["devices"]
    assert heading("de\u00advices", 6) == ["de-", "vices"]
    assert heading("first forward s", 9) == ["first", "forward s"]
    assert heading("warm-ups", 5) == ["warm-", "ups"]
    assert heading("a-b c", 80) == ["a-b c"]
    assert heading("unbroken", 3) == ["unbroken"]


CELLS = st.lists(
    st.tuples(
        st.integers(0, 10**9).map(str),
        st.text("ab ", max_size=60).map(str.strip),
        st.floats(0, 10**6).map(lambda value: f"{value:.3f} of {value:.1f}"),
        st.integers(0, 99).map(str),
        st.text("ab ", max_size=20).map(str.strip),
    ),
    min_size=1,
    max_size=4,
)


# The first draw loads hypothesis' tables.
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(rows=CELLS, width=st.integers(40, 140), optional=st.booleans())
def test_any_table_fits(
    rows: list[tuple[str, ...]], width: int, *, optional: bool
) -> None:
    table = Sheet(
        columns=(
            Column(name="key"),
            Column(name="a longer text", text=True),
            Column(name="memory GB"),
            Column(name="warm-ups", optional=optional),
            Column(name="other", text=True),
        ),
        rows=tuple(rows),
    )
    with pytest.MonkeyPatch.context() as patch:
        text = drawn([table], width, patch)
    assert max(map(len, text.split("\n"))) <= width
    assert numbers(table) <= set(text.split())
    placed = layout(table, width)
    if placed is None:
        names = [column.name for column in table.columns]
        assert all(text.count(f"{name} ") >= len(rows) for name in names[:3:2])
    else:
        assert len(set(placed.columns)) == len(placed.columns) >= 4


def test_html_is_escaped_and_has_every_column() -> None:
    odd = replace(
        PLAN.pipeline.stages[0], cluster="<script>alert('&')</script>", warmup=3
    )
    plan = replace(PLAN, pipelines=(replace(PLAN.pipeline, stages=(odd,)),))
    text = notebook(plan)
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert ">devices</th>" in text
    assert text.count("<tr>") == text.count("</tr>")
