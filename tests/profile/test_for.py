"""``hetopt profile --for``: exactly the shapes that problems need."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from hetopt.cli import main
from hetopt.cost.build import build_table
from hetopt.cost.profiles.file import read_profile
from hetopt.cost.sources import evaluation
from hetopt.problem.reading import read_problem

pytestmark = pytest.mark.torch

PROBLEM = """\
model: {layers: 2, hidden: 64, heads: 4, kv_heads: 2, ffn: 192, vocab: 99}
clusters:
  - name: here
    nodes: 1
    devices_per_node: 2
    inter_node: {bandwidth: 100 Gbps, latency: 5 us}
    accelerator: {name: CPU, peak_flops: {fp32: 1 TFLOPS, bf16: 1 TFLOPS},
                  memory: 1 GiB, memory_bandwidth: 20 GB/s,
                  intra_node: {bandwidth: 5 GB/s, latency: 10 us},
                  host_device: {bandwidth: 5 GB/s, latency: 10 us}}
  - {name: gpus, accelerator: A100-80GB, nodes: 1, devices_per_node: 2,
     inter_node: {bandwidth: 100 Gbps, latency: 5 us}}
links: {default: {bandwidth: 10 Gbps, latency: 1 ms}}
training: {global_batch: 4, seq_len: 64, precision: fp32}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with two small problems."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(evaluation, "MOST_LEFT_OUT", 5)
    (tmp_path / "a.yaml").write_text(PROBLEM)
    (tmp_path / "b").mkdir()
    other = PROBLEM.replace("hidden: 64", "hidden: 96")
    (tmp_path / "b" / "b.yaml").write_text(other)
    return tmp_path


def test_plans_of_two_problems_are_of_measured_times(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", "--for", "a.yaml", "--for", "b/b.yaml"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    first, done, error, *lines = out.splitlines()
    profile = read_profile("profile.csv")
    assert first.startswith(f"{len(profile.rows)} shapes, about ")
    assert done.startswith(f"profile.csv: {len(profile.rows)} shards measured; ")
    assert error.startswith("leave-one-out error of a forest of these, which predicts")
    assert {row.hidden for row in profile.rows} == {64, 96}
    assert {row.dtype for row in profile.rows} == {"fp32"}
    needs = "of accelerator CPU, training.precision fp32"
    assert lines[:2] == [
        f"in a.yaml: latency: {{here: profile.csv}}  # {needs}",
        f"in b/b.yaml: latency: {{here: ../profile.csv}}  # {needs}",
    ]
    for line in lines[:2]:
        file, _, latency = line.removeprefix("in ").partition(": ")
        path = folder / file
        path.write_text(path.read_text() + latency + "\n")
        assert build_table(read_problem(path)).sources == ("measured", "modelled")
        assert main(["plan", file, "--solver", "dp", "--jobs", "1", "-v"]) == 0
        out, err = capsys.readouterr()
        assert "here measured" in " ".join(out.split())
        assert "here: all 9 shapes that were compared are measured (" in out
        assert "outside of" not in err
    # Nothing is measured twice.
    assert main(["profile", "--for", "a.yaml"]) == 0
    assert "profile.csv: 0 shards measured; " in capsys.readouterr().out
    assert read_profile("profile.csv").rows == profile.rows


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (
            ("name: CPU", "name: Mine"),
            [],
            "clusters: are here (Mine), gpus (A100-80GB), and not one of this "
            "machine's CPU: name those that this machine stands for, as in "
            "--cluster here",
        ),
        (
            ("", ""),
            ["--cluster", "there"],
            "clusters: are here (CPU), gpus (A100-80GB)",
        ),
        (
            ("training: {", "training: {attention: unfused, "),
            [],
            "a profile of layers only covers fused attention with sequence "
            "parallelism: write training: {attention: fused, sequence_parallel: true}",
        ),
    ],
)
def test_what_cannot_be_measured_here_is_refused(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    change: tuple[str, str],
    options: list[str],
    message: str,
) -> None:
    (folder / "a.yaml").write_text(PROBLEM.replace(*change))
    assert main(["profile", "--for", "a.yaml", *options]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"a.yaml: {message}")
    assert not (folder / "profile.csv").exists()


def test_a_cluster_that_this_machine_stands_for_may_be_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.yaml").write_text(PROBLEM.replace("name: CPU", "name: Mine"))
    assert main(["profile", "--for", "a.yaml", "--cluster", "here"]) == 0
    line = "in a.yaml: latency: {here: profile.csv}  # of accelerator CPU"
    assert line in capsys.readouterr().out


def test_no_more_is_measured_than_the_time_permits(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", "--for", "a.yaml", "--time-limit", "0.05"]) == 0
    out = capsys.readouterr().out
    assert "of which 0.05 s are measured" in out
    assert "left out for lack of time: the same command continues" in out
    some = len(read_profile("profile.csv").rows)
    assert main(["profile", "--for", "a.yaml"]) == 0
    assert len(read_profile("profile.csv").rows) > some
