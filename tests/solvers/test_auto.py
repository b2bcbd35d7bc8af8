"""What ``auto`` reports when the proof stays open."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.base.deadline import Deadline
from hetopt.check import check_result
from hetopt.cost.build import build_table
from hetopt.problem.reading import read_problem_text
from hetopt.solvers import auto
from hetopt.solvers.kernels import TINY
from hetopt.solvers.loading import load
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from tests.oracle.instances import make_instance

if TYPE_CHECKING:
    from hetopt.problem.model.model import Granularity
    from hetopt.problem.training.choices import ScheduleName
    from hetopt.results.result import Result
    from hetopt.solvers.progress import Progress
    from tests.oracle.instances import Instance


def _instance() -> Instance:
    """Return an instance with at least two plans."""
    return make_instance(3, pinned=False)


@pytest.mark.parametrize("kept", [0, 1])
def test_heuristic_has_the_end_of_the_time(
    monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    instance = _instance()
    problem, table = instance.problem, instance.table
    params = RaceParams(jobs=0, top=2)
    proven: Result = load("dp")(Request(problem=problem, table=table, params=params))
    assert proven.best is not None
    assert proven.alternatives
    best = (proven.best, *proven.alternatives)[kept]
    bound = proven.best.closed_form_s / 2
    stopped = replace(
        proven,
        status="feasible",
        best=best,
        alternatives=(),
        lower_bound_s=bound,
        gap=1 - bound / best.closed_form_s,
        settlements=tuple(
            replace(one, how="unsettled", bound_s=bound)
            for one in proven.settlements
            if one.how != "infeasible"
        ),
    )
    limits: dict[str, float | None] = {}

    def fake(name: str) -> Any:
        def solve(request: Request) -> Result:
            limits[name] = request.deadline.limit_s
            return stopped if name == "dp" else proven

        return solve

    monkeypatch.setattr(auto, "load", fake)
    result = auto.solve(
        Request(
            problem=problem, table=table, params=params, deadline=Deadline.after(100)
        )
    )
    assert limits["dp"] == pytest.approx(85)
    assert limits["mcts-guided"] == pytest.approx(100, abs=5)
    assert result.best == proven.best
    assert result.solver == proven.solver
    assert result.choice is not None
    assert ("nothing better" in result.choice) == (kept == 0)
    # The bound is the proof's, the gap that of the better plan.
    assert (result.status, result.lower_bound_s) == ("feasible", bound)
    assert result.gap == pytest.approx(0.5)
    assert len(result.alternatives) == 1
    claims = {**result.to_json(), "solver": "dp"}
    findings = check_result(problem, table, claims)
    assert not [line for line in findings if "settle" not in line]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that the names of the solvers that ``auto`` asks go to."""
    names: list[str] = []

    def spied(name: str) -> Any:
        names.append(name)
        return load(name)

    monkeypatch.setattr(auto, "load", spied)
    return names


def test_proven_plan_is_left_alone(asked: list[str]) -> None:
    instance = _instance()
    result = auto.solve(
        Request(
            problem=instance.problem,
            table=instance.table,
            params=RaceParams(jobs=0),
            deadline=Deadline.after(60),
        )
    )
    assert result.status == "optimal"
    assert len(asked) == 1


def test_proof_that_nothing_is_within_the_cutoff_is_left_alone(
    asked: list[str],
) -> None:
    instance = _instance()
    result = auto.solve(
        Request(
            problem=instance.problem,
            table=instance.table,
            params=RaceParams(jobs=0),
            deadline=Deadline.after(60),
            cutoff_s=1e-9,
        )
    )
    assert result.best is None
    assert len(asked) == 1


def test_heuristic_is_chosen_by_the_units() -> None:
    chosen = {}
    for granularity in ("layer", "block"):
        problem = read_problem_text(
            "model: {layers: 4, hidden: 1024, heads: 8, ffn: 4096, vocab: 32000, "
            f"granularity: {granularity}}}\n"
            "clusters: [{name: a, accelerator: A40, nodes: 1, devices_per_node: 2}]\n"
            "training: {global_batch: 2, seq_len: 1024}\n"
        )
        chosen[granularity] = auto.heuristic(build_table(problem))
    assert chosen == {"layer": "mcts-guided", "block": "mcts"}


@pytest.mark.parametrize(
    ("schedule", "chunks"), [("interleaved-1f1b", 2), ("zb-h1", None)]
)
def test_a_heuristic_that_cannot_plan_the_schedule_is_not_asked(
    asked: list[str], schedule: ScheduleName, chunks: int | None
) -> None:
    problem = read_problem_text(TINY % "1f1b").under(schedule, chunks)
    table = build_table(problem)
    request = Request(
        problem=problem,
        table=table,
        params=RaceParams(jobs=0),
        deadline=Deadline.after(1e-6),
    )
    assert not auto._may_fall_back(table, request.params, 100.0)
    auto.solve(request)
    assert asked == ["dp"]


@pytest.mark.parametrize("granularity", ["layer", "block"])
def test_tree_search_is_left_out_where_its_arrays_are_large(
    granularity: Granularity, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = read_problem_text(TINY % "1f1b")
    model = replace(problem.model, granularity=granularity)
    table = build_table(replace(problem, model=model))
    params = RaceParams(jobs=0)
    assert auto._may_fall_back(table, params, 100.0)
    monkeypatch.setattr(auto, "_MOST_CELLS", 0)
    # The guided one reads a slice at a time.
    assert auto._may_fall_back(table, params, 100.0) == (granularity == "layer")


def test_ctrl_c_is_no_timeout(asked: list[str]) -> None:
    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    instance = _instance()
    result = auto.solve(
        Request(
            problem=instance.problem,
            table=instance.table,
            params=RaceParams(jobs=0, on_progress=interrupt),
            deadline=Deadline.after(600),
        )
    )
    assert result.interrupted
    assert "unsettled" in result.settled
    assert len(asked) == 1
