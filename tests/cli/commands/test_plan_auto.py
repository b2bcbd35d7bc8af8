"""``--schedule auto``, and ``schedule: auto`` in a problem: free warm-up counts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import jsonschema
import pytest

from hetopt.cli import main
from hetopt.report.schemas.result import RESULT

if TYPE_CHECKING:
    from pathlib import Path


def test_plan_check_verify(
    planned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = str(planned / "problem.yaml")
    plan, proof = str(tmp_path / "plan.json"), str(tmp_path / "proof.json")
    options = ["--schedule", "auto", "--jobs", "1", "--out", plan]
    assert main(["plan", problem, *options, "--certificate", proof]) == 0
    out = capsys.readouterr().out
    assert ", auto\n" in out
    result = json.loads((tmp_path / "plan.json").read_text())
    jsonschema.validate(result, RESULT)
    named = json.loads((planned / "plan.json").read_text())
    assert result["closed_form_s"] <= named["closed_form_s"] * (1 + 1e-9)
    assert main(["check", problem, plan]) == 0
    assert main(["simulate", problem, plan]) == 0
    assert main(["verify", problem, plan, proof, "--sample", "1"]) == 0


def test_a_problem_can_ask_for_it(
    planned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (planned / "problem.yaml").read_text()
    assert "training: {" in text
    assert "schedule" not in text
    problem = tmp_path / "problem.yaml"
    problem.write_text(text.replace("training: {", "training: {schedule: auto, "))
    assert main(["plan", str(problem), "--jobs", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["plan"]["schedule"] == "auto"
    out = str(tmp_path / "program.proto")
    arguments = ["--formulation", "cp-sat", "--p", "1", "--q", "1"]
    assert main(["formulate", str(problem), *arguments, "--out", out]) == 0
    out, arguments[1] = str(tmp_path / "program.lp"), "miqp"
    assert main(["formulate", str(problem), *arguments, "--out", out]) == 2
    assert "miqp cannot choose warm-up counts" in capsys.readouterr().err


@pytest.mark.slow
def test_the_least_simulated_time(
    planned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = str(planned / "problem.yaml")
    out = str(tmp_path / "plan.json")
    options = ["--schedule", "auto", "--objective", "simulated", "--jobs", "1"]
    assert main(["plan", problem, *options, "--out", out]) == 0
    answer = capsys.readouterr().out.split("\n")[0]
    assert ": proven optimal" in answer
    assert "in closed form" not in answer
    result = json.loads((tmp_path / "plan.json").read_text())
    jsonschema.validate(result, RESULT)
    assert result["plan"]["schedule"] == "auto"
    assert result["objective"] == "simulated"
    named = json.loads((planned / "plan.json").read_text())
    assert result["iteration_time_s"] <= named["iteration_time_s"] * (1 + 1e-9)
    assert main(["check", problem, out]) == 0
    assert main(["simulate", problem, out]) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--solver", "milp"], "cannot choose warm-up counts (auto): use dp or cp-"),
    ],
)
def test_what_does_not_go_with_it(
    options: list[str],
    message: str,
    planned: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["plan", str(planned / "problem.yaml"), "--schedule", "auto"]
    assert main([*arguments, *options]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1
