"""Collectives between two processes, and the file that they are written to."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

torch = pytest.importorskip("torch")

import hetopt
from hetopt.base.record import read
from hetopt.cli import main
from hetopt.problem.cluster.accelerator import Link
from hetopt.problem.files import NO_FILES
from hetopt.profile.collectives import collectives_text
from tests.profile.collective_rows import NAMES, row

pytestmark = pytest.mark.torch


def test_the_file_says_what_it_holds() -> None:
    rows = [row("send-recv", 2, size, 1e-4) for size in (1, 10)]
    found = ["send-recv: latency 1 us"]
    text = collectives_text({"schema": "x", "device": "a\nb"}, found, rows)
    lines = text.splitlines()
    assert lines[:2] == ["# schema: x", "# device: a b"]
    assert lines[2] == "# send-recv: latency 1 us"
    assert lines[3].startswith("collective,ranks,total_bytes,seconds,")
    assert len(lines) == 6


def test_one_process_is_not_enough(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("RANK", raising=False)
    path = tmp_path / "c.csv"
    assert main(["profile", "--collectives", "--out", str(path)]) == 2
    err = capsys.readouterr().err
    assert "torchrun --nproc-per-node N" in err
    assert err.count("\n") == 1
    assert not path.exists()


def test_two_processes(tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    command = ["profile", "--collectives", "--device", "cpu", "--out", str(path)]
    done = subprocess.run(
        [*torchrun, *meeting, "-m", "hetopt", *command],
        capture_output=True,
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(Path(hetopt.__file__).parent.parent),
        },
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"wrote {path}") == 1
    lines = path.read_text().splitlines()
    header = [line for line in lines if line.startswith("#")]
    (told,) = [line for line in header if line.startswith("# in a problem: ")]
    assert told.removeprefix("# ") in done.stdout
    link = yaml.safe_load(told.removeprefix("# in a problem: "))["intra_node"]
    assert read(Link, link, NO_FILES).latency_s >= 0
    assert header[0] == "# schema: hetopt-collectives/1"
    assert "# ranks: 2, 2 per node" in header
    # CPU time would leave out what they wait for each other.
    assert any(line.endswith(", 1 thread") for line in header)
    assert "# backend: gloo" in header
    assert "# dtype: bf16" in header
    # Waiting for others takes no time of the CPU's own.
    assert not any("(CPU time)" in line for line in header)
    rows = list(csv.DictReader(lines[len(header) :]))
    assert {item["collective"] for item in rows} == set(NAMES)
    for item in rows:
        assert float(item["seconds"]) > 0
        assert float(item["bus_bytes_per_s"]) > 0
    sizes = {int(item["total_bytes"]) for item in rows}
    assert len(sizes) >= 5
