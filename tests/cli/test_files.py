"""Every command says in one line what is wrong with a file that is none of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hetopt.base import reading
from hetopt.cli import main

PROBLEM = """\
model: {preset: llama-7b}
clusters: [{name: a, accelerator: A100-80GB, nodes: 1, devices_per_node: 8}]
training: {global_batch: 16, seq_len: 4096}
"""
COMMANDS = [
    "plan F",
    "plan p.yaml --table F",
    "check p.yaml F",
    "verify p.yaml F F",
    "simulate p.yaml F",
    "export p.yaml F --to torch --out x",
    "explain p.yaml F --mine scripts",
    "table F",
    "inventory F",
    "convert-profile F --from sailor --problem p.yaml --accelerator X --out o",
    "convert-profile metis --from metis --problem p.yaml --accelerator X --out o",
    "convert-profile F --from simumax --accelerator X --out o",
    "convert-profile vidur --from vidur --accelerator H100 --out o",
    "forest evaluate F",
    "calibrate p.yaml F --measured 1s --out c.yaml",
    "import p.yaml scripts --from megatron --out o",
    "import p.yaml yaml --from flagscale --out o",
    "import p.yaml yaml --from hetu --out o",
    "import p.yaml torch --from torch --out o",
    "table config.yaml",
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A problem, and folders in which every file is ``F``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reading, "_WRITER_S", 0.0)
    Path("p.yaml").write_text(PROBLEM)
    rest = PROBLEM.partition("\n")[2]
    Path("config.yaml").write_text(f"model: {{hf_config: F}}\n{rest}")
    for place in (
        "scripts/run.sh",
        "yaml/plan.yaml",
        "torch/job.json",
        "metis/DeviceType.A100_tp1_bs1.json",
        "vidur/mlp.csv",
    ):
        Path(place).parent.mkdir(exist_ok=True)
        Path(place).symlink_to("../F")
    return tmp_path


@pytest.mark.parametrize("kind", ["fifo", "folder", "device", "binary", "empty"])
@pytest.mark.parametrize("command", COMMANDS)
def test_files_of_no_use(
    command: str, kind: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "F"
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "device":
            path.symlink_to("/dev/zero")
        case "binary":
            path.write_bytes(bytes(range(256)) * 16)
        case "empty":
            path.touch()
    assert main(command.split()) == 2
    told = capsys.readouterr()
    assert not told.out
    assert len(told.err.splitlines()) == 1


def test_a_journal_is_no_other_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, content in (("notes", b"my notes"), ("lines", b"a\nb\n")):
        (folder / name).write_bytes(content)
        assert main(["plan", "p.yaml", "--journal", name]) == 2
        assert "is not a line of a journal" in capsys.readouterr().err
        assert (folder / name).read_bytes() == content
    os.mkfifo("pipe")
    assert main(["plan", "p.yaml", "--journal", "pipe"]) == 2
    assert "is an empty pipe" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["table", "a" * 5000], f"{'a' * 80}...: no such file, and no problem of"),
        (["table", "hetauto-exp4"], "(did you mean 'hetauto-exp"),
        (["plan", "p.yaml", "--solver", "cpsat"], "(did you mean 'cp-sat'?)"),
        (
            ["compare", "p.yaml", "--solvers", "cpsat", "--out", "o"],
            "(did you mean 'cp-sat'?)",
        ),
        (["plan", "p.yaml", "--for", "torchtitan"], "use torch)"),
        (["plan", "p.yaml", "--for", "megatronn"], "(did you mean 'megatron'?)"),
        (["export", "p.yaml", "x", "--to", "hexi", "--out", "o"], "'hexiscale'?)"),
    ],
)
def test_what_was_meant(
    command: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command) == 2
    told = capsys.readouterr().err
    assert said in told
    assert len(told.splitlines()) == 1


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, "0 entries, expected at least 1"), (5, "5 pipelines, expected 1 to 4")],
)
def test_plans_and_certificates_have_few_pipelines(
    count: int, expected: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = {
        **{"cluster": "a", "first_unit": 0, "end_unit": 34, "warmup": 1},
        **{"dp": 1, "cp": 1, "tp": 8, "recompute": "none"},
    }
    plan = {
        "schema": "hetopt-plan/1",
        "schedule": "virtual-1f1b",
        "problem_digest": "0" * 64,
        "table_digest": "0" * 64,
        "pipelines": [{"microbatches": 16, "stages": [stage]}] * count,
    }
    Path("plan.json").write_text(json.dumps(plan))
    for command in ("check p.yaml plan.json", "verify p.yaml plan.json plan.json"):
        assert main(command.split()) == 2
        said = f"plan.json: pipelines: has {expected}"
        assert capsys.readouterr().err.strip() == said
