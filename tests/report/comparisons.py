"""Runs and comparisons made by hand."""

from __future__ import annotations

from hetopt.planning.side_by_side import Entry, Improvement, Run
from hetopt.plans.plan import Pipeline, Plan, Stage
from hetopt.plans.strategy import Strategy
from hetopt.problem.training.principles import PRUNED, Principles
from hetopt.report.comparison.comparison import Comparison, Contest
from hetopt.results.result import Status

WIDE = Principles.relaxing(["p4"])
PLAN = Plan(
    schedule="1f1b",
    problem_digest="0" * 64,
    table_digest="f" * 64,
    pipelines=(
        Pipeline(
            microbatches=4,
            stages=(
                Stage(
                    cluster="a",
                    first_unit=0,
                    end_unit=6,
                    strategy=Strategy(dp=2, cp=1, tp=2),
                    warmup=1,
                ),
            ),
        ),
    ),
)


def trace(*points: tuple[float, float]) -> tuple[Improvement, ...]:
    return tuple(Improvement(elapsed_s=t, closed_form_s=value) for t, value in points)


def made_run(
    solver: str,
    *points: tuple[float, float],
    status: Status | None = "feasible",
    seed: int | None = None,
    principles: Principles = PRUNED,
    every_cluster: bool = False,
    failure: str | None = None,
    gap: float | None = None,
) -> Run:
    """Return a run that found what the points say."""
    last = points[-1][1] if points else None
    return Run(
        entry=Entry(
            solver=solver,
            seed=seed,
            principles=principles,
            every_cluster=every_cluster,
            time_limit_s=60,
        ),
        status=status,
        trace=trace(*points),
        plan=PLAN if points else None,
        closed_form_s=last,
        iteration_time_s=last,
        lower_bound_s=last if status == "optimal" else None,
        gap=gap,
        search_time_s=points[-1][0] + 1 if points else None,
        process_time_s=20.5,
        failure=failure,
    )


def made_contest(
    *runs: Run, extra: tuple[Run, ...] = (), problem: str = "p"
) -> Contest:
    return Contest(
        problem=problem, digest="0" * 64, schedule="1f1b", runs=runs, extra=extra
    )


def made_comparison(*contests: Contest) -> Comparison:
    return Comparison(
        machine="2 cores",
        time_limit_s=60.0,
        jobs=None,
        warm_up_s={"dp": 12.5},
        contests=contests,
    )


#: An exact solver, a heuristic with two seeds, one of a wider space, one that failed.
MIXED = made_contest(
    made_run("dp", (1, 12), (2, 10), status="optimal", gap=0.0),
    made_run("mcts", (0.5, 15), (1.5, 10.4), (8, 10.05), seed=0, gap=0.1),
    made_run("mcts", (0.25, 15), (9, 10), seed=1, gap=0.1),
    made_run("metis", (0.1, 9.9), principles=WIDE),
    made_run("milp", status=None, failure="is not | installed"),
    extra=(made_run("dp", (3, 9.5), status="optimal", principles=WIDE),),
)
