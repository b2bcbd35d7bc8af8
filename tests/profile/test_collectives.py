"""Collectives between two processes, and what is read off their times."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import hetopt
from hetopt.cli import main
from hetopt.profile.collectives import (
    CollectiveRow,
    collectives_text,
    fit_link,
    steps,
    traffic_bytes,
)

pytestmark = pytest.mark.torch

NAMES = ("all-reduce", "all-gather", "reduce-scatter", "send-recv")


def row(collective: str, ranks: int, size: int, seconds: float) -> CollectiveRow:
    return CollectiveRow(
        collective=collective,
        ranks=ranks,
        total_bytes=size,
        seconds=seconds,
        spread_s=0.0,
        bus_bytes_per_s=traffic_bytes(collective, ranks, size) / seconds,
    )


@pytest.mark.parametrize("collective", NAMES)
@pytest.mark.parametrize("ranks", [2, 8])
def test_the_fit_finds_the_link(collective: str, ranks: int) -> None:
    rows = [
        row(
            collective,
            ranks,
            size,
            steps(collective, ranks) * 5e-6
            + traffic_bytes(collective, ranks, size) / 20e9,
        )
        for size in (4**power for power in range(6, 15))
    ]
    fit = fit_link(rows)
    assert fit.latency_s == pytest.approx(5e-6)
    assert fit.bandwidth_bytes_per_s == pytest.approx(20e9)
    assert fit.mean_error == pytest.approx(0, abs=1e-9)


def test_a_fit_is_never_negative() -> None:
    falling = [row("send-recv", 2, size, 1e-3 / size) for size in (1, 10, 100)]
    fit = fit_link(falling)
    assert fit.latency_s > 0
    assert fit.bandwidth_bytes_per_s is None
    proportional = [row("send-recv", 2, size, size**1.1) for size in (1, 10, 100)]
    fit = fit_link(proportional)
    assert fit.latency_s == 0
    assert fit.bandwidth_bytes_per_s is not None
    assert fit.bandwidth_bytes_per_s > 0
    assert fit_link(proportional[:1]).mean_error == pytest.approx(0)


def test_the_file_says_what_it_holds() -> None:
    rows = [row("send-recv", 2, size, 1e-4) for size in (1, 10)]
    text = collectives_text({"schema": "x", "device": "a\nb"}, rows)
    lines = text.splitlines()
    assert lines[:2] == ["# schema: x", "# device: a b"]
    assert lines[2].startswith("# fit send-recv: latency ")
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
    assert header[0] == "# schema: hetopt-collectives/1"
    assert "# ranks: 2, 2 per node" in header
    assert "# backend: gloo" in header
    rows = list(csv.DictReader(lines[len(header) :]))
    assert {item["collective"] for item in rows} == set(NAMES)
    for item in rows:
        assert float(item["seconds"]) > 0
        assert float(item["bus_bytes_per_s"]) > 0
    sizes = {int(item["total_bytes"]) for item in rows}
    assert len(sizes) >= 5
