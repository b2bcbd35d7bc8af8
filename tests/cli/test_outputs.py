"""A plan is never lost to what cannot be written, nor an input to what can."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hetopt.base.line_file import LineFile
from hetopt.cli import main
from hetopt.errors import InputError
from tests.cli.conftest import RunHetopt

#: Too large for its devices: there is no plan.
TOO_LARGE = ("hidden: 1024", "hidden: 65536")


@pytest.fixture
def folder(planned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with ``problem.yaml``, its plan, and ``none.yaml`` with none."""
    for name in ("problem.yaml", "plan.json"):
        shutil.copy(planned / name, tmp_path)
    text = (planned / "problem.yaml").read_text()
    (tmp_path / "none.yaml").write_text(text.replace(*TOO_LARGE))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that must end with 2, at once; return its one line."""
    capsys.readouterr()
    assert main(list(arguments)) == 2
    printed, said = capsys.readouterr()
    assert printed == ""
    assert said.count("\n") == 1
    return said


@pytest.mark.parametrize("flag", ["--out", "--certificate"])
def test_a_full_disk_loses_no_plan(
    folder: Path, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    code = main(["plan", "problem.yaml", "--jobs", "1", flag, "/dev/full"])
    printed, said = capsys.readouterr()
    assert code == 2
    assert "proven optimal" in printed
    assert said == "/dev/full: cannot be written: No space left on device\n"


def test_one_file_that_fails_keeps_no_other_from_being_written(
    folder: Path, environment: dict[str, str]
) -> None:
    """Standard output is full; what it was to show is in the files."""
    command = [sys.executable, "-m", "hetopt", "plan", "problem.yaml", "--jobs", "1"]

    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            [*command, "--out", "best.json", "--certificate", "proof.json"],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment,
            check=False,
            text=True,
        )
    assert done.returncode == 2
    assert done.stderr.startswith("standard output: cannot be written")
    assert json.loads(Path("best.json").read_text())["plan"] is not None
    assert Path("proof.json").exists()


def test_a_journal_that_cannot_grow_loses_no_plan(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = LineFile.append

    def fail(file: LineFile, entry: object) -> None:
        real(file, entry)
        if not (isinstance(entry, dict) and "schema" in entry):
            file.failure = InputError("cannot be written: full", file=file.path)

    monkeypatch.setattr(LineFile, "append", fail)
    options = ["--solver", "cp-sat", "--jobs", "1", "--journal", "run.jsonl"]
    assert main(["plan", "problem.yaml", *options, "--out", "new.json"]) == 2
    printed, said = capsys.readouterr()
    assert "proven optimal" in printed
    assert said == "run.jsonl: cannot be written: full\n"
    assert json.loads(Path("new.json").read_text())["plan"] is not None


def test_no_plan_replaces_no_plan(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = Path("plan.json").read_bytes()
    assert main(["plan", "none.yaml", "--jobs", "1", "--out", "plan.json"]) == 1
    assert Path("plan.json").read_bytes() == before
    said = capsys.readouterr().err
    assert said.startswith("plan.json: kept: it holds a plan")
    # What holds none is replaced, and a plan replaces a plan.
    Path("other.json").write_text("{}")
    assert main(["plan", "none.yaml", "--jobs", "1", "--out", "other.json"]) == 1
    assert json.loads(Path("other.json").read_text())["status"] == "infeasible"
    assert main(["plan", "problem.yaml", "--jobs", "1", "--out", "other.json"]) == 0
    assert json.loads(Path("other.json").read_text())["plan"] is not None


@pytest.mark.parametrize("how", ["same", "relative", "link", "hard link"])
@pytest.mark.parametrize("flag", ["--out", "--certificate", "--journal"])
def test_the_problem_is_not_overwritten(
    folder: Path, flag: str, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = Path("problem.yaml").read_bytes()
    name = {"same": "problem.yaml", "relative": f"../{folder.name}/problem.yaml"}.get(
        how, "alias"
    )
    if how == "link":
        Path("alias").symlink_to("problem.yaml")
    elif how == "hard link":
        os.link("problem.yaml", "alias")
    said = refused(capsys, "plan", "problem.yaml", flag, name)
    assert (
        said
        == f"{name}: would replace problem.yaml, which is read: name another file\n"
    )
    assert Path("problem.yaml").read_bytes() == before


def test_outputs_differ(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("--out", "a.json", "--certificate", "./a.json")
    assert "./a.json: is also a.json" in refused(capsys, "plan", "problem.yaml", *names)
    assert not Path("a.json").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "problem.yaml", "--table", "other"),
        ("table", "problem.yaml"),
        ("formulate", "problem.yaml", "--p", "1", "--q", "1", "--table", "other"),
        ("calibrate", "problem.yaml", "other", "--measured", "1 s"),
        ("inventory", "other"),
        ("import", "problem.yaml", "files"),
        (
            *("convert-profile", "files", "--from", "metis", "--accelerator", "A40"),
            *("--problem", "problem.yaml"),
        ),
    ],
)
def test_no_command_writes_what_it_reads(
    folder: Path, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither what it is given nor what the problem names."""
    Path("files").mkdir()
    for name in ("other", "files/train.sh", "calibration.yaml"):
        Path(name).write_text("bandwidth: 1\n")
    with Path("problem.yaml").open("a") as problem:
        problem.write("calibration: calibration.yaml\n")
    ending = ".pbtxt" if arguments[0] == "formulate" else ""
    inputs: list[str] = [
        name for name in ("other", "problem.yaml") if name in arguments
    ]
    if "files" in arguments:
        inputs.append("files/train.sh")
    if "problem.yaml" in arguments:
        inputs.append("calibration.yaml")
    for number, name in enumerate(inputs):
        alias = f"alias{number}{ending}"
        os.link(name, alias)
        said = refused(capsys, *arguments, "--out", alias)
        assert "which is read: name another file" in said
        assert said.startswith(f"{alias}: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("table", "problem.yaml"),
        ("inventory", "hosts"),
        ("calibrate", "problem.yaml", "problem.yaml", "--measured", "1 s"),
    ],
)
def test_what_is_no_plan_replaces_none(
    folder: Path, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    before = Path("plan.json").read_bytes()
    said = refused(capsys, *arguments, "--out", "plan.json")
    assert said.startswith("plan.json: holds a plan and is not replaced")
    assert Path("plan.json").read_bytes() == before


def test_compare_writes_over_no_problem(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("compare.md").write_bytes(Path("problem.yaml").read_bytes())
    said = refused(capsys, "compare", "compare.md", "--out", ".")
    assert "would replace compare.md, which is read" in said


def test_a_name_that_no_file_can_have_is_refused_first(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "x" * 5000
    said = refused(capsys, "plan", "problem.yaml", "--out", name)
    assert "cannot be written: File name too long" in said
    name = "x" * 250
    assert main(["plan", "problem.yaml", "--jobs", "1", "--out", name]) == 0


def test_a_journal_does_not_cut_off_what_is_none(
    folder: Path, run_hetopt: RunHetopt
) -> None:
    """A last line without its end is cut off in a journal, and nowhere else."""
    for text in ("a,b\n1,2", "{}", '{"a": 1}\nlast'):
        Path("notes").write_text(text)
        done = run_hetopt(
            *("plan", "problem.yaml", "--solver", "dp", "--journal", "notes"),
            cwd=folder,
        )
        assert done.returncode == 2
        assert "notes" in done.stderr
        assert Path("notes").read_text() == text
