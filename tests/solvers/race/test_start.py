"""Searches that start from a plan: it is taken, dropped where it does not fit."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.base.deadline import Deadline
from hetopt.plans.strategy import Strategy
from hetopt.problem.training.choices import ScheduleName
from hetopt.solvers.cp_sat import CpSatEngine
from hetopt.solvers.decisions.exact import exact_value
from hetopt.solvers.loading import load
from hetopt.solvers.mip.milp import MilpEngine
from hetopt.solvers.mip.miqp import MiqpHighsEngine, MiqpScipEngine
from hetopt.solvers.params import RaceParams
from hetopt.solvers.race.engine import EngineRun
from hetopt.solvers.race.ledger import Ledger
from hetopt.solvers.race.messages import NO_CUTOFF, Found
from hetopt.solvers.request import Request
from tests.formulations.programs import ONE, TWO, data_of, hosting, table
from tests.formulations.programs import best as best_of
from tests.oracle.instances import ONE_CHUNK, make_instance

if TYPE_CHECKING:
    from hetopt.formulations.decision import Decision
    from hetopt.formulations.program import ProgramData
    from hetopt.results.result import Result
    from hetopt.solvers.race.engine import Answer, Engine

needs_scip = pytest.mark.skipif(
    importlib.util.find_spec("pyscipopt") is None, reason="PySCIPOpt is not installed"
)
ENGINES = [
    pytest.param(CpSatEngine, id="cp-sat"),
    pytest.param(MilpEngine, id="milp"),
    pytest.param(MiqpHighsEngine, id="miqp-highs"),
    pytest.param(MiqpScipEngine, id="miqp-scip", marks=needs_scip),
]


def settled(engine: Any, data: Any, **options: Any) -> tuple[Answer, list[Decision]]:
    """The answer of an engine, and what it told on the way."""
    told: list[Decision] = []
    made: Engine = engine(0)
    return made.settle(data, EngineRun(found=told.append, **options)), told


@pytest.mark.quick_cases(8)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("schedule", ONE_CHUNK)
def test_the_start_is_the_first_that_is_found(
    engine: Any, schedule: ScheduleName
) -> None:
    """A poor plan, which no search would have met first in all these programs."""
    costs = table(ONE, TWO, schedule=schedule, activation_bytes=1)
    pins = hosting(1, 1, order=("b", "a"), units=(2, 6))
    poor = best_of(costs, 2, 4, pins)
    assert poor is not None
    data = data_of(costs, 2, 4)
    expected, _ = settled(engine, data)
    answer, told = settled(engine, data, start=poor.decision)
    assert told[0] == poor.decision
    assert answer.verdict == "optimal"
    assert answer.bound == expected.bound
    assert answer.decision is not None
    assert exact_value(answer.decision, data) == expected.bound


@pytest.mark.parametrize("engine", ENGINES)
def test_a_start_that_is_no_solution_is_dropped(engine: Any) -> None:
    costs = table(ONE, TWO, activation_bytes=1)
    poor = best_of(costs, 2, 4, hosting(1, 1, order=("b", "a"), units=(2, 6)))
    assert poor is not None
    data = data_of(costs, 2, 4)
    optimum, _ = settled(engine, data)
    unknown = Strategy(dp=1, cp=1, tp=4, recompute="full")
    programs: list[tuple[ProgramData, dict[str, Any]]] = [
        # beyond the cutoff, excluded, too large, of a strategy not on offer
        (replace(data, cutoff=optimum.bound), {"start": poor.decision}),
        (data, {"start": poor.decision, "excluded": [poor.decision]}),
        (replace(data, usable_bytes=(500, 500)), {"start": poor.decision}),
        (data, {"start": replace(poor.decision, strategies=(ONE, unknown))}),
    ]
    for program, options in programs:
        expected, _ = settled(engine, program, excluded=options.get("excluded", ()))
        answer, told = settled(engine, program, **options)
        assert (answer.verdict, answer.bound) == (expected.verdict, expected.bound)
        assert poor.decision not in told


@pytest.mark.parametrize("engine", ENGINES[:2])
def test_units_and_cuts_of_generated_instances(engine: Any) -> None:
    """An optimum to start from is the only plan that is told."""
    for seed in range(40, 50):
        instance = make_instance(seed)
        for p in (1, 2, 3):
            data = data_of(
                instance.table, p, 2, instance.problem.pins, cutoff=10**12 * 1000
            )
            expected, _ = settled(engine, data)
            if expected.decision is None:
                continue
            answer, told = settled(engine, data, start=expected.decision)
            assert answer.decision == expected.decision
            assert told in ([], [expected.decision])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cp-sat", "milp"])
def test_the_reported_plan_does_not_depend_on_starts(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def solved(seed: int) -> Result:
        instance = make_instance(seed)
        params = RaceParams(jobs=0, top=2)
        return load(name)(
            Request(
                problem=instance.problem,
                table=instance.table,
                params=params,
                deadline=Deadline.after(60),
            )
        )

    seeds = range(62, 70)
    started = [solved(seed) for seed in seeds]
    monkeypatch.setattr(Ledger, "best_of", lambda ledger, program: None)
    for seed, result in zip(seeds, started, strict=True):
        plain = solved(seed)
        assert plain.status == result.status
        assert plain.best == result.best
        assert plain.alternatives == result.alternatives


def test_the_ledger_knows_the_best_plan_of_a_program() -> None:
    instance = make_instance(0)
    ledger = Ledger(instance.problem, instance.table, top=3, limit=NO_CUTOFF)
    data = data_of(instance.table, 2, 2, cutoff=10**12 * 1000)
    answer, _ = settled(CpSatEngine, data)
    assert answer.decision is not None
    worse = replace(answer.decision, hosted=(9,))
    program = ledger.programs[2, 2]
    assert ledger.best_of(program) is None
    ledger.find(Found(decision=worse, value=answer.bound + 1))
    ledger.find(Found(decision=answer.decision, value=answer.bound))
    assert ledger.best_of(program) == answer.decision
    assert ledger.best_of(ledger.programs[1, 2]) is None
