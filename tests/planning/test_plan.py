"""``hetopt.plan`` does what the command does, from any program."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import hetopt
from hetopt.cli import main
from hetopt.problem.problem import Problem
from hetopt.problem.reading import read_problem_text
from hetopt.problem.training.choices import ScheduleName
from hetopt.results.result import Result
from hetopt.solvers import registry
from hetopt.solvers.loading import load
from hetopt.solvers.registry import Solver
from hetopt.solvers.request import Request
from tests.cli.conftest import SMALL

ROOT = Path(hetopt.__file__).parent.parent


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("door") / "problem.yaml"
    found.write_text(SMALL)
    return found


@pytest.fixture(scope="module")
def problem(path: Path) -> Problem:
    return hetopt.read_problem(path)


def plain(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result without what differs from run to run, and what was asked."""
    apart = ("search_time_s", "asked")
    return {name: value for name, value in result.items() if name not in apart}


def test_it_is_what_the_command_does(
    path: Path, problem: Problem, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", str(path), "--json", "--solver", "cp-sat", "--top", "2"]) == 0
    said = plain(json.loads(capsys.readouterr().out))
    table = hetopt.build_table(problem)
    for asked, costs in ((path, None), (str(path), None), (problem, table)):
        result = hetopt.plan(asked, table=costs, solver="cp-sat", top=2)
        assert plain(json.loads(json.dumps(result.to_json()))) == said


def test_it_asks_what_the_command_asks(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--schedule", "best", "--chunks", "2", "--top", "2", "--time-limit", "2")
    assert main(["plan", str(path), "--json", "--jobs", "1", *words]) == 0
    asked = json.loads(capsys.readouterr().out)["asked"]
    assert asked["schedule"] == "auto"
    result = hetopt.plan(
        str(path), schedule="best", chunks=[2], top=2, time_limit_s=2, jobs=1
    )
    assert result.asked == asked


def test_auto_is_the_default(problem: Problem) -> None:
    result = hetopt.plan(problem)
    assert result.status == "optimal"
    assert (result.solver, result.objective) == ("auto", "simulated")
    why = hetopt.plan(problem, objective="closed").choice or ""
    assert "of stages and micro-batches" in why


def test_shipped_problems_go_by_name() -> None:
    result = hetopt.plan("hetu-32b-16h20", solver="uniform")
    assert result.best is not None
    with pytest.raises(hetopt.InputError, match="did you mean 'hetu-32b-16h20'"):
        hetopt.plan("hetu-32b-16h2")


def test_the_simulated_objective_and_relaxed_principles(problem: Problem) -> None:
    result = hetopt.plan(problem, solver="cp-sat", objective="simulated")
    assert (result.status, result.objective) == ("optimal", "simulated")
    with pytest.raises(hetopt.InputError, match="cp-sat cannot relax p3"):
        hetopt.plan(problem, solver="cp-sat", relax=["p3"])
    with pytest.raises(hetopt.InputError, match="relax: there is no 'p5'"):
        hetopt.plan(problem, relax=["p5"])  # type: ignore[list-item]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("schedule", ["zb-h1", "zb-v", "1f1b-blocking", "1f1b-batched"])
def test_simulated_times_are_proven_under_every_schedule(
    schedule: ScheduleName, problem: Problem
) -> None:
    result = hetopt.plan(problem, schedule=schedule, objective="simulated", jobs=1)
    assert (result.status, result.objective) == ("optimal", "simulated")
    closed = hetopt.plan(problem, schedule=schedule, objective="closed", jobs=1)
    assert result.best is not None
    assert closed.best is not None
    assert result.best.iteration_time_s <= closed.best.iteration_time_s
    assert result.lower_bound_s == pytest.approx(result.best.iteration_time_s)


def test_device_time_bounds_simulated_times_that_are_not_searched(
    problem: Problem,
) -> None:
    result = hetopt.plan(problem, relax=["p4"], objective="simulated", jobs=1)
    assert (result.status, result.objective) == ("feasible", "simulated")
    assert result.best is not None
    assert result.lower_bound_s
    assert result.lower_bound_s <= result.best.iteration_time_s


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"jobs": 0}, "jobs: is 0, expected a whole number of at least 1"),
        ({"jobs": 1.5}, "jobs: is 1.5, expected a whole number"),
        ({"top": 0}, "top: is 0"),
        ({"seed": -1}, "seed: is -1, expected a whole number of at least 0"),
        ({"time_limit_s": 0}, "time_limit_s: is 0, expected a number above 0"),
        ({"time_limit_s": float("nan")}, "time_limit_s: is nan"),
        ({"solver": "abacus"}, "solver: there is no solver 'abacus'"),
        ({"objective": "money"}, "objective: is 'money', expected 'closed', 'sim"),
        ({"objective": "cost"}, "clusters.fast.price_per_hour: is missing"),
        ({"budget": 0}, "budget: is 0, expected a number above 0"),
        ({"min_tokens_per_s": 9}, "min_tokens_per_s: has no effect"),
        ({"table": "nowhere.json"}, "nowhere.json: "),
        ({"launcher": 5}, "launcher: is 5, expected a text"),
        (
            {"launcher": "hetu", "schedule": "gpipe"},
            "schedule: the launcher runs 1f1b, not gpipe",
        ),
    ],
)
def test_what_is_wrong_is_one_line(
    changes: dict[str, Any], said: str, problem: Problem
) -> None:
    with pytest.raises(hetopt.InputError) as wrong:
        hetopt.plan(problem, **changes)
    assert str(wrong.value).startswith(said)
    assert "\n" not in str(wrong.value)


def test_a_table_of_another_problem_is_refused(problem: Problem) -> None:
    other = replace(problem, training=replace(problem.training, seq_len=2048))
    with pytest.raises(hetopt.DigestError, match="make a new table"):
        hetopt.plan(problem, table=hetopt.build_table(other))


@pytest.fixture
def _forgotten() -> Iterator[None]:
    yield
    registry.OWN.forget()


@pytest.mark.usefixtures("_forgotten")
def test_a_solver_that_claims_too_much_is_found_out(problem: Problem) -> None:
    def solve(request: Request) -> Result:
        result = load("uniform")(request)
        assert result.best is not None
        return replace(result, best=replace(result.best, closed_form_s=1e-3))

    registry.register_solver(Solver(name="braggart", home=solve))
    with pytest.raises(hetopt.CheckError, match="closed_form_s"):
        hetopt.plan(problem, solver="braggart")


def test_no_plan_is_an_answer(problem: Problem) -> None:
    tiny = tuple(replace(cluster, memory_bytes=10**6) for cluster in problem.clusters)
    result = hetopt.plan(replace(problem, clusters=tiny))
    assert (result.status, result.best) == ("infeasible", None)
    assert result.reason
    assert result.reason in repr(result)
    assert result.reason in " ".join(str(result).split())
    assert result.reason in result._repr_html_().replace("&#x27;", "'")


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("before", ["plans", "planning", "cli.commands.plan"])
def test_plan_is_the_function_whatever_was_imported(before: str) -> None:
    asked = "assert hetopt.plan.__module__ == 'hetopt.planning.plan'"
    code = f"import hetopt.{before}\n{asked}"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("more", ["'cp-sat'", "'milp', jobs=2"])
def test_a_program_needs_no_guard(more: str, path: Path) -> None:
    """Neither in one process nor with workers, who do not run the program again."""
    program = path.parent / "program.py"
    program.write_text(
        "import hetopt\n"
        "print('once')\n"
        f"result = hetopt.plan({str(path)!r}, solver={more})\n"
        "print(result.status)\n"
    )
    done = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        check=False,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        text=True,
        timeout=120,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout.split() == ["once", "optimal"]


def test_small_problems_start_no_process(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*asked: object) -> None:
        pytest.fail("a process was started")

    monkeypatch.setattr("hetopt.solvers.pools.children.start", start)
    assert hetopt.plan(problem, solver="cp-sat").status == "optimal"


def parts_of(value: object) -> Iterator[Any]:
    """Yield a value and everything it is made of that ``replace`` knows."""
    if isinstance(value, tuple):
        for item in value:
            yield from parts_of(item)
    elif is_dataclass(value):
        yield value
        for field in fields(value):
            yield from parts_of(getattr(value, field.name))


def test_every_part_of_a_problem_can_be_replaced(problem: Problem) -> None:
    parts = list(parts_of(problem))
    names = {type(part).__name__ for part in parts}
    assert {"Problem", "Model", "Cluster", "Link", "Training", "Pins"} <= names
    for part in parts:
        assert replace(part) == part


def test_variants_are_checked_and_planned(problem: Problem) -> None:
    fast, slow = problem.clusters
    larger = replace(problem, clusters=(replace(fast, nodes=2), slow))
    times = [hetopt.plan(each).best for each in (problem, larger)]
    assert times[0] is not None
    assert times[1] is not None
    assert times[1].closed_form_s < times[0].closed_form_s
    with pytest.raises(ValueError, match="nodes: is 0, expected a whole number"):
        replace(fast, nodes=0)
    with pytest.raises(ValueError, match="is 'fast' a second time"):
        replace(problem, clusters=(fast, fast))


def test_shown_in_a_line_in_print_and_in_notebooks(problem: Problem) -> None:
    result = hetopt.plan(problem, solver="cp-sat", top=2)
    assert result.best is not None
    table = hetopt.build_table(problem)
    for shown in (problem, table, result, result.best.plan):
        assert repr(shown).startswith(f"<{type(shown).__name__}: ")
        assert "\n" not in repr(shown)
        assert len(repr(shown)) < 300
        assert "fast" in str(shown)
        assert "fast</td>" in shown._repr_html_()
    assert "proven optimal" in str(result)
    assert "rank" in str(result)
    assert f"{result.best.closed_form_s:.3g} s per iteration in closed" in repr(result)


def test_layers_with_windows_are_planned_alike_by_whoever_proves() -> None:
    text = SMALL.replace(
        "ffn: 4096,", "ffn: 4096, sliding_window: 64, full_layers: [1], qk_norm: head,"
    )
    problem = read_problem_text(text)
    assert problem.model.units.count("layer-window") == 3
    values = set()
    for solver in ("cp-sat", "milp", "dp"):
        result = hetopt.plan(problem, solver=solver, jobs=1)
        assert result.status == "optimal"
        assert result.best is not None
        values.add(result.best.closed_form_s)
    assert len(values) == 1
