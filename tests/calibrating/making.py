"""A problem of two clusters, plans of it, and what they take."""

from __future__ import annotations

from dataclasses import replace

from hetopt.calibrating.runs import MeasuredRun
from hetopt.cost.build import build_table
from hetopt.plans.plan import Pipeline, Plan, Stage
from hetopt.plans.strategy import Strategy
from hetopt.pricing.price import price
from hetopt.problem.calibration import NO_CALIBRATION, Calibration
from hetopt.problem.problem import Problem
from hetopt.problem.training.training import Training
from tests.cost.making import make_cluster, make_links, make_model, make_problem

MODEL = make_model(layers=8)


def problem_of(calibration: Calibration = NO_CALIBRATION) -> Problem:
    problem = make_problem(
        (make_cluster("a", nodes=1), make_cluster("b", "H20-96GB", nodes=1)),
        MODEL,
        Training(global_batch=32, seq_len=2048),
        None,
        make_links(),
    )
    return replace(problem, calibration=calibration)


def problem_of_one(calibration: Calibration = NO_CALIBRATION) -> Problem:
    problem = make_problem(
        (make_cluster("a", nodes=1),), MODEL, Training(global_batch=32, seq_len=2048)
    )
    return replace(problem, calibration=calibration)


def efficiencies(**by_cluster: float) -> Calibration:
    return Calibration(efficiency=by_cluster)


def plan_of(
    *, dp: int = 2, tp: int = 4, microbatches: int = 16, first: int = 6
) -> Plan:
    """``first``: units of the stage on cluster a, of 10; cluster b has the rest."""
    strategy = Strategy(dp=dp, cp=1, tp=tp)
    one = Stage(
        cluster="a",
        first_unit=0,
        end_unit=first,
        strategy=strategy,
        warmup=3,
        resharding="p2p",
    )
    other = Stage(
        cluster="b", first_unit=first, end_unit=10, strategy=strategy, warmup=1
    )
    return Plan(
        schedule="virtual-1f1b",
        pipelines=(Pipeline(microbatches=microbatches, stages=(one, other)),),
        problem_digest="",
        table_digest="",
    )


def plan_of_one(*, tp: int, microbatches: int) -> Plan:
    """One stage on the eight devices of cluster a."""
    stage = Stage(
        cluster="a",
        first_unit=0,
        end_unit=10,
        strategy=Strategy(dp=8 // tp, cp=1, tp=tp),
        warmup=1,
    )
    return Plan(
        schedule="virtual-1f1b",
        pipelines=(Pipeline(microbatches=microbatches, stages=(stage,)),),
        problem_digest="",
        table_digest="",
    )


def seconds(problem: Problem, plan: Plan | None = None) -> float:
    return price(plan or plan_of(), build_table(problem)).iteration_time_s


def run_of(
    problem: Problem, measured_s: float, plan: Plan | None = None
) -> MeasuredRun:
    return MeasuredRun(
        name="problem.yaml",
        problem=problem,
        plan=plan or plan_of(),
        measured_s=measured_s,
    )
