"""``hetopt plan`` and what reads its plans: check, simulate, table."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.cli import main
from hetopt.report.drawing.bar import ShownProgress
from hetopt.results.priced_plan import PricedPlan
from hetopt.results.result import Result
from tests.schemas import ensure_fits

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    RunHetopt = Callable[..., subprocess.CompletedProcess[str]]


def read(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.read_text())
    return data


def test_report_says_what_was_found(planned: Path) -> None:
    text = (planned / "printed.txt").read_text()
    result = read(planned / "plan.json")
    assert result["status"] == "optimal"
    answer, plan, next_, blank, *_ = text.split("\n")
    assert answer.startswith(f"{result['closed_form_s']:.3g} s per iteration in closed")
    assert ": proven optimal; times off by 2% (A100-80GB)" in answer
    stages = result["plan"]["pipelines"][0]["stages"]
    for stage in stages:
        assert f"{stage['cluster']} 1 stage dp{stage['dp']}" in plan
    assert (
        next_ == "next: hetopt export problem.yaml plan.json --to megatron --out bundle"
    )
    assert blank == ""
    assert "\x1b" not in text
    assert len(result["alternatives"]) == 2


def test_details_are_printed_on_demand(
    planned: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(planned)
    assert main(["plan", "problem.yaml", "--jobs", "1", "-v"]) == 0
    text = capsys.readouterr().out
    for said in (
        "the sum of measured operators",
        "s in closed form",
        "s simulated",
        "lower bound",
        "x micro-batches  ",
        "solver",
    ):
        assert said in text
        assert said not in (planned / "printed.txt").read_text()


def test_files_match_the_schemas(planned: Path, small: Path) -> None:
    result = read(planned / "plan.json")
    ensure_fits(result, "result")
    ensure_fits(result["plan"], "plan")


def test_json_is_all_that_is_printed(planned: Path, run_process: RunHetopt) -> None:
    done = run_process("plan", "problem.yaml", "--json", "--jobs", "1", cwd=planned)
    assert (done.returncode, done.stderr) == (0, "")
    printed = json.loads(done.stdout)
    ensure_fits(printed, "result")
    assert printed["plan"] == read(planned / "plan.json")["plan"]


def test_check_and_simulate_agree(
    planned: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(planned)
    result = read(Path("plan.json"))
    assert main(["check", "problem.yaml", "plan.json"]) == 0
    assert "plan.json: feasible" in capsys.readouterr().out
    assert main(["simulate", "problem.yaml", "plan.json"]) == 0
    out = capsys.readouterr().out
    assert f"{result['iteration_time_s']:.6f} s" in out
    assert f"{result['closed_form_s']:.6f} s" in out
    assert "critical path" in out


def test_a_plan_alone_can_be_checked(
    planned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = tmp_path / "alone.json"
    alone.write_text(json.dumps(read(planned / "plan.json")["plan"]))
    problem = str(planned / "problem.yaml")
    assert main(["check", problem, str(alone)]) == 0
    data = read(alone)
    data["pipelines"][0]["stages"][0]["end_unit"] += 1
    alone.write_text(json.dumps(data))
    assert main(["check", problem, str(alone)]) == 1
    assert f"{alone}: " in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "simulate"])
@pytest.mark.parametrize(
    "field", ["closed_form_s", "iteration_time_s", "lower_bound_s", "mfu"]
)
def test_false_claims_are_found(
    planned: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    field: str,
) -> None:
    data = read(planned / "plan.json")
    data[field] *= 1.001
    false = tmp_path / "false.json"
    false.write_text(json.dumps(data))
    assert main([command, str(planned / "problem.yaml"), str(false)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert f"{false}: {field}: " in err


@pytest.mark.parametrize("command", ["check", "export", "verify"])
@pytest.mark.parametrize(
    ("place", "named"),
    [
        ((), "notes"),
        (("plan",), "plan.notes"),
        (("plan", "pipelines", 0), "plan.pipelines.0.notes"),
        (("plan", "pipelines", 0, "stages", 0), "plan.pipelines.0.stages.0.notes"),
        (("settlements", 0), "settlements.0.notes"),
        (("alternatives", 1), "alternatives.1.notes"),
    ],
)
def test_keys_that_nobody_knows_are_refused(
    planned: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    place: tuple[str | int, ...],
    named: str,
) -> None:
    data = read(planned / "plan.json")
    inner: Any = data
    for key in place:
        inner = inner[key]
    inner["notes"] = "none"
    file = str(tmp_path / "more.json")
    Path(file).write_text(json.dumps(data))
    more = {"export": ["--to", "torchrun", "--out", str(tmp_path / "out")]}
    more["verify"] = ["cert.json"]
    arguments = [command, str(planned / "problem.yaml"), file, *more.get(command, [])]
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"{file}: {named}: is not a known field, expected one of ")
    assert err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_check_says_what_it_takes_from_the_file(
    planned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(planned / name) for name in ("problem.yaml", "plan.json")]
    assert main(["check", *files]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("not checked here: the bounds of single programs, which")
    assert last.endswith("solver and search time")


@pytest.mark.parametrize(
    ("forge", "said"),
    [
        ({"reason": "none was found"}, "reason: there is one, but there is a plan"),
        ({"search_time_s": None}, "search_time_s: is empty, expected a number"),
        ({"solver_choice": 7}, "solver_choice: is 7, expected a text"),
    ],
)
def test_words_that_contradict_the_rest_are_refused(
    planned: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    forge: dict[str, Any],
    said: str,
) -> None:
    file = tmp_path / "false.json"
    file.write_text(json.dumps({**read(planned / "plan.json"), **forge}))
    assert main(["check", str(planned / "problem.yaml"), str(file)]) in (1, 2)
    assert f"{file}: {said}" in capsys.readouterr().err


def test_another_problem_is_refused(
    planned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (planned / "problem.yaml").read_text()
    other = tmp_path / "other.yaml"
    other.write_text(text.replace("global_batch: 4", "global_batch: 8"))
    plan = str(planned / "plan.json")
    assert main(["check", str(other), plan]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"{plan}: problem_digest: the plan was made from another")
    assert err.count("\n") == 1


def test_another_schedule_needs_no_other_file(
    planned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem, plan = str(planned / "problem.yaml"), str(tmp_path / "gpipe.json")
    options = ["--schedule", "gpipe", "--jobs", "1", "--out", plan]
    assert main(["plan", problem, *options]) == 0
    assert ", gpipe\n" in capsys.readouterr().out
    assert main(["check", problem, plan]) == 0


def test_planning_from_a_table(
    planned: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    problem = str(planned / "problem.yaml")
    assert main(["table", problem, "--out", "table.json"]) == 0
    assert "wrote table.json" in capsys.readouterr().out
    assert main(["table", problem]) == 0
    assert json.loads(capsys.readouterr().out) == read(Path("table.json"))
    ensure_fits(read(Path("table.json")), "table")

    code = main(["plan", problem, "--table", "table.json", "--jobs", "1", "--json"])
    assert code == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["plan"] == read(planned / "plan.json")["plan"]


def test_another_table_is_refused(
    planned: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    problem, plan = str(planned / "problem.yaml"), str(planned / "plan.json")
    Path("other.yaml").write_text(
        Path(problem).read_text().replace("seq_len: 1024", "seq_len: 2048")
    )
    assert main(["table", "other.yaml", "--out", "table.json"]) == 0
    capsys.readouterr()
    for command in (["plan", problem], ["check", problem, plan]):
        assert main([*command, "--table", "table.json"]) == 2
        err = capsys.readouterr().err
        assert err.startswith("table.json: problem_digest: the table was made for")


def test_infeasible_says_why(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (small / "problem.yaml").read_text()
    problem = tmp_path / "problem.yaml"
    problem.write_text(text.replace("hidden: 1024", "hidden: 65536"))
    out = tmp_path / "plan.json"
    assert main(["plan", str(problem), "--jobs", "1", "--out", str(out)]) == 1
    printed, err = capsys.readouterr()
    assert printed == ""
    assert err.startswith("no feasible plan: ")
    assert err.count("\n") == 1
    result = read(out)
    ensure_fits(result, "result")
    assert (result["status"], result["plan"]) == ("infeasible", None)
    assert main(["check", str(problem), str(out)]) == 2
    assert "there is no plan (its status is 'infeasible')" in capsys.readouterr().err


def pretend(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Let the solver answer ``change(what it really answers)``."""
    from hetopt.solvers import auto

    real = auto.solve

    def solve(*arguments: Any, **options: Any) -> Result:
        answer: Result = change(real(*arguments, **options))
        return answer

    monkeypatch.setattr(auto, "solve", solve)


def test_stopped_without_a_plan(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing(result: Result) -> Result:
        return replace(
            result,
            status="unknown",
            best=None,
            gap=None,
            tokens_per_s=None,
            mfu=None,
            mfu_used=None,
            alternatives=(),
        )

    pretend(monkeypatch, nothing)
    options = ["--jobs", "1", "--objective", "closed"]
    assert main(["plan", str(small / "problem.yaml"), *options]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("stopped without a plan")


def test_a_wrong_answer_of_a_solver_is_not_printed(
    small: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def flattering(result: Result) -> Result:
        best = result.best
        assert best is not None
        return replace(
            result,
            best=PricedPlan(
                plan=best.plan,
                closed_form_s=best.closed_form_s * 0.99,
                iteration_time_s=best.iteration_time_s,
            ),
        )

    pretend(monkeypatch, flattering)
    out = tmp_path / "plan.json"
    options = ["--jobs", "1", "--objective", "closed", "--out", str(out)]
    assert main(["plan", str(small / "problem.yaml"), *options]) == 1
    printed, err = capsys.readouterr()
    assert printed == ""
    assert "closed_form_s: " in err
    assert not out.exists()


def test_interrupted_before_the_search(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(result: Result) -> Result:
        raise KeyboardInterrupt

    pretend(monkeypatch, interrupt)
    assert main(["plan", str(small / "problem.yaml"), "--jobs", "1"]) == 3
    assert capsys.readouterr().err == "stopped: interrupted\n"


def test_planning_says_how_far_it_is_where_there_is_no_terminal(
    small: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(ShownProgress, "EVERY_S", 0.005)
    assert main(["plan", str(small / "problem.yaml"), "--solver", "cp-sat"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("searching, 0 s: ")
    assert any(" programs settled, best " in line for line in said)
