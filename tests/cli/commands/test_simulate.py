"""``hetopt simulate``: one iteration, in words and as JSON."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from hetopt.cli import main
from hetopt.report.schemas import SCHEMAS
from tests.schemas import ensure_fits


def test_json_says_what_the_report_says(
    planned: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(planned)
    assert main(["simulate", "problem.yaml", "plan.json", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(SCHEMAS["simulation"])
    ensure_fits(data, "simulation")
    result = json.loads(Path("plan.json").read_text("utf-8"))
    assert data["problem_digest"] == result["plan"]["problem_digest"]
    assert data["iteration_time_s"] == pytest.approx(result["iteration_time_s"])
    assert data["closed_form_s"] == pytest.approx(result["closed_form_s"])
    (pipeline,) = result["plan"]["pipelines"]
    assert [stage["cluster"] for stage in data["stages"]] == [
        stage["cluster"] for stage in pipeline["stages"]
    ]
    for stage in data["stages"]:
        assert 0 <= stage["first_forward_s"] < stage["last_backward_s"]
        assert stage["busy_s"] + stage["idle_share"] * data["iteration_time_s"] == (
            pytest.approx(data["iteration_time_s"])
        )
    path = data["critical_path"]
    assert sum(path["duration_s"].values()) == pytest.approx(data["iteration_time_s"])

    assert main(["simulate", "problem.yaml", "plan.json"]) == 0
    text = capsys.readouterr().out
    assert f"{data['iteration_time_s']:.6f} s" in text
    assert f"{path['events']} events: " in text
    for kind, time_s in path["duration_s"].items():
        assert f"{kind} {time_s:.4f} s" in text


@pytest.fixture
def folder(planned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with ``problem.yaml`` and ``plan.json``, the current one."""
    for name in ("problem.yaml", "plan.json"):
        shutil.copy(planned / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_picture_and_trace(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["simulate", "problem.yaml", "plan.json"]
    assert main([*command, "--svg", "a.svg", "--trace", "a.json"]) == 0
    printed = capsys.readouterr().out
    assert printed.splitlines()[-1] == "wrote a.svg, a.json"
    assert main([*command, "--json", "--svg", "b.svg", "--trace", "b.json"]) == 0
    run = json.loads(capsys.readouterr().out)
    for one, other in (("a.svg", "b.svg"), ("a.json", "b.json")):
        assert Path(one).read_bytes() == Path(other).read_bytes()
    title = ElementTree.parse("a.svg").getroot()[0].text
    assert title == f"problem: {run['iteration_time_s']:.4g} s per iteration, modelled"
    trace = json.loads(Path("a.json").read_text("utf-8"))
    assert trace["otherData"]["problem_digest"] == run["problem_digest"]
    assert trace["otherData"]["modelled_iteration_time_s"] == pytest.approx(
        run["iteration_time_s"]
    )
    forward = [
        each
        for each in trace["traceEvents"]
        if each["ph"] == "X" and each["name"].startswith("forward")
    ]
    plan = json.loads(Path("plan.json").read_text("utf-8"))["plan"]
    (pipeline,) = plan["pipelines"]
    assert len(forward) == len(pipeline["stages"]) * pipeline["microbatches"]
    # Either one alone.
    assert main([*command, "--svg", "c.svg"]) == 0
    assert main([*command, "--trace", "c.json"]) == 0
    assert Path("c.svg").read_bytes() == Path("a.svg").read_bytes()
    assert Path("c.json").read_bytes() == Path("a.json").read_bytes()


@pytest.mark.parametrize("flag", ["--svg", "--trace"])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("problem.yaml", "would replace problem.yaml, which is read"),
        ("plan.json", "would replace plan.json, which is read"),
        ("table.json", "would replace table.json, which is read"),
        ("other.json", "holds a plan and is not replaced"),
        ("none/a.svg", "its folder does not exist"),
        (".", "is a folder, expected a file name"),
    ],
)
def test_what_is_not_written_over(
    flag: str,
    name: str,
    said: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["table", "problem.yaml", "--out", "table.json"]) == 0
    shutil.copy("plan.json", "other.json")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    capsys.readouterr()
    command = ["simulate", "problem.yaml", "plan.json", "--table", "table.json"]
    assert main([*command, flag, name]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"{name}: {said}")
    assert told.err.count("\n") == 1
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_picture_and_trace_are_two_files(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["simulate", "problem.yaml", "plan.json"]
    assert main([*command, "--svg", "a", "--trace", "./a"]) == 2
    assert "./a: is also a, another file to write" in capsys.readouterr().err
    assert not Path("a").exists()


def test_a_full_disk_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    for flag in ("--svg", "--trace"):
        assert main(["simulate", "problem.yaml", "plan.json", flag, "/dev/full"]) == 2
        said = capsys.readouterr().err
        assert said == "/dev/full: cannot be written: No space left on device\n"
