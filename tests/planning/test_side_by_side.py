"""Runs in processes of their own: what they say, and what happens when they fail."""

from __future__ import annotations

import pytest

from hetopt.base.deadline import Deadline
from hetopt.base.load import Load
from hetopt.errors import SolverError
from hetopt.planning import side_by_side
from hetopt.planning.side_by_side import Entry, _Recorder, run_apart, warm_up
from hetopt.problem.reading import read_problem_text
from hetopt.problem.training.choices import INTERLEAVED
from hetopt.problem.training.principles import Principles
from hetopt.results.priced_plan import PricedPlan
from hetopt.results.result import Result
from hetopt.solvers import kernels
from hetopt.solvers.progress import Progress
from tests.report.comparisons import PLAN

TINY = read_problem_text(kernels.TINY % "virtual-1f1b")


def test_refusals_are_answers() -> None:
    wide = Principles.relaxing(["p4"])
    run = run_apart(
        TINY, Entry(solver="mcts", principles=wide, asked=wide, time_limit_s=5)
    )
    assert run.status is None
    assert run.plan is None
    assert "mcts cannot relax p4" in str(run.failure)
    assert run.process_time_s > 0


def test_a_run_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "GRACE_S", -0.9)
    run = run_apart(TINY, Entry(solver="cp-sat", time_limit_s=1, jobs=1))
    assert "did not end" in str(run.failure)
    assert run.process_time_s < 5


def _progress(value_s: float | None) -> Progress:
    return Progress(
        elapsed_s=0, incumbent_s=value_s, bound_s=None, gap=None, settled=0, programs=1
    )


def _result(value_s: float) -> Result:
    return Result(
        status="feasible",
        solver="x",
        best=PricedPlan(plan=PLAN, closed_form_s=value_s, iteration_time_s=value_s),
        lower_bound_s=None,
        gap=None,
        search_time_s=1,
        settlements=(),
        tokens_per_s=1,
        mfu=0.1,
        mfu_used=0.1,
        table_kinds={},
    )


def test_only_better_plans_are_noted() -> None:
    recorder = _Recorder(Deadline())
    for value in (None, 12.0, 12.0, 13.0, 11.0):
        recorder.take(_progress(value))
    # The same plan, priced exactly.
    recorder.end(_result(11.0 + 1e-9))
    assert [each.closed_form_s for each in recorder.trace] == [12.0, 11.0 + 1e-9]
    times = [each.elapsed_s for each in recorder.trace]
    assert 0 <= times[0] <= times[1] <= recorder.search_time_s


def test_a_better_plan_at_the_end_is_noted_then() -> None:
    recorder = _Recorder(Deadline())
    recorder.take(_progress(12.0))
    recorder.end(_result(10.0))
    assert [each.closed_form_s for each in recorder.trace] == [12.0, 10.0]
    assert recorder.trace[-1].elapsed_s >= recorder.search_time_s


def test_a_plan_worse_than_told_is_an_error() -> None:
    recorder = _Recorder(Deadline())
    recorder.take(_progress(10.0))
    with pytest.raises(SolverError, match="returned"):
        recorder.end(_result(11.0))


def test_a_search_is_stopped_when_its_plan_is_good_enough() -> None:
    recorder = _Recorder(Deadline(), enough_s=10.0)
    recorder.take(_progress(12.0))
    with pytest.raises(KeyboardInterrupt):
        recorder.take(_progress(9.5))
    assert [each.closed_form_s for each in recorder.trace] == [12.0, 9.5]


def test_tree_search_is_stopped_like_that() -> None:
    entry = Entry(solver="mcts", seed=0, time_limit_s=600, jobs=1, enough_s=1e6)
    run = run_apart(TINY, entry)
    assert run.status == "feasible"
    assert run.search_time_s is not None
    # The limit has room for compiling, which counts.
    assert run.search_time_s < 500
    assert run.plan is not None


def test_a_first_run_may_have_chunks() -> None:
    entry = Entry(solver="dp", time_limit_s=None)
    assert warm_up(entry, INTERLEAVED) > 0


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("share", [None, 0.25])
def test_a_run_knows_what_other_programs_took(
    share: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int | None] = []

    def taken(load: Load, jobs: int | None) -> float | None:
        asked.append(jobs)
        return share

    monkeypatch.setattr(Load, "taken_share", taken)
    run = run_apart(TINY, Entry(solver="dp", time_limit_s=60, jobs=1))
    assert asked == [1]
    assert run.taken_share == share
