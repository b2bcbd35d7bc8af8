"""``hetopt formulate --formulation miqp`` writes the program with its products."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

from hetopt.cli import main


@pytest.mark.parametrize("name", ["model.lp", "model.mps"])
def test_another_solver_finds_the_reported_plan(
    planned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    result = json.loads((planned / "plan.json").read_text())
    pipeline = result["plan"]["pipelines"][0]
    out = tmp_path / name
    arguments = ["formulate", str(planned / "problem.yaml"), "--out", str(out)]
    arguments += ["--formulation", "miqp", "--p", str(len(pipeline["stages"]))]
    arguments += ["--q", str(pipeline["microbatches"])]
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"wrote {out}: ")
    unit = re.search(r"units of (\d+) nanoseconds", said)
    assert unit is not None
    text = out.read_text()
    assert "eq_P2(0)" in text

    if importlib.util.find_spec("pyscipopt") is None:
        pytest.skip("PySCIPOpt is not installed")
    from pyscipopt import Model  # pyright: ignore[reportMissingImports]

    scip = Model()
    scip.setParam("display/verblevel", 0)
    scip.setParam("numerics/feastol", 1e-7)
    scip.readProblem(str(out))
    scip.optimize()
    assert scip.getStatus() == "optimal"
    closed_form_s = scip.getObjVal() * int(unit[1]) * 1e-9
    assert closed_form_s == pytest.approx(result["closed_form_s"], rel=1e-8)


def test_the_ending_says_the_format(
    planned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["formulate", str(planned / "problem.yaml"), "--p", "1", "--q", "1"]
    out = str(tmp_path / "model.proto")
    assert main([*arguments, "--formulation", "miqp", "--out", out]) == 2
    assert "does not end in .lp or .mps" in capsys.readouterr().err
