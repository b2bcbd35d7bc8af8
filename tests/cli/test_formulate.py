"""``hetopt formulate`` writes a program whose optimum the race finds too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from google.protobuf import text_format
from ortools.sat import cp_model_pb2
from ortools.sat.python import cp_model

from hetopt.cli import main


@pytest.mark.parametrize("name", ["model.proto", "model.pbtxt"])
def test_the_program_of_the_reported_plan(
    planned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    result = json.loads((planned / "plan.json").read_text())
    pipeline = result["plan"]["pipelines"][0]
    out = tmp_path / name
    arguments = ["formulate", str(planned / "problem.yaml"), "--out", str(out)]
    arguments += ["--p", str(len(pipeline["stages"]))]
    arguments += ["--q", str(pipeline["microbatches"])]
    assert main(arguments) == 0
    assert f"wrote {out}: " in capsys.readouterr().out

    proto = cp_model_pb2.CpModelProto()
    if name.endswith("txt"):
        text_format.Parse(out.read_text(), proto)
    else:
        proto.ParseFromString(out.read_bytes())
    model = cp_model.CpModel()
    model.Proto().CopyFrom(proto)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.solve(model)
    assert solver.status_name() == "OPTIMAL"
    closed_form_ps = result["closed_form_s"] * 1e12
    assert solver.objective_value == pytest.approx(closed_form_ps, rel=1e-8)
