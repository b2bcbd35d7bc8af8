"""Experts, latent attention and further tokens as Megatron-LM is told, and back."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hetopt.errors import CheckError, InputError
from hetopt.export.bundle import bundle, write_folder
from hetopt.export.job import Job
from hetopt.export.launcher import Launcher
from hetopt.export.megatron.launcher import LAUNCHER as MEGATRON
from hetopt.export.megatron.reading import read_megatron
from hetopt.export.nemo.launcher import LAUNCHER as NEMO
from hetopt.export.nemo.reading import read_nemo
from hetopt.export.shared.megatron.experts import layer_runs
from hetopt.export.shared.megatron.experts_said import experts_say
from hetopt.problem.model.architecture import Architecture
from hetopt.problem.problem import Problem
from tests.export.scripts import told
from tests.with_configs import job_of, problem_with_preset

EXPERTS = {
    "number": 8,
    "per_token": 2,
    "ffn": 64,
    "shared_ffn": 96,
    "scores": "sigmoid",
    "router_bias": True,
    "scale": 2.5,
    "groups": 4,
    "groups_per_token": 2,
    "dense_layers": 1,
}
SAID = {
    "num_experts": "8",
    "num_attention_heads": "4",
    "ffn_hidden_size": "64",
    "disable_bias_linear": "",
}


def job(name: str = "deepseek-v3", **model: Any) -> Job:
    return job_of(problem_with_preset(name, **model), tp=4, ep=4)


def argument(given: Job, name: str) -> str | None:
    files = bundle(given, MEGATRON, allow_lossy=True)
    script = next(text for path, text in files.items() if path.endswith(".sh"))
    return told(script).get(name)


@pytest.mark.parametrize("launcher", [MEGATRON, NEMO], ids=["megatron", "nemo"])
@pytest.mark.parametrize(
    "name",
    ["deepseek-v3", "deepseek-v2-lite", "qwen3-30b-a3b", "mixtral-8x7b"],
)
def test_what_is_written_is_read_back(
    tmp_path: Path, name: str, launcher: Launcher
) -> None:
    given = job(name)
    write_folder(str(tmp_path / "out"), bundle(given, launcher, allow_lossy=False))
    read = read_megatron if launcher is MEGATRON else read_nemo
    found, model = read(tmp_path / "out"), given.problem.model
    assert [stage.strategy for stage in found.stages] == [
        replace(stage.strategy, zero=None) for stage in given.stages
    ]
    assert found.says["experts"] == model.experts
    assert found.says["latent"] == model.latent
    assert found.says["predictions"] == model.predictions
    assert [stage.layers for stage in found.stages] == list(given.layers or ())
    assert found.says["head_dim"] == model.head_dim
    assert found.says["rotary_interleaved"] == model.architecture.rotary_interleaved


def test_gpt_oss_keeps_its_sinks_and_its_gate(tmp_path: Path) -> None:
    given = job("gpt-oss-20b")
    write_folder(str(tmp_path / "out"), bundle(given, MEGATRON, allow_lossy=True))
    says = read_megatron(tmp_path / "out").says
    own = given.problem.model.architecture
    assert (says["attention_sinks"], says["gate_clamp"]) == (True, own.gate_clamp)
    assert says["experts"] == given.problem.model.experts


@pytest.mark.parametrize("launcher", [MEGATRON, NEMO], ids=["megatron", "nemo"])
def test_llama_4_keeps_its_layers_without_rotary_embedding(
    tmp_path: Path, launcher: Launcher
) -> None:
    given = job("llama-4-maverick")
    write_folder(str(tmp_path / "out"), bundle(given, launcher, allow_lossy=False))
    read = read_megatron if launcher is MEGATRON else read_nemo
    says, model = read(tmp_path / "out").says, given.problem.model
    assert says["experts"] == model.experts
    assert says["full_layers"] == tuple(range(3, 48, 4))
    assert says["rotary_full_layers"] is False
    assert says["sliding_window"] is None


def test_what_megatron_does_not_do_of_llama_4() -> None:
    # Its norm without weights is of layers without rotary embedding, too.
    with pytest.raises(CheckError, match=r"model\.qk_norm l2: it has no setting"):
        bundle(job("llama-4-scout"), MEGATRON, allow_lossy=False)
    given = job("llama-4-maverick")
    training = replace(given.problem.training, seq_len=16384)
    long = Job.of(replace(given.problem, training=training), given.plan)
    said = "|".join(
        rf"model\.{field} 8192 with sequences of 16384: it has no setting"
        for field in ("attention_chunk", "attention_temperature")
    )
    with pytest.raises(CheckError, match=said):
        bundle(long, MEGATRON, allow_lossy=False)
    assert argument(long, "--no-rope-freq") == "4"


def test_layers_that_predict_are_in_the_layout() -> None:
    layout = argument(job(layers=5), "--pipeline-model-parallel-layout")
    assert layout == "Ett|t*3mL"
    assert argument(job(layers=5), "--mtp-num-layers") == "1"


def test_a_stage_may_hold_nothing_but_what_predicts() -> None:
    given = job(layers=4)
    stages = list(given.stages)
    stages[0] = replace(stages[0], end_unit=5)
    stages[1] = replace(stages[1], first_unit=5)
    pipeline = replace(given.plan.pipeline, stages=tuple(stages))
    moved = Job.of(given.problem, replace(given.plan, pipelines=(pipeline,)))
    assert moved.layers == (4, 0)
    assert argument(moved, "--pipeline-model-parallel-layout") == "Et*4|mL"


def test_tokens_sent_once_per_node_take_another_dispatcher() -> None:
    given = job()
    training = given.problem.training
    moe = replace(training.moe, node_dedup=True, capacity=1.5)
    problem = replace(given.problem, training=replace(training, moe=moe))
    once = Job.of(problem, given.plan)
    assert argument(once, "--moe-token-dispatcher-type") == "flex"
    assert argument(once, "--moe-flex-dispatcher-backend") == "deepep"
    assert argument(once, "--moe-expert-capacity-factor") == "1.5"
    assert argument(given, "--moe-token-dispatcher-type") == "alltoall"
    named = replace(moe, dispatcher="hybridep")
    hybrid = replace(problem, training=replace(training, moe=named))
    assert argument(Job.of(hybrid, given.plan), "--moe-flex-dispatcher-backend") == (
        "hybridep"
    )


@pytest.mark.parametrize("launcher", [MEGATRON, NEMO], ids=["megatron", "nemo"])
def test_the_flexible_dispatcher_is_for_several_ranks(
    launcher: Launcher, tmp_path: Path
) -> None:
    given = job(layers=8)
    training = given.problem.training
    moe = replace(training.moe, node_dedup=True)
    problem = replace(given.problem, training=replace(training, moe=moe))
    stages = tuple(
        replace(stage, strategy=replace(stage.strategy, ep=1, etp=1))
        for stage in given.stages
    )
    pipeline = replace(given.plan.pipeline, stages=stages)
    alone = Job.of(problem, replace(given.plan, pipelines=(pipeline,)))
    for of, name in ((alone, "alltoall"), (Job.of(problem, given.plan), "flex")):
        folder = tmp_path / name
        files = bundle(of, launcher, allow_lossy=False)
        write_folder(str(folder), files)
        text = "".join(files.values())
        assert re.search(rf"dispatcher[-_]type\W+{name}", text)
        assert ("deepep" in text) == (name == "flex")
        read = {MEGATRON: read_megatron, NEMO: read_nemo}[launcher](folder)
        assert read.says.get("node_dedup", True)
        assert read.says.get("sent_by", "deepep") == "deepep"
        assert not any("flex" in each.argument for each in read.reported)


def test_shared_experts_have_no_biases() -> None:
    own = job("qwen3-30b-a3b", layers=4, norm="layer", experts=EXPERTS)
    with pytest.raises(CheckError, match="shared experts with biases: it has none"):
        bundle(own, MEGATRON, allow_lossy=False)


def test_layers_that_predict_have_no_learned_positions() -> None:
    given = job("qwen3-30b-a3b", layers=4, predictions=1)
    model = given.problem.model
    own = replace(model.architecture, rotary_base=Architecture().rotary_base)
    model = replace(model, architecture=own, positions=8192)
    learned = Job.of(replace(given.problem, model=model), given.plan)
    with pytest.raises(CheckError, match="beside learned positions"):
        bundle(learned, MEGATRON, allow_lossy=False)


@pytest.mark.parametrize(
    ("experts", "said"),
    [
        ({"shared_gate": True}, "model.experts.shared_gate true: it has no setting"),
        ({"normalised": False}, "model.experts.normalised false: it has no setting"),
        (
            {"scores": "softmax"},
            "model.experts.router_bias true: it has no setting for it",
        ),
    ],
)
def test_what_has_no_setting_is_a_loss(experts: dict[str, Any], said: str) -> None:
    own = job(layers=4, experts={**EXPERTS, **experts})
    with pytest.raises(CheckError, match=said):
        bundle(own, MEGATRON, allow_lossy=False)


def test_stages_share_their_expert_degrees() -> None:
    given = job(layers=8)
    first, last = given.stages
    other = replace(last, strategy=replace(last.strategy, ep=2))
    pipeline = replace(given.plan.pipeline, stages=(first, other))
    mixed = Job.of(given.problem, replace(given.plan, pipelines=(pipeline,)))
    with pytest.raises(CheckError, match=r"different \(e, x\) per stage"):
        bundle(mixed, MEGATRON, allow_lossy=True)


def test_a_stage_without_experts_does_not_count() -> None:
    given = job(layers=4)
    first, last = given.stages
    plain = replace(first, end_unit=4, strategy=replace(first.strategy, ep=1))
    pipeline = replace(given.plan.pipeline, stages=(plain, replace(last, first_unit=4)))
    moved = Job.of(given.problem, replace(given.plan, pipelines=(pipeline,)))
    assert argument(moved, "--expert-model-parallel-size") == "4"


@pytest.mark.parametrize(
    ("routed", "text"),
    [
        ([0, 0, 0, 1, 1, 1], "([0]*3+[1]*3)"),
        ([1, 1, 1, 1], "([1]*4)"),
        ([0, 1, 0, 1], "[0,1,0,1]"),
    ],
)
def test_routed_layers_are_a_short_text(routed: list[int], text: str) -> None:
    assert layer_runs(routed) == text
    settings = {**SAID, "moe_layer_freq": text}
    experts = experts_say(settings, len(routed), 64, _wrong)["experts"]
    assert [int(each) for each in experts.routed(len(routed))] == routed


def test_the_parsers_own_values_are_read() -> None:
    says = experts_say(SAID, 4, 64, _wrong)
    assert says["experts"].per_token == 2
    assert says["experts"].ffn == 64
    assert says["experts"].scores == "softmax"
    assert (says["latent"], says["predictions"]) == (None, 0)
    every = experts_say({**SAID, "moe_layer_freq": "2"}, 4, 64, _wrong)["experts"]
    assert every.dense_layers == (1, 3)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"num_experts": "x"}, "num_experts: is 'x', expected a whole number"),
        ({"moe_router_topk": "9"}, "num_experts: is given, but per_token is 9"),
        (
            {"moe_router_score_function": "max"},
            "moe_router_score_function: is 'max', expected softmax or sigmoid",
        ),
        (
            {"moe_layer_freq": "[0]*3"},
            "moe_layer_freq: is '[0]*3', expected a number or 0 or 1 for each of 4",
        ),
        (
            {"moe_layer_freq": "__import__('os')"},
            "moe_layer_freq: is \"__import__('os')\", expected a number",
        ),
        (
            {"moe_layer_freq": "[1]*999999+[1]*999999"},
            "moe_layer_freq: is '[1]*999999+[1]*999999', expected a number",
        ),
        (
            {"multi_latent_attention": ""},
            "qk_layernorm: is not given, and hetopt prices latent attention with its",
        ),
        (
            {
                "multi_latent_attention": "",
                "qk_layernorm": "",
                "qk_pos_emb_head_dim": "7",
            },
            "qk_pos_emb_head_dim: rope_dim is 7, expected an even number",
        ),
        ({"mtp_num_layers": "-1"}, "mtp_num_layers: is '-1', expected a whole"),
        (
            {"moe_router_num_groups": "3", "moe_router_group_topk": "1"},
            "num_experts: is given, but groups is 3, which does not divide number",
        ),
    ],
)
def test_what_cannot_be_read_is_said(settings: dict[str, str], said: str) -> None:
    with pytest.raises(InputError) as caught:
        experts_say({**SAID, **settings}, 4, 64, _wrong)
    assert str(caught.value).startswith(said), str(caught.value)


def _wrong(name: str, message: str) -> InputError:
    return InputError(message, field=name)


def test_no_problem_of_dense_layers_is_told_of_experts() -> None:
    problem: Problem = problem_with_preset("llama-3-8b")
    files = bundle(job_of(problem), MEGATRON, allow_lossy=False)
    assert not any("moe" in text or "expert" in text for text in files.values())
