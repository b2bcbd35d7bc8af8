"""Published iterations: what ships can be priced, and how fits are judged."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.published_rows import APART, published_rows
from benchmarks.published_runs import Run, fitted, judged
from hetopt.problem.catalogue import software

ROWS = {row.figure.name: row for row in published_rows()}


def test_every_row_has_a_stack_that_ships_and_says_its_runs() -> None:
    assert len(ROWS) > 130
    assert {*APART} <= {*ROWS}
    for row in ROWS.values():
        if row.figure.name in APART:
            continue
        problem = row.figure.problem
        reached = software()[row.stack].on(
            problem.clusters[0].accelerator.known_as,
            problem.training.precision,
            experts=row.experts,
        )
        assert reached is not None
        assert row.figure.source in reached.source


def test_what_ships_is_near_the_runs_that_it_was_fitted_to() -> None:
    """In-sample, so no claim of accuracy: that files and rows belong together."""
    for name in ("megatron-bridge-054", "mindspeed-021", "torchtitan-002"):
        run = Run(ROWS[name])
        problem = run.row.figure.problem
        reached = software()[run.row.stack].on(
            problem.clusters[0].accelerator.known_as,
            problem.training.precision,
            experts=run.row.experts,
        )
        assert reached is not None
        assert abs(run.seconds(reached) / run.published_s - 1) < 0.12


def test_a_fit_finds_factors_and_no_run_judges_itself() -> None:
    runs = [Run(row) for name, row in ROWS.items() if name.startswith("internevo-01")]
    factors = fitted(runs)
    slower = {**factors, "multiplication 16": 1.5}
    times = [run.seconds(run.reached(slower)) for run in runs]
    slow = [
        Run(replace(run.row, figure=replace(run.row.figure, published_s=time)))
        for run, time in zip(runs, times, strict=True)
    ]
    assert fitted(slow)["multiplication 16"] > 1.3
    wrong = replace(runs[0].row.figure, published_s=2 * runs[0].published_s)
    (error, *_) = judged([Run(replace(runs[0].row, figure=wrong)), *runs[1:]])
    assert error[1] < -0.4
