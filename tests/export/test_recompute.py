"""Pinned options of recomputation: planned, checked, written, read, and refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hetopt
from hetopt.errors import CheckError, InputError
from hetopt.export.megatron.reading import read_megatron
from hetopt.export.nemo.reading import read_nemo
from hetopt.export.torchtitan.reading import read_torchtitan
from hetopt.problem.reading import read_problem_text
from hetopt.problem.training.choices import MODULES

if TYPE_CHECKING:
    from pathlib import Path

    from hetopt.problem.training.choices import Recompute

TEXT = """\
model: {{{model}}}
clusters:
  - {{name: a, accelerator: H100, nodes: 1, devices_per_node: 4,
      inter_node: {{bandwidth: 400 Gbps, latency: 5 us}}}}
training: {{global_batch: 8, seq_len: 2048, recompute: {recompute}, {more}}}
pin: {{stages: 2, clusters: {{a: {{cp: 1, tp: 1}}}}}}
"""
LLAMA = "layers: 4, hidden: 1024, heads: 8, ffn: 4096, vocab: 32000, tied: false"
V3 = "preset: deepseek-v3, layers: 5"


def planned(recompute: Recompute, model: str = LLAMA, more: str = "") -> hetopt.Result:
    text = TEXT.format(
        model=model, recompute=recompute, more=more or "schedule: 1f1b-batched"
    )
    if model == V3:
        text = text.replace("nodes: 1", "nodes: 16")
    return hetopt.plan(read_problem_text(text), jobs=1)


@pytest.mark.parametrize("recompute", MODULES)
def test_megatrons_modules_are_written_and_read(
    recompute: Recompute, tmp_path: Path
) -> None:
    result = planned(recompute, LLAMA if recompute in ("mlp", "layernorm") else V3)
    assert result.best is not None
    used = {stage.strategy.recompute for stage in result.best.plan.pipeline.stages}
    assert used == {recompute}
    for to, read in (("megatron", read_megatron), ("nemo", read_nemo)):
        hetopt.export_plan(result, to=to, out=str(tmp_path / to))
        read_back = read(tmp_path / to)
        assert {each.strategy.recompute for each in read_back.stages} == {recompute}
    with pytest.raises(CheckError, match=rf"recomputation {recompute}: it knows none"):
        hetopt.export_plan(result, to="torchtitan", out=str(tmp_path / "other"))


def test_torchtitan_keeps_every_other_result(tmp_path: Path) -> None:
    result = planned("per-operator", more="schedule: 1f1b, zero: 1")
    hetopt.export_plan(
        result, to="torchtitan", out=str(tmp_path / "bundle"), allow_lossy=True
    )
    read_back = read_torchtitan(tmp_path / "bundle")
    assert {each.strategy.recompute for each in read_back.stages} == {"per-operator"}
    for to in ("megatron", "torch", "flagscale"):
        with pytest.raises(CheckError, match="recomputation per-operator: it knows"):
            hetopt.export_plan(result, to=to, out=str(tmp_path / to), allow_lossy=True)


def test_a_search_for_a_launcher_says_what_it_recomputes() -> None:
    problem = read_problem_text(
        TEXT.format(model=LLAMA, recompute="per-operator", more="schedule: 1f1b")
    )
    with pytest.raises(
        InputError, match=r"training.recompute: is per-operator on cluster 'a', the"
    ):
        hetopt.plan(problem, launcher="megatron", jobs=1)


@pytest.mark.parametrize("recompute", ["layernorm", "mlp"])
def test_megatron_repeats_no_norm_in_fp8(recompute: Recompute, tmp_path: Path) -> None:
    result = planned(recompute, more="schedule: 1f1b-batched, precision: fp8")
    if recompute == "mlp":
        hetopt.export_plan(result, to="megatron", out=str(tmp_path / "bundle"))
        return
    with pytest.raises(CheckError, match="layernorm or moe_act in fp8"):
        hetopt.export_plan(result, to="megatron", out=str(tmp_path / "bundle"))
