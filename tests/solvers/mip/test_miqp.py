"""The MIQP solvers against brute force, and their manners."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.base.deadline import Deadline
from hetopt.errors import InputError, SolverError
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.solvers.decisions.exact import exact_value
from hetopt.solvers.loading import load
from hetopt.solvers.mip import backends as miqp_backends
from hetopt.solvers.mip import guard as search
from hetopt.solvers.mip import miqp
from hetopt.solvers.mip.backends import GurobiBackend, HighsBackend, Outcome, RunOptions
from hetopt.solvers.mip.miqp import MiqpEngine, MiqpHighsEngine, MiqpScipEngine
from hetopt.solvers.mip.status import verdict_of
from hetopt.solvers.race.engine import EngineRun
from hetopt.solvers.request import Request
from tests.formulations.programs import data_of, hosting, table
from tests.oracle.instances import make_instance

if TYPE_CHECKING:
    from hetopt.formulations.decision import Decision

TICK = Fraction(1, 10**9)
#: Instances by default; HETOPT_TEST_MIQP=200 tries that many instead.
COUNT = int(os.environ.get("HETOPT_TEST_MIQP", "25"))
#: Where SCIP with its tolerance down at its epsilon found nothing.
NARROW = (151, 168)
needs_scip = pytest.mark.skipif(
    importlib.util.find_spec("pyscipopt") is None, reason="PySCIPOpt is not installed"
)
ENGINES = [
    pytest.param(MiqpHighsEngine, id="highs"),
    pytest.param(MiqpScipEngine, id="scip", marks=needs_scip),
]
SOLVERS = [
    pytest.param("miqp-highs", id="highs"),
    pytest.param("miqp-scip", id="scip", marks=needs_scip),
]


def settled(engine: type[MiqpEngine], data: Any, **options: Any) -> Any:
    return engine(0).settle(data, EngineRun(**options))


@pytest.mark.parametrize("engine", ENGINES)
def test_better_and_better_plans_are_told(engine: type[MiqpEngine]) -> None:
    data = data_of(table(), 3, 4)
    told: list[Decision] = []
    answer = settled(engine, data, found=told.append)
    assert answer.verdict == "optimal"
    values = [exact_value(decision, data) for decision in told]
    assert all(value is not None for value in values)
    assert values == sorted(values, key=lambda value: -(value or 0))
    if told:
        assert told[-1] == answer.decision
    assert exact_value(answer.decision, data) == answer.bound


@pytest.mark.parametrize("engine", ENGINES)
def test_a_cutoff_below_the_optimum(engine: type[MiqpEngine]) -> None:
    data = data_of(table(), 2, 4)
    best = settled(engine, data)
    equal = settled(engine, replace(data, cutoff=best.bound))
    assert (equal.verdict, equal.bound) == ("optimal", best.bound)
    none = settled(engine, replace(data, cutoff=best.bound - 1))
    assert (none.verdict, none.bound) == ("infeasible", best.bound)


@pytest.mark.parametrize("engine", ENGINES)
def test_excluded_shapes_stay_out(engine: type[MiqpEngine]) -> None:
    data = data_of(table(), 2, 4, hosting(1, 1))
    seen: list[Decision] = []
    while (answer := settled(engine, data, excluded=seen)).decision is not None:
        assert answer.decision.shape not in [decision.shape for decision in seen]
        seen.append(answer.decision)
    assert {decision.order for decision in seen} == {(0, 1), (1, 0)}


@pytest.mark.parametrize("engine", ENGINES)
def test_stopped_before_it_began(engine: type[MiqpEngine]) -> None:
    data = replace(data_of(table(), 3, 4), objective_min=7)
    answer = settled(engine, data, stop=lambda: True)
    assert (answer.verdict, answer.bound, answer.decision) == ("stopped", 7, None)


@pytest.mark.parametrize("engine", ENGINES)
def test_no_time_is_no_error(engine: type[MiqpEngine]) -> None:
    answer = settled(engine, data_of(table(), 3, 4), deadline=Deadline.after(0.0))
    assert answer.verdict == "stopped"


@pytest.mark.parametrize("engine", ENGINES)
def test_stopped_on_the_way(engine: type[MiqpEngine]) -> None:
    asked: list[None] = []

    def stop() -> bool:
        asked.append(None)
        return len(asked) > 2

    instance = make_instance(302)
    data = data_of(instance.table, 6, 2, cutoff=10**12 * PERIOD_SCALE)
    answer = settled(engine, data, stop=stop)
    assert answer.verdict == "stopped"
    assert answer.bound >= 0


@pytest.mark.parametrize("engine", ENGINES)
def test_ctrl_c_in_a_callback_comes_out(engine: type[MiqpEngine]) -> None:
    asked: list[None] = []

    def stop() -> bool:
        asked.append(None)
        if len(asked) > 1:
            raise KeyboardInterrupt
        return False

    instance = make_instance(302)
    data = data_of(instance.table, 6, 2, cutoff=10**12 * PERIOD_SCALE)
    with pytest.raises(KeyboardInterrupt):
        settled(engine, data, stop=stop)


def test_what_the_solver_misjudges_is_ruled_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A solution of which the objective is not true does not end the search."""
    data = data_of(table(), 2, 4)
    best = settled(MiqpHighsEngine, data)
    true = HighsBackend.solve
    calls: list[None] = []

    def lies_once(self: HighsBackend, model: Any, run: RunOptions) -> Outcome:
        outcome = true(self, model, run)
        calls.append(None)
        if len(calls) > 1 or outcome.objective is None:
            return outcome
        return replace(outcome, objective=outcome.objective * 0.9, bound=0.0)

    monkeypatch.setattr(HighsBackend, "solve", lies_once)
    again = settled(MiqpHighsEngine, data)
    assert len(calls) == 2
    assert (again.verdict, again.bound) == ("optimal", best.bound)


def test_what_does_not_fit_is_ruled_out(monkeypatch: pytest.MonkeyPatch) -> None:
    data = data_of(table(), 2, 4, hosting(1, 1, order=("a", "b")))
    best = settled(MiqpHighsEngine, data)
    assert best.decision is not None

    def value(decision: Decision, data: Any) -> int | None:
        return None if decision == best.decision else exact_value(decision, data)

    monkeypatch.setattr(search, "exact_value", value)
    next_best = settled(MiqpHighsEngine, data)
    assert next_best.verdict == "optimal"
    assert next_best.decision != best.decision
    assert next_best.bound >= best.bound


def test_unknown_statuses_raise() -> None:
    for known in (miqp_backends.SCIP_STATUS, miqp_backends.GUROBI_STATUS):
        with pytest.raises(SolverError, match="ended with status memlimit"):
            verdict_of("memlimit", known, "SCIP")


@pytest.mark.parametrize(
    ("name", "module", "message"),
    [
        ("miqp-scip", "pyscipopt", r"pip install '.\[scip\]'"),
        ("miqp-gurobi", "gurobipy", "a Gurobi licence of your own"),
    ],
)
def test_a_missing_solver_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, name: str, module: str, message: str
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == module else find(name, *rest),
    )
    instance = make_instance(0)
    with pytest.raises(InputError, match=message):
        load(name)(
            Request(
                problem=instance.problem,
                table=instance.table,
                deadline=Deadline.after(1),
            )
        )


@pytest.mark.skipif(
    importlib.util.find_spec("gurobipy") is None, reason="gurobipy is not installed"
)
def test_gurobi_agrees() -> None:
    GurobiBackend.ensure_available()
    data = data_of(table(), 2, 4)
    found, expected = (
        settled(engine, data) for engine in (miqp.MiqpGurobiEngine, MiqpHighsEngine)
    )
    assert (found.verdict, found.bound) == (expected.verdict, expected.bound)
