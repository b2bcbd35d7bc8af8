"""The interval program in HiGHS against brute force, and HiGHS's manners."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.errors import SolverError
from hetopt.formulations.chain import Chain
from hetopt.formulations.intervals.program import IntervalProgram
from hetopt.formulations.linear_program import LinearProgram
from hetopt.formulations.program import ProgramData
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.pricing.price import pipeline_times
from hetopt.schedule.closed_form import closed_form_ns
from hetopt.solvers.decisions.assembly import plan_of
from hetopt.solvers.decisions.exact import exact_value
from hetopt.solvers.mip import guard as search
from hetopt.solvers.mip.highs import HighsRun
from hetopt.solvers.mip.milp import MilpEngine
from hetopt.solvers.mip.status import HIGHS, verdict_of
from hetopt.solvers.race.engine import EngineRun
from tests.formulations.programs import data_of, hosting, table
from tests.oracle import brute_force
from tests.oracle.instances import make_instance

if TYPE_CHECKING:
    from hetopt.formulations.decision import Decision
    from hetopt.problem.training.choices import ScheduleName
    from hetopt.solvers.race.engine import Answer

#: Every fifth has the same schedule.
SEEDS = range(80)
#: More ticks than any plan of a generated table takes.
ENOUGH = 10**12


@pytest.mark.parametrize("seed", SEEDS)
def test_optimum_or_infeasibility_of_every_program(seed: int) -> None:
    """HiGHS alone: no bound of the race narrows a program or refutes it."""
    instance = make_instance(seed)
    problem, costs = instance.problem, instance.table
    answer = brute_force.solve(problem, costs)
    length = Chain.of(costs).length
    for part in costs.slices:
        q = part.microbatches
        for p in problem.stage_counts:
            if p > length:
                continue
            data = data_of(costs, p, q, problem.pins, cutoff=ENOUGH * PERIOD_SCALE)
            found = settle(data)
            expected = answer.programs.get((p, q))
            assert found.verdict == ("infeasible" if expected is None else "optimal")
            if expected is None:
                continue
            assert found.decision is not None
            plan = plan_of(found.decision, costs, "")
            value = closed_form_ns(pipeline_times(plan, costs))
            # brute force ranks by lambda rounded up to a whole tick
            assert value <= expected.closed_form_ns
            # as programs count it, lambda is rounded up to 1 / PERIOD_SCALE tick
            assert found.bound <= value * PERIOD_SCALE + q
            assert found.bound == pytest.approx(float(value * PERIOD_SCALE), rel=1e-8)


def settle(data: ProgramData, **options: Any) -> Answer:
    return MilpEngine(0).settle(data, EngineRun(**options))


def test_forcing_rows_of_presolve_are_not_trusted() -> None:
    """A feasible program that presolve of HiGHS 1.11 to 1.13 finds infeasible."""
    instance = make_instance(55)
    answer = brute_force.solve(instance.problem, instance.table)
    found = answer.programs[3, 8]
    pins = instance.problem.pins
    data = data_of(instance.table, 3, 8, pins, cutoff=found.value_ns * 2000)
    program = IntervalProgram(data)
    run = HighsRun(program.program)
    assert run.solve() == "optimal"
    value = run.objective * program.unit_ns
    assert value == pytest.approx(float(found.closed_form_ns), rel=1e-9)


def test_every_status_is_known_or_raises() -> None:
    assert verdict_of("kOptimal", HIGHS, "HiGHS") == "optimal"
    with pytest.raises(SolverError, match="HiGHS ended with status kSolveError"):
        verdict_of("kSolveError", HIGHS, "HiGHS")


def test_stops_when_told_to_with_a_valid_bound() -> None:
    data = data_of(table(activation_bytes=0), 4, 8)
    whole = settle(data)
    told = settle(data, stop=lambda: True)
    assert whole.verdict == "optimal"
    assert told.verdict in ("stopped", "optimal")
    assert told.bound <= whole.bound


def test_an_exception_of_a_callback_comes_out() -> None:
    def interrupted() -> bool:
        raise KeyboardInterrupt

    run = HighsRun(IntervalProgram(data_of(table(), 4, 8)).program)
    with pytest.raises(KeyboardInterrupt):
        run.solve(stop=interrupted)


@pytest.mark.parametrize("schedule", ["1f1b", "h-1f1b"])
def test_what_does_not_fit_is_ruled_out(
    monkeypatch: pytest.MonkeyPatch, schedule: ScheduleName
) -> None:
    data = data_of(table(schedule=schedule), 2, 4, hosting(1, 1, order=("a", "b")))
    best = settle(data)
    assert best.decision is not None

    def value(decision: Decision, data: ProgramData) -> int | None:
        return None if decision == best.decision else exact_value(decision, data)

    monkeypatch.setattr(search, "exact_value", value)
    next_best = settle(data)
    assert next_best.verdict == "optimal"
    assert next_best.decision != best.decision
    assert next_best.bound > best.bound


def test_standard_output_stays_clean(capfd: pytest.CaptureFixture[str]) -> None:
    run = HighsRun(IntervalProgram(data_of(table(), 3, 4)).program)
    run.solve(stop=lambda: bool(os.write(1, b"HiGHS says")) and False)
    os.write(1, b"after")
    assert capfd.readouterr().out == "after"


def test_it_needs_no_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is None if a shell has closed it."""
    monkeypatch.setattr(sys, "stdout", None)
    run = HighsRun(IntervalProgram(data_of(table(), 3, 4)).program)
    assert run.solve() == "optimal"


def test_program_without_a_solution() -> None:
    program = LinearProgram()
    column = program.column("x", upper=1, integer=True)
    program.row("none", {column: 2.0}, lower=1, upper=1)
    program.minimize({column: 1.0})
    run = HighsRun(program)
    assert run.solve() == "infeasible"
    assert run.values is None
    answer = settle(replace(data_of(table(), 3, 4), cutoff=1))
    assert (answer.verdict, answer.bound) == ("infeasible", 2)
