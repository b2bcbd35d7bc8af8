"""``hetopt run`` starts real programs, measures them, and ends them all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.processes import heed

pytestmark = pytest.mark.torch

PROBLEM = """\
model: {layers: 3, hidden: 64, heads: 4, ffn: 176, vocab: 128}
clusters:
  - {name: one, accelerator: A40, nodes: 1, devices_per_node: 1,
     inter_node: {bandwidth: 100 Gbps, latency: 5 us}}
  - {name: two, accelerator: A40, nodes: 1, devices_per_node: 2,
     inter_node: {bandwidth: 100 Gbps, latency: 5 us}}
links: {default: {bandwidth: 10 Gbps, latency: 1 ms, staged: host}}
training: {global_batch: 8, seq_len: 64, precision: fp32, recompute: none}
pin: {stages: 2, microbatches: 4, clusters: {two: {tp: 2}}}
"""

#: Data of which a step is missing on one rank.
DATA = """
import os
import torch


def batch(step, job):
    if step == 2 and os.environ["RANK"] == "1":
        raise FileNotFoundError("no shard 2")
    return torch.zeros(job.global_batch, job.seq_len + 1, dtype=torch.int64)


def endless(step, job):
    print("step", step, flush=True)
    return torch.zeros(job.global_batch, job.seq_len + 1, dtype=torch.int64)
"""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "hetopt", *arguments]


def variables() -> dict[str, str]:
    root = str(Path(__file__).parents[2])
    own = {**os.environ, "PYTHONPATH": root, "CUDA_VISIBLE_DEVICES": ""}
    own.pop("OMP_NUM_THREADS", None)
    return own


def hetopt(
    folder: Path, *arguments: str, **more: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        cwd=folder,
        env={**variables(), **more},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a problem, its plan, and data."""
    made = tmp_path_factory.mktemp("run")
    (made / "problem.yaml").write_text(PROBLEM)
    (made / "data.py").write_text(DATA)
    done = hetopt(made, "plan", "problem.yaml", "--out", "plan.json", "--jobs", "1")
    assert done.returncode == 0, done.stderr
    return made


def test_a_plan_runs_and_calibrates(folder: Path) -> None:
    pictures = ["--svg", "run.svg", "--trace", "run.json"]
    kept = ["--out", "out", "--iterations", "2", "--measured", "m.json"]
    done = hetopt(folder, "run", "problem.yaml", "plan.json", *kept, *pictures)
    assert done.returncode == 0, done.stderr
    assert "forward s measured" in done.stdout
    assert "difference by none of these" in done.stdout
    data = json.loads((folder / "m.json").read_text())
    assert len(data["iteration_s"]) == len(data["loss"]) == 2
    assert data["memory"] == "activations"
    assert len(data["stages"]) == 2
    for stage in data["stages"]:
        assert 0 < stage["forward_s"] < data["iteration_s"][0]
        assert stage["peak_bytes"] > 0
    assert data["boundaries_s"][0] > 0
    # One thread, also in the stage of one rank, whose torchrun would not limit it.
    conditions = data["conditions"]
    assert conditions["threads"] == 1
    assert len(conditions["cpu_shares"]) == 3
    assert all(0 < share < 1.5 for share in conditions["cpu_shares"])
    for said in ("threads per rank", " 1\n", "load", "CPU time over wall time"):
        assert said in done.stdout
    assert ("run again on a quiet machine" in done.stdout) == bool(data["noise"])
    # What autograd kept is what the plan counts, within a tenth.
    rows = [line.split() for line in done.stdout.splitlines() if "  two  " in line]
    assert float(rows[0][-1]) == pytest.approx(float(rows[0][-2]), rel=0.1)
    events = json.loads((folder / "run.json").read_text())["traceEvents"]
    kinds = [each["cat"] for each in events if each["ph"] == "X"]
    assert {*kinds} == {"modelled", "measured"}
    assert "Lower half: measured times." in (folder / "run.svg").read_text()

    # The bundle runs alone, and both runs calibrate.
    alone = ["run", "out", "--iterations", "1", "--measured", "d.json"]
    done = hetopt(folder, *alone, OMP_NUM_THREADS="2")
    assert done.returncode == 0, done.stderr
    assert "simulated with measured durations" in done.stdout
    second = json.loads((folder / "d.json").read_text())
    assert second["plan_digest"] == data["plan_digest"]
    assert second["conditions"]["threads"] == 2
    runs = ["--run", "plan.json=m.json", "--run", "plan.json=d.json", "--force"]
    done = hetopt(folder, "calibrate", "problem.yaml", *runs)
    assert done.returncode == 0, done.stderr
    assert "run 2: " in done.stdout


def planned_and_run(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Plan a problem and run its plan, with all that a run can write."""
    (folder / "problem.yaml").write_text(text)
    done = hetopt(folder, "plan", "problem.yaml", "--out", "plan.json", "--jobs", "1")
    assert done.returncode == 0, done.stderr
    kept = ["--out", "out", "--iterations", "1", "--measured", "m.json"]
    pictures = ["--svg", "run.svg", "--trace", "run.json"]
    done = hetopt(folder, "run", "problem.yaml", "plan.json", *kept, *pictures)
    assert done.returncode == 0, done.stderr
    return done


def test_stages_of_several_chunks_are_measured(tmp_path: Path) -> None:
    text = PROBLEM.replace("layers: 3", "layers: 8").replace(
        "recompute: none", "recompute: none, schedule: interleaved-1f1b, chunks: 2"
    )
    done = planned_and_run(tmp_path, text)
    data = json.loads((tmp_path / "m.json").read_text())
    assert data["chunks"]["count"] == 2
    assert data["chunks"]["way_back_s"] > 0
    # What autograd kept is what the plan counts, embedding and head among it.
    lines = done.stdout.splitlines()
    rows = [line.split() for line in lines if "  two  " in line or "  one  " in line]
    for row in rows:
        assert float(row[-1]) == pytest.approx(float(row[-2]), rel=0.1)
    assert any(line.split()[:3] == ["1", "to", "0"] for line in lines)
    assert "Numbers are chunk:micro-batch" in (tmp_path / "run.svg").read_text()
    done = hetopt(tmp_path, "run", "out", "--iterations", "1")
    assert done.returncode == 0, done.stderr
    done = hetopt(tmp_path, "import", "problem.yaml", "out", "--out", "read.json")
    assert done.returncode == 0, done.stderr
    plans = [
        json.loads((tmp_path / name).read_text())["plan"]["pipelines"]
        for name in ("plan.json", "read.json")
    ]
    assert plans[0] == plans[1]


def test_chunks_that_differ_are_measured(tmp_path: Path) -> None:
    chunked = "recompute: none, schedule: interleaved-1f1b, chunks: 3"
    text = PROBLEM.replace("layers: 3", "layers: 6").replace("recompute: none", chunked)
    # The embedding alone, an empty chunk, and the head alone.
    text = text.replace("stages: 2,", "stages: 2, cuts: [1, 3, 3, 6, 7, 8],")
    done = planned_and_run(tmp_path, text)
    data = json.loads((tmp_path / "m.json").read_text())
    by_chunk = [stage["by_chunk_s"] for stage in data["stages"]]
    assert [len(own) for own in by_chunk] == [3, 3]
    # Nothing but the time that it takes to look at a clock.
    assert max(by_chunk[0][1]) < 1e-4 < min(by_chunk[1][1])
    head = ["stage", "chunk", "forward", "s", "planned"]
    lines = [line.split() for line in done.stdout.splitlines()]
    (first,) = [number for number, line in enumerate(lines) if line[:5] == head]
    assert [line[:2] for line in lines[first + 2 : first + 8]] == [
        [str(stage), str(chunk)] for stage in range(2) for chunk in range(3)
    ]
    assert lines[first + 3][2:] == ["0.0000"] * 4
    # What autograd kept is what the plan counts.
    rows = [line for line in lines if line[1:2] in (["one"], ["two"])]
    assert len(rows) == 2
    for row in rows:
        assert float(row[-1]) == pytest.approx(float(row[-2]), rel=0.1)
    done = hetopt(tmp_path, "run", "out", "--iterations", "1")
    assert done.returncode == 0, done.stderr
    done = hetopt(tmp_path, "import", "problem.yaml", "out", "--out", "read.json")
    assert done.returncode == 0, done.stderr
    plans = [
        json.loads((tmp_path / name).read_text())["plan"]
        for name in ("plan.json", "read.json")
    ]
    for key in ("schedule", "chunks", "cuts", "pipelines"):
        assert plans[0][key] == plans[1][key]
    done = hetopt(
        tmp_path, "calibrate", "problem.yaml", "--run", "plan.json=m.json", "--force"
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("schedule", ["zb-h1", "zb-v"])
def test_gradients_of_weights_apart_are_measured(schedule: str, tmp_path: Path) -> None:
    text = PROBLEM.replace("layers: 3", "layers: 8").replace(
        "recompute: none", f"recompute: none, schedule: {schedule}"
    )
    done = planned_and_run(tmp_path, text)
    for stage in json.loads((tmp_path / "m.json").read_text())["stages"]:
        assert 0 < stage["weight_s"] < stage["backward_s"]
        assert ("first_chunk_s" in stage) == (schedule == "zb-v")
    # What autograd kept is what the plan counts, what waits for W among it. With tp 2
    # more waits for W than for B, and the plan takes the larger for all in flight.
    lines = done.stdout.splitlines()
    rows = [line.split() for line in lines if "  two  " in line or "  one  " in line]
    assert len(rows) == 2
    for row in rows:
        assert 0.8 < float(row[-1]) / float(row[-2]) < 1.1
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    weights = [each for each in events if each["name"].startswith("weight")]
    assert {each["cat"] for each in weights} == {"modelled", "measured"}
    done = hetopt(tmp_path, "run", "out", "--iterations", "1")
    assert done.returncode == 0, done.stderr


def test_a_rank_that_dies_says_so_first(folder: Path) -> None:
    own = ["--data", "data.py:batch", "--measured", "dead.json"]
    done = hetopt(folder, "run", "problem.yaml", "plan.json", *own)
    assert done.returncode == 3
    said = done.stderr.splitlines()
    assert said[0] == "rank 1: FileNotFoundError: no shard 2"
    assert said[-1] == "stopped: rank 1 failed, and all ended"
    assert not (folder / "dead.json").exists()
    assert not left(folder)


def left(folder: Path) -> list[str]:
    """Return the command lines of processes that know a folder's data."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(folder / "data.py") in words:
            found.append(words)
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_no_rank(folder: Path, number: int) -> None:
    own = ["--data", "data.py:endless", "--iterations", "100000"]
    process = subprocess.Popen(
        command("run", "problem.yaml", "plan.json", *own, "--measured", "no.json"),
        cwd=folder,
        env=variables(),
        preexec_fn=heed,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # Three ranks below two torchruns.
    deadline = time.monotonic() + 120
    while len(left(folder)) < 5 and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.2)
    time.sleep(2)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 3
    assert said == "stopped: interrupted\n"
    assert not left(folder)
    assert not (folder / "no.json").exists()
