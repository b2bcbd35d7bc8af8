"""``launcher:`` in a problem: all commands mean it, and ``--for`` overrides it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import hetopt
from hetopt.cli import main
from hetopt.planning.asked import Search
from hetopt.planning.posed import Posed
from hetopt.problem.digest import problem_digest
from hetopt.problem.reading import read_problem, read_problem_text
from tests.cli.conftest import DP, SMALL, answer

#: Hetu does not run tied embeddings, so that it runs some of the plans.
PLAIN = SMALL.replace("vocab: 32000", "vocab: 32000, tied: false")
HETU = f"{PLAIN}launcher: hetu\n"


@pytest.fixture
def problem(tmp_path: Path) -> str:
    path = tmp_path / "problem.yaml"
    path.write_text(HETU)
    return str(path)


def of_launcher(data: dict[str, object]) -> str | None:
    launch = data.get("launch")
    return launch["launcher"] if isinstance(launch, dict) else None


def test_plans_are_for_it_unless_an_option_says_otherwise(
    problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, out = tmp_path / "plain.yaml", tmp_path / "plan.json"
    plain.write_text(PLAIN)
    found = answer(problem, out)
    assert "of the plans that hetu can run" in capsys.readouterr().out
    assert of_launcher(found) == "hetu"
    same = answer(str(plain), tmp_path / "same.json", "--for", "hetu")
    assert found["closed_form_s"] == same["closed_form_s"]
    assert main(["check", problem, str(out)]) == 0
    # Its export needs no --to.
    assert main(["export", problem, str(out), "--out", str(tmp_path / "b")]) == 0
    assert "for Hetu" in capsys.readouterr().out
    for name, launcher in (("megatron", "megatron"), ("none", None), ("slurm", None)):
        assert of_launcher(answer(problem, out, "--for", name)) == launcher
        assert main(["check", problem, str(out)]) == 0
    assert main(["export", str(plain), str(out), "--out", str(tmp_path / "c")]) == 2
    assert "--to: is missing, and the problem names no l" in capsys.readouterr().err


def test_from_python(problem: str, tmp_path: Path) -> None:
    given = read_problem(problem)
    result = hetopt.plan(given, solver="dp", jobs=1)
    assert result.launch is not None
    assert result.launch.launcher == "hetu"
    assert "README.md" in hetopt.export_plan(result, out=str(tmp_path / "bundle"))
    lifted = hetopt.plan(given, launcher="none", solver="dp", jobs=1)
    assert lifted.launch is None
    assert lifted.best is not None
    assert lifted.best.closed_form_s == result.launch.closed_form_s
    with pytest.raises(hetopt.InputError, match="did you mean 'hetu'") as raised:
        hetopt.plan(given, launcher="hetuu")
    assert raised.value.field == "launcher"


def test_it_belongs_to_the_digest() -> None:
    plain, hetu = read_problem_text(PLAIN), read_problem_text(HETU)
    assert problem_digest(plain) != problem_digest(hetu)
    assert "hetu" in str(hetu)


@pytest.mark.slow
def test_fronts(problem: str, tmp_path: Path) -> None:
    Path(problem).write_text(HETU.replace("nodes: 1,", "nodes: 1, price_per_hour: 2,"))
    out = tmp_path / "front.json"
    found = answer(problem, out, "--pareto")
    assert {"launcher": "hetu"} in found["over"]
    assert main(["check", problem, str(out)]) == 0


@pytest.mark.slow
def test_with_every_schedule(problem: str, tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    text = HETU.replace("seq_len: 1024", "seq_len: 1024, schedule: auto")
    Path(problem).write_text(text)
    found = answer(problem, out)
    assert of_launcher(found) == "hetu"
    assert found["plan"]["schedule"] == "1f1b"
    assert main(["check", problem, str(out)]) == 0


@pytest.mark.parametrize("name", ["slurm", "torchrun"])
def test_what_starts_any_plan_limits_nothing(
    name: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(problem).write_text(HETU.replace("hetu", name))
    out = tmp_path / "plan.json"
    assert "launch" not in answer(problem, out)
    assert f"--to {name} " in capsys.readouterr().out
    assert main(["check", problem, str(out)]) == 0


@pytest.mark.parametrize(
    ("launcher", "command", "said"),
    [
        ("hetuu", "plan FILE", "FILE: launcher: there is no launcher 'hetuu' (did you"),
        ("torchtitan", "plan FILE", "distributed.pipelining: use torch), expected one"),
        ("hetuu", "whatif FILE --drop-each", "FILE: launcher: there is no launcher"),
        ("hetu", "plan FILE --solver mcts", "--solver: is mcts, which proves nothing"),
        ("flagscale", "plan FILE --relax p4", "FlagScale starts all ranks of a host"),
        ("hetu", "plan FILE --schedule gpipe", "--schedule: the launcher runs 1f1b, n"),
        ("hetu", "compare FILE --schedule gpipe --out d", "launcher runs 1f1b"),
        ("hetuu", "compare FILE --out d", "FILE: launcher: there is no launcher"),
        ("hexiscale", "plan FILE", "FILE: launcher: the launcher cannot do"),
    ],
)
def test_refused_in_one_line(
    launcher: str,
    command: str,
    said: str,
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(problem).write_text(HETU.replace("hetu", launcher))
    words = [problem if word == "FILE" else word for word in command.split()]
    assert main(words) == 2
    error = capsys.readouterr().err.strip()
    assert said.replace("FILE", problem) in error
    assert "\n" not in error


@pytest.mark.slow
def test_variants_are_for_theirs(
    problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = tmp_path / "plain.yaml"
    plain.write_text(PLAIN)
    wide = answer(problem, tmp_path / "a.json", "--for", "none")
    own = answer(problem, tmp_path / "b.json")
    capsys.readouterr()
    asked = ["--set", "launcher=slurm", "--json", *DP]
    times = []
    for name, launcher in ((problem, None), (str(plain), "hetu"), (problem, "none")):
        options = [] if launcher is None else ["--for", launcher]
        assert main(["whatif", name, *asked, *options]) == 0
        rows = json.loads(capsys.readouterr().out)["rows"]
        times.append([row["closed_form_s"] for row in rows])
    assert times[0] == [own["closed_form_s"], wide["closed_form_s"]]
    assert times[1] == [own["closed_form_s"]] * 2
    assert times[2] == [wide["closed_form_s"]] * 2


def test_an_answer_for_a_launcher_has_plans_that_it_runs(
    problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "plan.json"
    found = answer(problem, out)
    options = ("--for", "none", "--schedule", "1f1b", "--top", "9")
    other = answer(problem, tmp_path / "other.json", *options)
    named = {key: found["plan"][key] for key in ("problem_digest", "table_digest")}
    recomputes = next(
        {**each, "plan": {**each["plan"], **named}}
        for each in other["alternatives"]
        if each["plan"]["pipelines"][0]["stages"][0]["recompute"] == "selective"
    )
    out.write_text(json.dumps({**found, "alternatives": [recomputes]}))
    assert main(["check", problem, str(out)]) == 1
    line = "alternatives[0].plan: hetu does not run it as it is"
    assert line in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"launcher": "megatron"}, "launch.launcher: megatron, but over says hetu"),
        ({"closed_form_s": 1e-6}, "launch.closed_form_s: 1e-06, but devices take 0.0"),
        ({"closed_form_s": 9.0}, "9.0, but the launcher's own plan takes less"),
    ],
)
def test_what_it_costs_is_checked(
    changed: dict[str, object],
    line: str,
    problem: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "plan.json"
    found = answer(problem, out, "--schedule", "1f1b")
    found["launch"] |= changed
    out.write_text(json.dumps(found))
    assert main(["check", problem, str(out)]) == 1
    assert line in capsys.readouterr().err


def test_what_comes_with_the_plan_is_not_left_out(
    problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "plan.json"
    found = answer(problem, out, "--schedule", "1f1b")
    del found["launch"]
    out.write_text(json.dumps(found))
    assert main(["check", problem, str(out)]) == 1
    assert "launch: is missing" in capsys.readouterr().err


def test_a_schedule_that_it_runs_is_not_passed_over(
    problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "plan.json"
    found = answer(problem, out, "--for", "megatron", "--schedule", "auto")
    claims = found["claims"]
    other = next(
        each
        for each in claims["children"]
        if "passed_over" not in each
        and each["at"]["schedule"] != found["plan"]["schedule"]
    )
    for key in [*other]:
        if key != "at":
            del other[key]
    other["passed_over"] = "megatron does not run it"
    claims["of"] -= 1
    out.write_text(json.dumps(found))
    assert main(["check", problem, str(out)]) == 1
    assert "is passed over, but is possible" in capsys.readouterr().err


def test_its_limits_never_make_a_plan_quicker(
    problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    posed = Posed.of(Search(problem=read_problem(problem), solver="dp", jobs=1))
    result = posed.found_by(posed.tree(posed.request()))
    best = result.best
    assert best is not None
    # The time is up before the best plan without them is found.
    slower = replace(best, closed_form_s=2 * best.closed_form_s)
    found = replace(result, best=slower, status="feasible")
    monkeypatch.setattr("hetopt.planning.posed.search", lambda *_, **__: found)
    launch = posed.with_cost_of_limits(result, posed.request()).launch
    assert launch is not None
    assert (launch.closed_form_s, launch.proven) == (best.closed_form_s, False)
