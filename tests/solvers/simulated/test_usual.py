"""What is minimised unless somebody says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import hetopt
from hetopt.base.deadline import Deadline
from hetopt.problem.training.principles import Principles
from hetopt.solvers import compiling
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from hetopt.solvers.simulated import usual

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from hetopt.problem.problem import Problem
    from hetopt.results.result import Result

PROBLEM = """
name: usual
model: {name: usual, layers: 8, hidden: 1024, heads: 16, ffn: 4096, vocab: 32000}
clusters:
  - {name: fast, accelerator: A100-80GB, nodes: 1, devices_per_node: 4,
     intra_node: {bandwidth: 300 GB/s}, inter_node: {bandwidth: 100 Gbps}}
  - {name: slow, accelerator: H20-96GB, nodes: 1, devices_per_node: 4,
     intra_node: {bandwidth: 300 GB/s}, inter_node: {bandwidth: 100 Gbps}}
links: {default: {bandwidth: 10 Gbps, latency: 1 ms}}
training: {global_batch: 16, seq_len: 1024, schedule: 1f1b}
"""


REST = """
     intra_node: {bandwidth: 300 GB/s}, inter_node: {bandwidth: 100 Gbps}}
"""


@pytest.fixture
def problem(tmp_path: Path) -> Problem:
    path = tmp_path / "problem.yaml"
    path.write_text(PROBLEM)
    return hetopt.read_problem(str(path))


@pytest.fixture(autouse=True)
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether kernels happen to be kept is not what is tested."""
    monkeypatch.setattr(compiling, "are_times_kept", lambda *, free: True)


def asked(problem: Problem, **params: Any) -> Request:
    return Request(
        problem=problem,
        table=hetopt.build_table(problem),
        params=RaceParams(jobs=1, **params),
    )


def test_it_is_the_least_simulated_time(problem: Problem) -> None:
    result = hetopt.plan(problem, jobs=1)
    least = hetopt.plan(problem, objective="simulated", jobs=1)
    assert (result.objective, result.status) == ("simulated", "optimal")
    assert result.best == least.best


@pytest.mark.parametrize("solver", ["dp", "cp-sat", "uniform"])
def test_whoever_names_a_solver_names_its_closed_form(
    problem: Problem, solver: str
) -> None:
    assert hetopt.plan(problem, solver=solver, jobs=1).objective == "closed"


@pytest.mark.parametrize(
    "options",
    [
        {"schedule": "zb-h1"},
        {"schedule": "interleaved-1f1b", "chunks": 2},
        {"schedule": "1f1b-blocking"},
        {"schedule": "best"},
        {"relax": ["p4"]},
        {"pipelines": 2},
    ],
)
def test_what_is_not_searched_is_planned_in_closed_form(
    problem: Problem, options: dict[str, Any]
) -> None:
    assert hetopt.plan(problem, **options, jobs=1).objective == "closed"


def test_a_journal_is_of_the_closed_form(problem: Problem, tmp_path: Path) -> None:
    request = asked(problem, journal=str(tmp_path / "journal.jsonl"))
    assert usual.solve_usual(request).objective == "closed"


def test_relaxed_principles_are_of_the_closed_form(problem: Problem) -> None:
    request = asked(problem, principles=Principles.relaxing(["p4"]))
    assert usual.solve_usual(request).objective == "closed"


def test_too_many_clusters_are_not_told_apart(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usual, "is_searchable", lambda problem, table: False)
    assert usual.solve_usual(asked(problem)).objective == "closed"


def test_what_boundaries_share_is_in_the_closed_form(tmp_path: Path) -> None:
    # Whichever is in the middle sends and receives through one uplink.
    third = "  - {name: third, accelerator: H800, nodes: 1, devices_per_node: 4,"
    text = PROBLEM.replace("links:", f"{third}{REST}links:")
    text = text.replace("100 Gbps}}", "100 Gbps}, uplink: 10 Gbps}")
    path = tmp_path / "problem.yaml"
    path.write_text(text)
    result = hetopt.plan(str(path), jobs=1)
    assert (result.objective, result.status) == ("closed", "optimal")


@pytest.mark.parametrize(
    ("kept", "says"),
    [
        (True, "is being compiled for later runs"),
        (False, "cannot be stored here"),
    ],
)
def test_the_first_run_does_not_wait_for_compiling(
    problem: Problem, monkeypatch: pytest.MonkeyPatch, kept: bool, says: str
) -> None:
    started = []

    def later(*, free: bool) -> bool:
        started.append(free)
        return kept

    monkeypatch.setattr(compiling, "are_times_kept", lambda *, free: False)
    monkeypatch.setattr(compiling, "times_later", later)
    result = hetopt.plan(problem, jobs=1)
    assert (result.objective, result.status) == ("closed", "optimal")
    assert started == [False]
    assert result.choice is not None
    assert says in result.choice


def test_whoever_stops_it_is_told_no_other_reason(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(self: object, first: int, most: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hetopt.solvers.simulated.solver._SimulatedRace.run", stop)
    result = hetopt.plan(problem, objective="simulated", jobs=1)
    assert result.interrupted
    assert result.best is not None
    usually = hetopt.plan(problem, jobs=1)
    assert usually.interrupted
    assert (usually.objective, usually.status) == ("closed", "optimal")
    assert usually.choice is not None
    assert "when the search ended" in usually.choice


def unproven(request: Request, *, started: Result, **options: Any) -> Result:
    """Return what a search of simulated times knows that had to end."""
    assert options == {"solver": "auto", "patience_s": 60.0}
    assert (started.objective, started.status) == ("closed", "optimal")
    return replace(started, objective="simulated", status="feasible", choice=None)


@pytest.mark.parametrize("place", ["are_times_kept", "solve_simulated"])
def test_an_interruption_keeps_the_plan_of_the_closed_form(
    place: str, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that calls hetopt may get its KeyboardInterrupt at any line."""

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    if place == "are_times_kept":
        monkeypatch.setattr(compiling, place, interrupted)
    else:
        monkeypatch.setattr(usual, place, interrupted)
    result = usual.solve_usual(asked(problem))
    assert result.interrupted
    assert (result.status, result.objective) == ("optimal", "closed")
    assert result.best is not None
    assert "was stopped" in (result.choice or "")


def test_a_proof_that_takes_too_long_says_so(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usual, "solve_simulated", unproven)
    result = usual.solve_usual(asked(problem))
    assert (result.objective, result.status) == ("simulated", "feasible")
    assert result.choice is not None
    assert "set a time limit for a longer proof" in result.choice
    limited = replace(asked(problem), deadline=Deadline.after(300))
    assert usual.solve_usual(limited).choice is None


@pytest.mark.parametrize("interrupted", [True, False])
def test_without_any_bound_it_is_the_closed_form(
    problem: Problem, monkeypatch: pytest.MonkeyPatch, interrupted: bool
) -> None:
    def nothing(request: Request, **options: Any) -> Result:
        found = unproven(request, **options)
        return replace(found, lower_bound_s=0.0, interrupted=interrupted)

    monkeypatch.setattr(usual, "solve_simulated", nothing)
    result = usual.solve_usual(asked(problem))
    assert (result.objective, result.status) == ("closed", "optimal")
    assert result.interrupted == interrupted
    assert result.choice is not None
    assert "there was no lower bound on simulated times" in result.choice


def test_what_is_not_proven_in_closed_form_is_reported_so(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    proven = hetopt.plan(problem, objective="closed", jobs=1)
    open_still = replace(proven, status="feasible")
    monkeypatch.setattr(usual, "load", lambda name: lambda request: open_still)
    assert usual.solve_usual(asked(problem)) is open_still
