"""The lines and rows of a report, from results made by hand."""

from __future__ import annotations

import io
import time
from dataclasses import replace

import pytest

from hetopt.plans.plan import Pipeline, Plan, Stage
from hetopt.plans.strategy import Strategy
from hetopt.pricing.price import Price
from hetopt.problem.model.model import Model
from hetopt.report.drawing.bar import ShownProgress
from hetopt.report.drawing.console import PIPE_WIDTH, draw
from hetopt.report.head import answer
from hetopt.report.plan_report import Told, plan_report
from hetopt.report.progress import CompilingBar, ProgressBar, StepBar, state
from hetopt.report.rows import (
    boundary_rows,
    chain,
    contents,
    short_contents,
    stage_rows,
    strategies,
)
from hetopt.report.summary import gap_text, headline, offloads, summary
from hetopt.results.priced_plan import PricedPlan
from hetopt.results.result import Result
from hetopt.results.settlement import Settlement
from hetopt.schedule.times import PipelineTimes
from hetopt.solvers.progress import Progress
from tests.cost.making import make_cluster, make_problem

MODEL = Model(
    name="m", layers=4, hidden=8, heads=2, kv_heads=2, head_dim=4, ffn=16, vocab=32
)
PROBLEM = make_problem((make_cluster("h20"), make_cluster("a100")), model=MODEL)
PLAN = Plan(
    schedule="virtual-1f1b",
    problem_digest="0" * 64,
    table_digest="1" * 64,
    pipelines=(
        Pipeline(
            microbatches=4,
            stages=(
                Stage(
                    cluster="h20",
                    first_unit=0,
                    end_unit=4,
                    strategy=Strategy(dp=1, cp=2, tp=4, recompute="full"),
                    warmup=3,
                    resharding="leader",
                ),
                Stage(
                    cluster="a100",
                    first_unit=4,
                    end_unit=6,
                    strategy=Strategy(dp=2, cp=1, tp=1),
                    warmup=1,
                ),
            ),
        ),
    ),
)
PRICED = PricedPlan(plan=PLAN, closed_form_s=2.0, iteration_time_s=1.9)
PRICE = Price(
    times=PipelineTimes(
        schedule="virtual-1f1b",
        microbatches=4,
        forward_ns=(1_500_000, 2_000_000),
        backward_ns=(3_000_000, 4_000_000),
        transfer_ns=(500_000,),
        occupancy_ns=(250_000,),
        sync_ns=(0, 0),
        warmups=(3, 1),
    ),
    closed_form_s=2.0,
    iteration_time_s=1.9,
    idle_share=(0.25, 0.125),
    memory_bytes=(10_000_000_000, 20_000_000_000),
    usable_bytes=(75_200_000_000, 75_200_000_000),
    activation_bytes=(1_000_000_000, 2_000_000_000),
    recompute_ns=(1_000_000, 0),
)


def result(**changes: object) -> Result:
    fields: dict[str, object] = {
        "status": "optimal",
        "solver": "cp-sat",
        "best": PRICED,
        "lower_bound_s": 2.0,
        "gap": 0.0,
        "search_time_s": 1.25,
        "settlements": (
            Settlement(stages=2, microbatches=4, how="solved", bound_s=2.0),
            Settlement(stages=1, microbatches=4, how="refuted-by-bound", bound_s=3.0),
            Settlement(stages=1, microbatches=2, how="infeasible", bound_s=None),
        ),
        "tokens_per_s": 12345.6,
        "mfu": 0.4,
        "mfu_used": 0.5,
        "table_kinds": {"h20": "modelled", "a100": "measured"},
        **changes,
    }
    return Result(**fields)  # type: ignore[arg-type]


def test_stage_rows_hold_numbers() -> None:
    first, last = stage_rows(MODEL, PLAN, PRICE)
    assert first == (
        *(0, "h20", 0, 4, "embedding + 3 layers", "emb+3"),
        *("cp2 tp4 full", 8),
        *(10_000_000_000, 75_200_000_000, 1.5, 3.0, 3, 0.25),
    )
    assert last.contents == "layer + head"


def test_boundary_rows_hold_numbers() -> None:
    (row,) = boundary_rows(PLAN, PRICE)
    assert row[:5] == (0, ("h20", "a100"), "leader", 0.5, 0.25)
    assert row[5:] == (None, None, None)
    # One leader sends, on the 10 Gbps of one connection.
    (row,) = boundary_rows(PLAN, PRICE, PROBLEM)
    assert row[5:] == (1, 1.0, 1.25e9)


def test_clusters_with_the_same_strategy_are_grouped() -> None:
    assert chain(PLAN) == "h20 1 stage cp2 tp4 full recompute -> a100 1 stage dp2"


def test_contents_keep_pipeline_order() -> None:
    assert contents(("head",)) == "head"
    assert contents(("mlp-down", "attention", "mlp-up", "mlp-down")) == (
        "2 mlp-down + attention + mlp-up"
    )
    kinds = ("embedding", "layer", "layer-experts", "layer", "head")
    assert contents(kinds) == "embedding + 2 layers + layer-experts + head"
    assert short_contents(kinds) == "emb+3+head"


def test_strategies_of_units_that_are_alike_are_counted() -> None:
    wide = Strategy(dp=2, cp=1, tp=2, zero=0)
    sharded = replace(wide, zero=3, recompute="full")
    assert strategies(()) == ""
    assert strategies((wide, wide, sharded, wide)) == (
        "dp2-tp2 x2, fsdp2-tp2-full, dp2-tp2"
    )


def test_summary_says_what_uniap_minimises() -> None:
    best = replace(PRICED, objective_s=1.5)
    found = result(objective="uniap", best=best)
    lines = dict(summary(found, best))
    assert answer(found, best).startswith("1.50 s per iteration as UniAP counts, ")
    assert lines["iteration time"].startswith("1.5000 s as UniAP counts (what is min")


def test_summary_says_all_that_matters() -> None:
    lines = dict(summary(result(), PRICED))
    assert "2 stages x 4 micro-batches" in lines["plan"]
    assert "2.0000 s in closed form" in lines["iteration time"]
    assert "1.9000 s simulated (-5.0%)" in lines["iteration time"]
    assert lines["throughput"] == (
        "12,346 tokens/s, MFU 40.0% of all devices offered, 50.0% of those used"
    )
    assert lines["lower bound"] == "2.0000 s, gap 0.00%"
    assert lines["stages x micro-batches"] == (
        "3: 1 solved, 1 refuted by bound, 1 infeasible"
    )
    assert lines["search time"] == "1.2 s"
    assert lines["latencies"].startswith("h20 modelled, a100 measured (modelled")


def test_clusters_that_are_not_used_are_named() -> None:
    assert "not used" not in " ".join(map(str, plan_report(result(), PRICED)))
    kinds = {"h20": "modelled", "v100": "modelled", "a100": "measured", "b": "measured"}
    found = result(table_kinds=kinds)
    assert "v100, b are not used." in plan_report(found, PRICED)
    told = Told(unused={"b": "b is not used: why."}, explain="hetopt explain p.yaml")
    parts = plan_report(found, PRICED, told=told)
    assert "b is not used: why." in parts
    more = "`hetopt explain p.yaml` says what using more would cost"
    assert f"v100 is not used; {more}." in parts


def test_measured_latencies_need_no_warning() -> None:
    lines = dict(summary(result(table_kinds={"a": "measured"}), PRICED))
    assert lines["latencies"] == "a measured"


@pytest.mark.parametrize(
    ("gap", "text"),
    [(None, "unknown"), (1.7e-11, "0.00%"), (3e-5, "3.0e-05"), (0.0123, "1.23%")],
)
def test_only_gaps_of_proven_plans_are_rounded_away(
    gap: float | None, text: str
) -> None:
    assert gap_text(gap) == text


def test_headlines_without_a_plan() -> None:
    none: dict[str, object] = {"best": None, "gap": None, "lower_bound_s": None}
    infeasible = result(status="infeasible", reason="one layer needs 90 GB", **none)
    assert headline(infeasible) == "no feasible plan: one layer needs 90 GB"
    unknown = result(status="unknown", **none)
    assert headline(unknown) == "stopped without a plan"
    bounded = result(status="unknown", **{**none, "lower_bound_s": 12.3456})
    assert headline(bounded) == "stopped without a plan; none takes less than 12.3 s"
    feasible = result(status="feasible", gap=0.05)
    assert headline(feasible) == "at most 5.0% from the best possible"


def test_output_into_a_pipe_is_plain_and_unbroken() -> None:
    text = draw(
        plan_report(result(), PRICED, problem=PROBLEM, prices=(PRICE,)), io.StringIO()
    )
    assert "\x1b" not in text
    rows = [line for line in text.split("\n") if "a100" in line and "75.2" in line]
    assert len(rows) == 1
    for cell in ("1+head", "dp2", "20.0/75.2", "2.00/4.00", "12%"):
        assert cell in rows[0]
    assert all(len(line) <= PIPE_WIDTH for line in text.split("\n"))
    assert not any(line.endswith(" ") for line in text.split("\n"))


def test_alternatives_are_ranked_after_the_reported_plan() -> None:
    other = PricedPlan(plan=PLAN, closed_form_s=2.5, iteration_time_s=1.8)
    text = draw(
        plan_report(
            result(alternatives=(other,)), PRICED, problem=PROBLEM, prices=(PRICE,)
        ),
        io.StringIO(),
    )
    ranked = [
        line.split()[:6]
        for line in text.split("\n")
        if "h20 1 stage" in line and "%" in line
    ]
    assert ranked == [
        ["1", "+0.0%", "2", "4", "10", "h20"],
        ["2", "+25.0%", "2", "4", "10", "h20"],
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_only_on_a_terminal_that_wants_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    parts = plan_report(result(), PRICED, problem=PROBLEM, prices=(PRICE,))
    assert "\x1b" in draw(parts, Terminal())
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in draw(parts, Terminal())


PROGRESS = Progress(
    elapsed_s=1.0, incumbent_s=2.5, bound_s=2.0, gap=0.2, settled=3, programs=9
)


def test_progress_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for stream, shown in [(Terminal(), True), (io.StringIO(), False)]:
        with ProgressBar(stream) as bar:
            bar.update(PROGRESS)
        assert ("best 2.5000 s, bound 2.0000 s, gap 20.00%" in stream.getvalue()) is (
            shown
        )
        assert bool(stream.getvalue()) is shown
    with ProgressBar(None) as bar:
        bar.update(PROGRESS)


def test_a_file_gets_a_line_of_progress_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ShownProgress, "EVERY_S", 0.02)
    stream = io.StringIO()
    with ProgressBar(stream) as searching:
        time.sleep(0.1)
        searching.update(PROGRESS)
        time.sleep(0.2)
    said = stream.getvalue().splitlines()
    assert said[0] == "searching, 0 s: reading the table"
    assert said[-1] == (
        "searching, 0 s: 3 of 9 programs settled, best 2.5000 s, bound 2.0000 s, "
        "gap 20.00%"
    )
    # Nothing after the end.
    time.sleep(0.1)
    assert stream.getvalue().splitlines() == said
    with CompilingBar(stream) as compiling:
        compiling.update(3, 40)
        time.sleep(0.2)
    assert stream.getvalue().endswith("\ncompiling, 0 s: 3 of 40 functions\n")


def test_a_closed_file_does_not_stop_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShownProgress, "EVERY_S", 0.01)
    stream = io.StringIO()
    with StepBar(stream, "comparing"):
        stream.close()
        time.sleep(0.05)


def test_steps_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    stream = Terminal()
    with StepBar(stream, "comparing") as bar:
        bar.update("run 1 of 2: p, dp")
    assert "run 1 of 2: p, dp" in stream.getvalue()


def test_progress_before_anything_is_known() -> None:
    nothing = Progress(
        elapsed_s=0.0, incumbent_s=None, bound_s=None, gap=None, settled=0, programs=9
    )
    assert state(nothing) == "no plan yet"


def test_a_report_says_which_clusters_offload_and_what_is_assumed() -> None:
    own = make_cluster("h20", offload="optimizer", host_memory_bytes_per_s=40e9)
    assert offloads(PROBLEM.clusters) == ()
    (said,) = offloads((own, PROBLEM.clusters[1]))
    assert said.startswith("h20 offloads the optimizer: its states are in the hosts'")
    assert "gradients go there (31.5 GB/s per device), hosts update (40 GB/s)" in said
    for problem, told in ((replace(PROBLEM, clusters=(own,)), 1), (PROBLEM, 0)):
        parts = plan_report(result(), PRICED, problem=problem, verbose=True)
        assert sum(part == said for part in parts) == told
