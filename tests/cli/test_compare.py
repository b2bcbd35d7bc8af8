"""``hetopt compare`` on a problem that is planned in a moment, and what it refuses."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import jsonschema
import pytest

from hetopt.cli import main
from hetopt.report.report_schemas import COMPARISON
from tests.cli.conftest import RunHetopt


@pytest.fixture(scope="module")
def compared(small: Path, run_hetopt: RunHetopt) -> tuple[Path, str]:
    """Return DIR, and what was printed, of a proof, a wider space and a refusal."""
    done = run_hetopt(
        *("compare", "problem.yaml", "--solvers", "cp-sat,dfs,uniap"),
        *("--time-limit", "60", "--jobs", "1", "--out", "new/folder"),
        cwd=small,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return small / "new" / "folder", done.stdout


def test_files(compared: tuple[Path, str]) -> None:
    folder, printed = compared
    assert {path.name for path in folder.iterdir()} == {
        f"compare.{ending}" for ending in ("csv", "json", "md", "png", "svg")
    }
    data = json.loads((folder / "compare.json").read_text("utf-8"))
    jsonschema.validate(data, COMPARISON)
    runs = data["problems"][0]["runs"]
    assert [(run["solver"], run["extra"], run["status"]) for run in runs] == [
        ("cp-sat", False, "optimal"),
        ("dfs", False, "feasible"),
        ("uniap", False, "failed"),
        # For what dfs need not keep.
        ("dp", True, "optimal"),
    ]
    assert runs[1]["relaxed"] == runs[3]["relaxed"] == ["p4-falling-tp"]
    assert "UniAP plans for one" in runs[2]["failure"]
    with (folder / "compare.csv").open(encoding="utf-8") as stream:
        assert [line["solver"] for line in csv.DictReader(stream)] == [
            run["solver"] for run in runs
        ]
    assert "dfs†" in printed
    assert "proven optimum" in printed
    assert "dfs†" in (folder / "compare.svg").read_text("utf-8")


def test_traces_fall_to_the_plan(compared: tuple[Path, str]) -> None:
    data = json.loads((compared[0] / "compare.json").read_text("utf-8"))
    for run in data["problems"][0]["runs"]:
        if run["plan"] is None:
            continue
        times = [time for time, _ in run["trace"]]
        values = [value for _, value in run["trace"]]
        assert times == sorted(times)
        assert values == sorted(set(values), reverse=True)
        assert values[-1] == run["closed_form_s"]
        assert times[-1] <= run["search_time_s"] <= run["process_time_s"]


def test_plans_pass_check(compared: tuple[Path, str], small: Path) -> None:
    folder, _ = compared
    data = json.loads((folder / "compare.json").read_text("utf-8"))
    plan = folder.parent / "plan.json"
    plan.write_text(json.dumps(data["problems"][0]["runs"][0]["plan"]))
    assert main(["check", str(small / "problem.yaml"), str(plan)]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["p.yaml", "--solvers", "abacus"], "--solvers: there is no solver 'abacus'"),
        (["p.yaml", "--solvers", ""], "--solvers: there is no solver ''"),
        (["p.yaml", "--solvers", "dp,dp"], "--solvers: dp is named twice"),
        (["p.yaml", "--seeds", "0"], "--seeds: '0' is not a whole number"),
        (["p.yaml", "--time-limit", "0"], "--time-limit: '0' is not a number"),
        (["p.yaml", "--relax", "p9"], "--relax: there is no 'p9'"),
        (["p.yaml", "p.yaml"], "PROBLEM: two problems are named"),
        (["missing.yaml"], "missing.yaml: no such file"),
        (["p.yaml", "--out", "p.yaml/x"], "p.yaml/x: cannot be made: "),
        ([], "the following arguments are required: PROBLEM"),
    ],
)
def test_refusals_are_one_line(
    arguments: list[str],
    message: str,
    small: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copy(small / "problem.yaml", tmp_path / "p.yaml")
    monkeypatch.chdir(tmp_path)
    code: object
    try:
        code = main(["compare", "--out", "out", *arguments])
    except SystemExit as error:
        code = error.code
    assert code == 2
    error_text = capsys.readouterr().err
    assert message in error_text
    assert len(error_text.splitlines()) == 1
    assert not Path("out").exists()
