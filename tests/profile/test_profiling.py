"""``hetopt profile`` as a user runs it, on this machine's CPU."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import hetopt
from hetopt.cli import main
from hetopt.cost.profiles.file import read_profile
from hetopt.cost.profiles.units import shard_key
from hetopt.cost.shard_shape import UNITS
from tests.processes import heed

pytestmark = pytest.mark.torch

SMALL = [
    "profile", "--quick", "--device", "cpu", "--threads", "1", "--hidden", "64",
    "--heads", "4", "--kv-heads", "2", "--vocab", "64", "--degrees", "1x1,2x2",
]  # fmt: skip
TINY = [*SMALL, "--seq-len", "32", "--microbatch", "1,2"]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(hetopt.__file__).parent.parent)}


def test_a_profile_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "p.csv")
    assert main([*TINY, "--out", path, "--layers", "llama,gpt"]) == 0
    out, err = capsys.readouterr()
    profile = read_profile(path)
    assert out.startswith(f"{path}: {len(profile.rows)} shards measured; median spread")
    assert err == ""
    assert {row.unit for row in profile.rows} == set(UNITS)
    assert {row.gated for row in profile.rows} == {True, False}
    assert {(row.cp, row.tp) for row in profile.rows} == {(1, 1), (2, 2)}
    assert {row.dtype for row in profile.rows} == {"bf16"}
    assert profile.header["kind"] == "measured"
    line, rates = out.splitlines()[1:]
    needs = "of accelerator CPU, training.precision bf16"
    assert line == f"in a problem: latency: {{CLUSTER: {path}}}  # {needs}"
    assert rates.startswith("in a problem: accelerator: {name: CPU, peak_flops: {bf16")

    assert main([*TINY, "--out", path]) == 0
    assert capsys.readouterr().out.startswith(f"{path}: 0 shards measured; ")
    assert read_profile(path).rows == profile.rows


@pytest.mark.parametrize(
    ("text", "threads"), [(None, "1 thread (CPU time)"), ("2", "2 threads")]
)
def test_threads_are_those_of_ranks(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str | None,
    threads: str,
) -> None:
    """The environment's, else one; the file says how many."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if text is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", text)
    path = str(tmp_path / "p.csv")
    few = [each for each in TINY if each not in ("--threads", "1")]
    assert main([*few, "--units", "embedding", "--out", path]) == 0
    assert read_profile(path).header["device"].endswith(f", {threads}")


def test_threads_that_are_no_number(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "all")
    few = [each for each in TINY if each not in ("--threads", "1")]
    assert main(few) == 2
    assert capsys.readouterr().err == (
        "OMP_NUM_THREADS: is 'all', expected a whole number above 0\n"
    )


def test_a_grid_without_shapes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TINY, "--heads", "5", "--out", "p.csv"]) == 2
    assert "no shape is left" in capsys.readouterr().err


def _interrupted(command: list[str], path: Path) -> str:
    """Interrupt a command that has measured something; return what it says."""
    with subprocess.Popen(
        command,
        env=environment(),
        preexec_fn=heed,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        until = time.monotonic() + 120
        while not (path.exists() and path.read_bytes().count(b",ok\n") >= 3):
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert err == ""
    return out


@pytest.mark.skipif(os.name == "nt", reason="no signals")
def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    command = [sys.executable, "-m", "hetopt", *SMALL, "--out", str(path)]
    for _ in range(5):
        out = _interrupted(command, path)
        if "to go" in out:
            break
        path.unlink()  # it was done before the signal came
    assert "to go: the same command continues" in out
    before = read_profile(str(path)).rows
    assert len(before) >= 3

    done = subprocess.run(
        command, capture_output=True, env=environment(), text=True, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "to go" not in done.stdout
    rows = read_profile(str(path)).rows
    assert rows[: len(before)] == before
    assert len({shard_key(row) for row in rows}) == len(rows) > len(before)
