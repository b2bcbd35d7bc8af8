"""``--schedule free-1f1b``: warm-up counts are chosen by the simulated time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hetopt.cli import main
from tests.schemas import ensure_fits

FREE = ("--schedule", "free-1f1b")


@pytest.mark.slow
def test_plan_check_verify(
    planned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = str(planned / "problem.yaml")
    plan, proof = str(tmp_path / "plan.json"), str(tmp_path / "proof.json")
    options = [*FREE, "--jobs", "1", "--out", plan]
    assert main(["plan", problem, *options, "--certificate", proof]) == 0
    answer = capsys.readouterr().out
    assert ": proven optimal" in answer.split("\n")[0]
    assert ", free-1f1b\n" in answer
    result = json.loads((tmp_path / "plan.json").read_text())
    ensure_fits(result, "result")
    assert result["objective"] == "simulated"
    named = json.loads((planned / "plan.json").read_text())
    assert result["iteration_time_s"] <= named["iteration_time_s"] * (1 + 1e-9)
    assert main(["check", problem, plan]) == 0
    assert main(["simulate", problem, plan]) == 0
    assert main(["verify", problem, plan, proof, "--sample", "1"]) == 0


@pytest.mark.parametrize(
    "command",
    [
        ["plan", "PROBLEM", *FREE, "--objective", "closed"],
        ["plan", "PROBLEM", *FREE, "--solver", "milp", "--objective", "closed"],
        ["whatif", "PROBLEM", *FREE, "--drop-each"],
        ["compare", "PROBLEM", *FREE, "--time-limit", "1", "--out", "FOLDER"],
    ],
)
def test_what_needs_the_closed_form_is_refused(
    command: list[str],
    planned: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    known = {"PROBLEM": str(planned / "problem.yaml"), "FOLDER": str(tmp_path)}
    assert main([known.get(word, word) for word in command]) == 2
    err = capsys.readouterr().err
    assert "free-1f1b leaves warm-up counts to hetopt plan" in err
    assert err.count("\n") == 1


def test_formulations_do_not_have_it(
    planned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (planned / "problem.yaml").read_text()
    problem = tmp_path / "problem.yaml"
    problem.write_text(text.replace("training: {", "training: {schedule: free-1f1b, "))
    for form, name in (("cp-sat", "a.proto"), ("miqp", "a.lp"), ("intervals", "b.lp")):
        out = str(tmp_path / name)
        arguments = ["--formulation", form, "--p", "1", "--q", "1", "--out", out]
        assert main(["formulate", str(problem), *arguments]) == 2
        assert "leaves warm-up counts to hetopt plan" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--schedule", "auto"], None),
        (["--for", "hetu"], None),
        ([], "--pipelines: is for schedules that prescribe warm-up counts, not free"),
    ],
)
def test_several_pipelines_of_a_problem_with_free_warm_ups(
    options: list[str],
    said: str | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """They are planned under the schedules that are searched in its place."""
    problem = tmp_path / "free.yaml"
    problem.write_text(
        "model: {preset: llama-7b, layers: 2}\n"
        "clusters: [{name: a, accelerator: A100-80GB, nodes: 1, devices_per_node: 2}]\n"
        "training: {global_batch: 2, seq_len: 4096, zero: 0, schedule: free-1f1b}\n"
    )
    asked = "--pipelines", "2", "--jobs", "1", "--time-limit", "5"
    code = main(["plan", str(problem), *asked, *options])
    error = capsys.readouterr().err
    assert (code, said is None or said in error) == (2 if said else 0, True)
