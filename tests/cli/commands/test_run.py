"""``hetopt run``: what is refused before anything is started."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import pytest

from hetopt.cli import main
from hetopt.running import devices


@pytest.fixture
def folder(planned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with ``problem.yaml`` and ``plan.json``, the current one."""
    for name in ("problem.yaml", "plan.json"):
        shutil.copy(planned / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def torch_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hetopt.running.devices.ensure_torch", lambda: None)
    monkeypatch.setattr("hetopt.running.run.ensure_torch", lambda: None)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the one line that says why a command does not run."""
    capsys.readouterr()
    try:
        code = main(["run", *arguments])
    except SystemExit as stop:
        code = int(str(stop.code))
    assert code == 2
    said = capsys.readouterr()
    assert not said.out
    (line,) = said.err.splitlines()
    assert not Path("measured.json").exists()
    return line


def test_without_pytorch_the_remedy_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for arguments in (["problem.yaml", "plan.json"], ["out"]):
        line = refused(capsys, *arguments)
        assert line == (
            "running needs PyTorch: pip install '.[profile]' in hetopt's source"
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["problem.yaml"], "problem.yaml: is no folder: name a bundle alone"),
        (["nowhere"], "nowhere: is no folder"),
        (["empty"], "empty: is no bundle that `hetopt export --to torch` wrote"),
        (["empty", "--out", "x"], "--out: is for a problem and its plan"),
        (["empty", "--svg", "x.svg"], "--svg: is for a problem and its plan"),
        (["empty", "--trace", "x.json"], "--trace: is for a problem and its plan"),
        (["empty", "--table", "t.json"], "--table: is for a problem and its plan"),
        (["problem.yaml", "none.json"], "none.json: no such file"),
        (["problem.yaml", "plan.json", "--iterations", "0"], "--iterations"),
        (["problem.yaml", "plan.json", "--out", "full"], "full: is not empty"),
        (["problem.yaml", "plan.json", "--measured", "empty"], "is a folder"),
        (
            ["problem.yaml", "plan.json", "--measured", "plan.json"],
            "would replace plan.json",
        ),
        (
            ["problem.yaml", "plan.json", "--svg", "a", "--trace", "a"],
            "is also a, another file to write",
        ),
        (
            ["problem.yaml", "plan.json", "--units", "mine.py"],
            "--units: is 'mine.py', expected FILE.py:FUNCTION",
        ),
        (
            ["problem.yaml", "plan.json", "--data", "none.py:batch"],
            "--data: is 'none.py:batch', expected FILE.py:FUNCTION",
        ),
    ],
)
@pytest.mark.usefixtures("torch_is_there")
def test_what_cannot_be_run(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    (folder / "empty").mkdir()
    (folder / "full").mkdir()
    (folder / "full" / "kept").write_text("")
    assert message in refused(capsys, *arguments)


@pytest.mark.usefixtures("torch_is_there")
def test_a_bundle_of_before_says_what_to_do(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export = ["export", "problem.yaml", "plan.json", "--to", "torch", "--out", "out"]
    assert main(export) == 0
    path = folder / "out" / "job.json"
    job = json.loads(path.read_text())
    assert len(job.pop("plan_digest")) == 64
    path.write_text(json.dumps(job))
    line = refused(capsys, "out")
    assert line == "out/job.json: plan_digest: is missing: export the plan again"


def test_too_few_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cuda:
        @staticmethod
        def device_count() -> int:
            return 3

    class Torch:
        cuda = Cuda

    monkeypatch.setitem(__import__("sys").modules, "torch", Torch)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6,7")
    with pytest.raises(Exception, match="the plan has 4 ranks, and this machine 3"):
        devices.devices_of([2, 2])
    first, second = devices.devices_of([2, 1])
    assert first["CUDA_VISIBLE_DEVICES"] == "4,6"
    assert second["CUDA_VISIBLE_DEVICES"] == "7"
    monkeypatch.setattr(Cuda, "device_count", staticmethod(lambda: 0))
    assert devices.devices_of([1])[0]["CUDA_VISIBLE_DEVICES"] == "-1"
