"""What is minimised unless somebody says: a matter of problem and options alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import hetopt
from hetopt.base.deadline import Deadline
from hetopt.check import check_result
from hetopt.planning.objective import PATIENCE_S, decided
from hetopt.planning.posed import search, tree_of
from hetopt.planning.solving import _device_s
from hetopt.problem.training.principles import Principles
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from hetopt.solvers.search.over import Over
from hetopt.solvers.simulated import solver as simulated_solver

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from hetopt.problem.problem import Problem
    from hetopt.problem.training.principles import Relaxable
    from hetopt.results.result import Objective
    from hetopt.solvers.simulated.ledger import SimulatedLedger

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


def asked(problem: Problem, **params: Any) -> Request:
    return Request(
        problem=problem,
        table=hetopt.build_table(problem),
        params=RaceParams(jobs=1, **params),
    )


def decided_for(problem: Problem, **params: Any) -> str:
    request = asked(problem, **params)
    return decided(None, problem, request.table, solver="auto")


def test_it_is_the_least_simulated_time(problem: Problem) -> None:
    result = hetopt.plan(problem, jobs=1)
    least = hetopt.plan(problem, objective="simulated", jobs=1)
    assert (result.objective, result.status) == ("simulated", "optimal")
    assert result.best == least.best


def test_a_cache_decides_nothing(
    problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = hetopt.plan(problem, jobs=1)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "empty"))
    monkeypatch.setattr("hetopt.planning.plan.compile_once", lambda *_, **__: None)
    after = hetopt.plan(problem, jobs=1)
    assert (after.objective, after.best) == (before.objective, before.best)
    assert after.lower_bound_s == before.lower_bound_s


@pytest.mark.parametrize("solver", ["dp", "cp-sat", "uniform"])
def test_whoever_names_a_solver_names_its_closed_form(
    problem: Problem, solver: str
) -> None:
    assert hetopt.plan(problem, solver=solver, jobs=1).objective == "closed"


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    "options",
    [
        {"schedule": "zb-h1"},
        {"schedule": "interleaved-1f1b", "chunks": 2},
        {"schedule": "1f1b-blocking"},
        {"schedule": "auto"},
        {"pipelines": 2},
        {"launcher": "megatron"},
    ],
)
def test_so_it_is_whatever_is_asked(problem: Problem, options: dict[str, Any]) -> None:
    found = hetopt.plan(problem, **options, jobs=1, time_limit_s=1)
    assert found.objective == "simulated"


@pytest.mark.parametrize("relaxed", ["p3", "p4", "p4-falling-tp"])
def test_so_it_is_with_relaxed_principles(relaxed: Relaxable, problem: Problem) -> None:
    principles = Principles.relaxing([relaxed])
    assert decided_for(problem, principles=principles) == "simulated"
    found = hetopt.plan(problem, relax=[relaxed], jobs=1)
    pruned = hetopt.plan(problem, jobs=1)
    assert (found.objective, found.status) == ("simulated", "feasible")
    assert found.best is not None
    assert pruned.best is not None
    assert found.best.iteration_time_s <= pruned.best.iteration_time_s
    # Paths bound it far better than the work of the devices does.
    table = hetopt.build_table(problem)
    device_s = _device_s(table, closed=False).values()
    assert found.lower_bound_s is not None
    assert min(device_s) < found.lower_bound_s <= found.best.iteration_time_s
    data = found.to_json()
    assert check_result(problem, table, data) == []
    forged = {**data, "status": "optimal"}
    assert any("not confirmed" in each for each in check_result(problem, table, forged))


@pytest.mark.slow
def test_so_it_is_with_sequences_of_several_lengths(tmp_path: Path) -> None:
    path = tmp_path / "problem.yaml"
    path.write_text(
        PROBLEM.replace("schedule:", "lengths: {256: 0.5, 1024: 0.5}, schedule:")
    )
    problem = hetopt.read_problem(str(path))
    # No time proves it.
    found = hetopt.plan(problem, jobs=1, time_limit_s=5)
    closed = hetopt.plan(problem, objective="closed", jobs=1)
    assert (found.objective, found.status) == ("simulated", "feasible")
    assert found.best is not None
    assert closed.best is not None
    assert found.best.iteration_time_s <= closed.best.iteration_time_s
    table = hetopt.build_table(problem)
    data = found.to_json()
    assert check_result(problem, table, data) == []
    forged = {**data, "status": "optimal"}
    assert any("not confirmed" in each for each in check_result(problem, table, forged))


def test_too_many_clusters_are_not_told_apart(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert decided_for(problem) == "simulated"
    monkeypatch.setattr(
        "hetopt.solvers.simulated.search.is_searchable", lambda problem, table: False
    )
    assert decided_for(problem) == "closed"


def test_so_it_is_where_boundaries_share_a_link(tmp_path: Path) -> None:
    # Whichever is in the middle sends and receives through one uplink.
    third = "  - {name: third, accelerator: H800, nodes: 1, devices_per_node: 4,"
    text = PROBLEM.replace("links:", f"{third}{REST}links:")
    text = text.replace("100 Gbps}}", "100 Gbps}, uplink: 10 Gbps}")
    path = tmp_path / "problem.yaml"
    path.write_text(text)
    result = hetopt.plan(str(path), jobs=1, time_limit_s=2)
    assert result.objective == "simulated"
    assert result.best is not None
    assert result.lower_bound_s


def test_a_short_limit_changes_no_objective(problem: Problem) -> None:
    """However little was searched, there is a plan, a bound and a gap."""
    result = hetopt.plan(problem, jobs=1, time_limit_s=0.01)
    assert result.objective == "simulated"
    assert result.best is not None
    assert result.lower_bound_s is not None
    assert 0 < result.lower_bound_s <= result.best.iteration_time_s
    best = hetopt.plan(problem, jobs=1).best
    assert best is not None
    assert result.lower_bound_s <= best.iteration_time_s


@pytest.mark.parametrize("place", ["_take_start", "_race"])
def test_an_interruption_keeps_the_plan_and_the_objective(
    place: str, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that calls hetopt may get its KeyboardInterrupt at any line."""
    began: list[bool] = []
    own = getattr(simulated_solver, place)

    def interrupted(*arguments: Any) -> Any:
        if began:
            return own(*arguments)
        began.append(True)
        raise KeyboardInterrupt

    monkeypatch.setattr(simulated_solver, place, interrupted)
    result = hetopt.plan(problem, jobs=1)
    assert result.interrupted
    assert (result.status, result.objective) == ("feasible", "simulated")
    assert result.best is not None
    assert result.lower_bound_s


def test_a_proof_that_takes_too_long_says_so(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float | None] = []

    def nothing(ledger: SimulatedLedger, request: Request, most: int) -> bool:
        limits.append(request.deadline.limit_s)
        return False

    monkeypatch.setattr(simulated_solver, "_race", nothing)
    result = search(asked(problem), solver="auto", objective=None)
    assert (result.objective, result.status) == ("simulated", "feasible")
    assert "set a time limit for a longer proof" in (result.choice or "")
    assert limits[0] is not None
    assert limits[0] >= PATIENCE_S
    # Whoever sets a limit, or names the objective, decides how long it takes.
    limited = replace(asked(problem), deadline=Deadline.after(300))
    assert not search(limited, solver="auto", objective=None).choice
    named = search(asked(problem), solver="auto", objective="simulated")
    assert not named.choice
    assert limits[1:] == [300, None]


def test_searches_that_branch_have_as_long_together(problem: Problem) -> None:
    over = Over(pipelines=2)
    cases: tuple[tuple[Objective | None, float | None], ...]
    cases = (None, PATIENCE_S), ("simulated", None)
    for objective, limit_s in cases:
        request = asked(problem)
        tree = tree_of(request, solver="auto", objective=objective, over=over)
        known = tree.request.deadline.limit_s
        assert known == (limit_s and pytest.approx(limit_s, abs=5))


def test_an_objective_that_is_named_is_kept(problem: Problem) -> None:
    table = hetopt.build_table(problem)
    named: tuple[Objective, ...] = ("closed", "simulated")
    for each in named:
        assert decided(each, problem, table, solver="dp") == each
