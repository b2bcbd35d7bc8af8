"""``hetopt formulate`` writes a program whose optimum the race finds too."""

from __future__ import annotations

import json
import re
from pathlib import Path

import highspy
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


@pytest.mark.parametrize("formulation", ["intervals", "miqp"])
def test_a_file_that_cannot_be_written(
    small: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    formulation: str,
) -> None:
    """A disk that turns out to be full, say."""
    out = tmp_path / "gone" / "model.lp"
    monkeypatch.setattr("hetopt.cli.paths.ensure_writable", lambda path: None)
    arguments = ["formulate", str(small / "problem.yaml"), "--formulation", formulation]
    assert main([*arguments, "--p", "1", "--q", "4", "--out", str(out)]) == 2
    expected = f"{out}: cannot be written: No such file or directory\n"
    assert capsys.readouterr().err == expected


def test_half_a_file_is_noticed(
    small: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A library may not notice that the disk was full."""

    def write(_: object, path: str) -> tuple[int, int, int]:
        Path(path).write_text("min\n obj: 1 x")
        return 1, 0, 0

    monkeypatch.setattr(
        "hetopt.formulations.miqp.program.QuadraticProgram.write", write
    )
    out = tmp_path / "model.lp"
    arguments = ["formulate", str(small / "problem.yaml"), "--formulation", "miqp"]
    assert main([*arguments, "--p", "1", "--q", "4", "--out", str(out)]) == 2
    assert "model.lp: cannot be written: no space" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize("name", ["model.lp", "model.mps"])
def test_the_interval_program_of_the_reported_plan(
    planned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    result = json.loads((planned / "plan.json").read_text())
    pipeline = result["plan"]["pipelines"][0]
    out = tmp_path / name
    arguments = ["formulate", str(planned / "problem.yaml"), "--out", str(out)]
    arguments += ["--formulation", "intervals"]
    arguments += ["--p", str(len(pipeline["stages"]))]
    arguments += ["--q", str(pipeline["microbatches"])]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert f"wrote {out}: " in printed
    (unit_ns,) = re.findall(r"units of (\d+) nanoseconds", printed)
    text = out.read_text()
    assert "hosts(fast,d" in text
    assert "cover(0)" in text

    highs = highspy.Highs()
    highs.silent()
    highs.setOptionValue("presolve", "off")
    highs.setOptionValue("mip_rel_gap", 1e-9)
    assert highs.readModel(str(out)) != highspy.HighsStatus.kError
    highs.run()
    assert highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    objective = highs.getInfo().objective_function_value
    closed_form_ns = result["closed_form_s"] * 1e9
    assert objective * int(unit_ns) == pytest.approx(closed_form_ns, rel=1e-7)


@pytest.mark.parametrize(
    ("formulation", "name"), [("cp-sat", "model.lp"), ("intervals", "model.proto")]
)
def test_refuses_a_file_of_another_kind(
    small: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    formulation: str,
    name: str,
) -> None:
    arguments = ["formulate", str(small / "problem.yaml"), "--p", "1", "--q", "1"]
    arguments += ["--formulation", formulation, "--out", str(tmp_path / name)]
    assert main(arguments) == 2
    assert "the name does not end in" in capsys.readouterr().err
    assert not (tmp_path / name).exists()
