"""Ranks that share ZeRO's shards in groups: what runtimes have of it, and read back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hetopt.cli import main
from hetopt.export.registry import readers
from hetopt.plans.strategy import Strategy

if TYPE_CHECKING:
    from pathlib import Path

_TEXT = """\
model: {{layers: 4, hidden: 1024, heads: 8, ffn: 4096, vocab: 32000{more}}}
clusters:
  - {{name: a, accelerator: A100-80GB, nodes: 4, devices_per_node: 8,
     inter_node: {{bandwidth: 100 Gbps, latency: 5 us}}}}
training: {{global_batch: 64, seq_len: 1024, schedule: 1f1b{group}}}
pin: {{stages: 2, clusters: {{a: {{tp: {tp}, cp: {cp}, ep: {ep}, etp: 1}}}}}}
"""
_EXPERTS = ", experts: {number: 8, per_token: 2, ffn: 1024}"


def _problem(
    folder: Path,
    group: int | None = 4,
    *,
    experts: bool = False,
    cp: int = 1,
    tp: int = 1,
    ep: int = 1,
) -> str:
    file = folder / f"{group}.yaml"
    text = _TEXT.format(
        more=", gated: true, norm: rms" + _EXPERTS * experts,
        group="" if group is None else f", shard_group: {group}",
        tp=tp,
        cp=cp,
        ep=ep,
    )
    if not experts:
        text = text.replace(", ep: 1, etp: 1", "")
    file.write_text(text)
    return str(file)


def _exported(problem: str, launcher: str, folder: Path, *options: str) -> Path:
    plan, out = str(folder / "plan.json"), folder / launcher
    searched = [] if launcher == "torchtitan" else ["--for", launcher]
    assert main(["plan", problem, *searched, "--jobs", "1", "--out", plan]) == 0
    to = ["--to", launcher, "--out", str(out), "--allow-lossy", *options]
    assert main(["export", problem, plan, *to]) == 0
    return out


@pytest.mark.parametrize("launcher", ["megatron", "nemo", "torchtitan"])
def test_groups_come_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], launcher: str
) -> None:
    problem = _problem(tmp_path)
    out = _exported(problem, launcher, tmp_path)
    # 32 devices, two stages: 16 ranks hold a weight, four groups of four.
    assert readers()[launcher].read(out).says["shard_group"] == 4
    lossy = out / "LOSSY.md"
    assert not lossy.exists() or "shard_group" not in lossy.read_text()
    back = ["--out", str(tmp_path / "back.json")]
    assert main(["import", problem, str(out), *back]) == 0
    # As many as hold a weight, or a multiple of that, are no groups.
    for other in (16, 48, None):
        assert main(["import", _problem(tmp_path, other), str(out), *back]) == 2
        assert "shard_group: the files say 4" in capsys.readouterr().err
    (tmp_path / "whole").mkdir()
    whole = _exported(_problem(tmp_path, 48), launcher, tmp_path / "whole")
    assert "shard_group" not in readers()[launcher].read(whole).says
    for other, code in ((48, 0), (None, 0), (4, 2)):
        again = _problem(tmp_path, other)
        assert main(["import", again, str(whole), *back]) == code
    assert "the files say none, the problem 4" in capsys.readouterr().err


def test_groups_of_fewer_than_a_replica_are_a_loss_of_torchtitan(
    tmp_path: Path,
) -> None:
    out = _exported(_problem(tmp_path, 2, cp=4), "torchtitan", tmp_path)
    assert "copies are of whole replicas" in (out / "LOSSY.md").read_text()
    assert "shard_group" not in readers()["torchtitan"].read(out).says


def test_experts_have_as_many_copies_or_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Eight of the sixteen ranks hold an expert: groups of four are two copies of it,
    # and four of other weights.
    plan = str(tmp_path / "plan.json")
    problem = _problem(tmp_path, experts=True, ep=2)
    assert main(["plan", problem, "--jobs", "1", "--out", plan]) == 0
    to = ["--to", "megatron", "--out", str(tmp_path / "out")]
    assert main(["export", problem, plan, *to]) == 1
    assert "equally many copies, those of experts too" in capsys.readouterr().err
    # Of four ranks, all share dense weights, and the two that hold an expert it.
    out = _exported(problem, "megatron", tmp_path)
    assert not (out / "LOSSY.md").exists()
    assert "shard_group" not in readers()["megatron"].read(out).says
    (tmp_path / "one").mkdir()
    alone = _problem(tmp_path, 1, experts=True)
    out = _exported(alone, "megatron", tmp_path / "one")
    assert readers()["megatron"].read(out).says["shard_group"] == 1


def test_megatron_needs_a_divisor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = _problem(tmp_path)
    out = _exported(problem, "megatron", tmp_path)
    for script in out.glob("nodes/*.sh"):
        text = script.read_text()
        script.write_text(text.replace("instances 4", "instances 3"))
    back = ["--out", str(tmp_path / "back.json")]
    assert main(["import", problem, str(out), *back]) == 2
    told = "instances: is 3, expected a divisor of the ranks that hold a weight"
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("degrees", "group", "copies"),
    [
        ((8, 2, 1, 1, 1), None, (1, 1)),
        ((8, 2, 1, 1, 1), 4, (4, 4)),
        # Eight of sixteen ranks hold an expert.
        ((8, 2, 1, 2, 1), 4, (4, 2)),
        # The largest divisor that does: two of six ranks, and four of twelve.
        ((6, 1, 2, 1, 1), 4, (3, 3)),
    ],
)
def test_copies_are_counted_of_dense_weights_and_of_experts(
    degrees: tuple[int, int, int, int, int], group: int | None, copies: tuple[int, int]
) -> None:
    dp, cp, tp, ep, etp = degrees
    strategy = Strategy(dp=dp, cp=cp, tp=tp, ep=ep, etp=etp)
    assert strategy.shard_copies(group, experts=True) == copies
    assert strategy.shard_copies(group, experts=False) == copies[:1]


def test_files_and_problem_are_compared_by_the_copies_of_experts_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # With tp 2, 16 ranks hold an expert, and eight other weights: groups of eight are
    # two copies of experts, and one of the others.
    out = _exported(_problem(tmp_path, None, experts=True, tp=2), "megatron", tmp_path)
    strategy = readers()["megatron"].read(out).stages[0].strategy
    assert strategy.shard_copies(8, experts=True) == (1, 2)
    back = ["--out", str(tmp_path / "back.json")]
    for group, code in ((None, 0), (16, 0), (8, 2)):
        problem = _problem(tmp_path, group, experts=True, tp=2)
        assert main(["import", problem, str(out), *back]) == code
    assert "the files say none, the problem 8" in capsys.readouterr().err
