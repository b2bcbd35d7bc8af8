"""Published configurations of mixtures of experts, and layers that have no kind."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from hetopt.base.faults import Fault, faults
from hetopt.errors import InputError
from hetopt.problem.building.huggingface.fields import model_fields
from hetopt.problem.files import Files
from hetopt.problem.model.experts import Experts
from hetopt.problem.model.kinds import (
    LAYER,
    LAYER_EXPERTS,
    LAYER_WINDOW,
    LAYER_WINDOW_EXPERTS,
    PREDICTION,
)
from hetopt.problem.model.latent import Latent
from hetopt.problem.model.model import Model
from hetopt.problem.reading import read_problem
from tests.problem.building import published_configs as published


def read(config: dict[str, Any]) -> Model:
    fields = model_fields(config, name="model")
    try:
        return Model.of({"hf_config": "x"}, Files(config=lambda _: fields))
    except ValidationError as error:
        raise faults(error)[0] from None


def test_deepseek_v3() -> None:
    model = read(published.DEEPSEEK_V3)
    assert model.experts == Experts(
        number=256,
        per_token=8,
        ffn=2048,
        shared_ffn=2048,
        groups=8,
        groups_per_token=4,
        router_bias=True,
        scores="sigmoid",
        scale=2.5,
        dense_layers=(0, 1, 2),
    )
    assert model.latent == Latent(
        q_lora=1536, kv_lora=512, qk_dim=128, rope_dim=64, v_dim=128
    )
    assert (model.head_dim, model.ffn, model.predictions) == (192, 18432, 1)
    assert model.units[1:-1] == (*[LAYER] * 3, *[LAYER_EXPERTS] * 58, PREDICTION)


def test_deepseek_v2_weighs_experts_as_they_are() -> None:
    model = read(published.DEEPSEEK_V2)
    experts = model.experts
    assert experts is not None
    assert (experts.scores, experts.normalised, experts.scale) == ("softmax", False, 16)
    assert (experts.groups, experts.groups_per_token) == (8, 3)
    assert (experts.shared_ffn, experts.router_bias) == (3072, False)


def test_deepseek_v2_lite_makes_queries_of_the_token() -> None:
    model = read(published.DEEPSEEK_V2_LITE)
    assert model.latent is not None
    assert model.experts is not None
    assert model.latent.q_lora == 0
    assert model.experts.groups == 0


def test_kimi_k2_has_no_groups() -> None:
    experts = read(published.KIMI_K2).experts
    assert experts is not None
    assert (experts.number, experts.groups, experts.scale) == (384, 0, 2.827)
    assert experts.dense_layers == (0,)


def test_qwen3_routes_every_layer() -> None:
    model = read(published.QWEN3_235B_A22B)
    assert model.architecture.qk_norm == "head"
    assert set(model.units[1:-1]) == {LAYER_EXPERTS}
    assert model.experts == Experts(number=128, per_token=8, ffn=1536)


def test_qwen_may_route_every_other_layer_but_some() -> None:
    config = {**published.QWEN3_30B_A3B, "num_hidden_layers": 6}
    model = read({**config, "decoder_sparse_step": 2, "mlp_only_layers": [5]})
    assert model.routed == (False, True, False, True, False, False)


def test_qwen2_weighs_the_shared_expert() -> None:
    model = read(published.QWEN15_MOE)
    assert model.experts is not None
    assert (model.experts.shared_ffn, model.experts.shared_gate) == (5632, True)
    assert not model.experts.normalised
    assert model.architecture.qkv_bias


def test_mixtral_is_of_experts_alone() -> None:
    model = read(published.MIXTRAL_8X7B)
    assert model.experts == Experts(number=8, per_token=2, ffn=14336)
    assert all(model.routed)


def test_gpt_oss_has_sinks_biases_and_every_other_window() -> None:
    model = read(published.GPT_OSS_20B)
    own = model.architecture
    assert own.attention_sinks
    assert (own.gate_clamp, own.activation) == (7.0, "quick-gelu")
    assert (own.qkv_bias, own.out_bias, own.mlp_bias) == (True, True, True)
    assert model.experts == Experts(number=32, per_token=4, ffn=2880, router_bias=True)
    assert model.units[1:-1] == (LAYER_WINDOW_EXPERTS, LAYER_EXPERTS) * 12


def test_glm_predicts_a_further_token() -> None:
    model = read(published.GLM_45_AIR)
    assert model.predictions == 1
    assert model.architecture.rotary_fraction == 0.5
    assert model.experts is not None
    assert model.experts.scores == "sigmoid"


def test_llama_4_routes_every_layer_or_every_other() -> None:
    scout, maverick = read(published.LLAMA_4_SCOUT), read(published.LLAMA_4_MAVERICK)
    assert scout.experts == Experts(
        number=16,
        per_token=1,
        ffn=8192,
        shared_ffn=8192,
        scores="sigmoid",
        normalised=False,
        weighted_input=True,
    )
    assert (scout.ffn, maverick.ffn) == (16384, 16384)
    four = (LAYER_WINDOW, LAYER_WINDOW_EXPERTS, LAYER_WINDOW, LAYER_EXPERTS)
    assert maverick.units[1:-1] == four * 12
    routed = (LAYER_WINDOW_EXPERTS,) * 3 + (LAYER_EXPERTS,)
    assert scout.units[1:-1] == routed * 12


def test_llama_4_attends_within_chunks_but_every_fourth_layer() -> None:
    for config, norm in (
        (published.LLAMA_4_SCOUT, "l2"),
        (published.LLAMA_4_MAVERICK, "none"),
    ):
        own = read(config).architecture
        assert (own.attention_chunk, own.sliding_window) == (8192, None)
        assert own.full_layers == tuple(range(3, 48, 4))
        assert not own.rotary_full_layers
        assert own.attention_temperature == 8192
        assert (own.qk_norm, own.rotary_interleaved) == (norm, True)
    config = {**published.LLAMA_4_SCOUT, "attn_temperature_tuning": False}
    assert read(config).architecture.attention_temperature is None
    turned = {**config, "no_rope_layers": [1] * 48}
    assert read(turned).architecture.rotary_full_layers
    assert set(read(turned).units[1:-1]) == {LAYER_WINDOW_EXPERTS}


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("llama-4-scout", published.LLAMA_4_SCOUT),
        ("llama-4-maverick", published.LLAMA_4_MAVERICK),
        ("deepseek-v3", published.DEEPSEEK_V3),
        ("deepseek-v2", published.DEEPSEEK_V2),
        ("deepseek-v2-lite", published.DEEPSEEK_V2_LITE),
        ("qwen3-235b-a22b", published.QWEN3_235B_A22B),
        ("qwen3-30b-a3b", published.QWEN3_30B_A3B),
        ("mixtral-8x7b", published.MIXTRAL_8X7B),
        ("gpt-oss-120b", published.GPT_OSS_120B),
        ("gpt-oss-20b", published.GPT_OSS_20B),
    ],
)
def test_presets_are_the_published_models(name: str, config: dict[str, Any]) -> None:
    model, preset = read(config), Model.of(name)
    for field in ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab"):
        assert getattr(preset, field) == getattr(model, field), field
    assert (preset.experts, preset.latent) == (model.experts, model.latent)
    assert (preset.units, preset.biases) == (model.units, model.biases)
    assert preset.architecture.rotary_base == model.architecture.rotary_base


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "qwen3_next"}, "is 'qwen3_next', whose layers of linear atten"),
        (
            {**published.LLAMA_4_SCOUT, "no_rope_layers": [1, 2]},
            "is a list, expected 0 or 1 for each of 48 layers",
        ),
        (
            {**published.LLAMA_4_SCOUT, "moe_layers": [48]},
            "is [48], expected a list of layers from 0 to 47",
        ),
        (
            {**published.LLAMA_4_SCOUT, "layer_types": ["full_attention"] * 48},
            "is a list, expected a list: layers attend within chunks",
        ),
        (
            {**published.LLAMA_4_SCOUT, "attention_chunk_size": None},
            "is missing, expected the tokens of a chunk",
        ),
        (
            {**published.LLAMA_4_SCOUT, "attn_scale": 0.2},
            "is 0.2, expected 0.1: this family fixes the scale of queries",
        ),
        ({"model_type": "deepseek_v32"}, "is 'deepseek_v32', whose sparse attention"),
        (
            {**published.DEEPSEEK_V3, "moe_layer_freq": 2},
            "is 2, expected 1: further dense layers are not supported",
        ),
        (
            {**published.DEEPSEEK_V3, "scoring_func": "max"},
            "is 'max', expected softmax or sigmoid",
        ),
        (
            {**published.DEEPSEEK_V3, "topk_method": "best"},
            "is 'best', expected one of greedy, group_limited_greedy, noaux_tc",
        ),
        (
            {**published.DEEPSEEK_V3, "num_experts_per_tok": None},
            "is missing, expected a whole number",
        ),
        (
            {**published.DEEPSEEK_V3, "attention_bias": True},
            "is true, expected false: attention of this family has no such biases",
        ),
        (
            {**published.QWEN3_30B_A3B, "mlp_only_layers": [48]},
            "is [48], expected a list of layers from 0 to 47",
        ),
        (
            {**published.QWEN3_30B_A3B, "use_sliding_window": True},
            "is true, expected false: hetopt does not support windows in this family",
        ),
        (
            {**published.QWEN3_30B_A3B, "num_experts": "128"},
            "is '128', expected a whole number of at least 1",
        ),
        (
            {**published.GPT_OSS_20B, "swiglu_alpha": 1.0},
            "is 1.0, expected 1.702: this family has its own gate",
        ),
        (
            {**published.MIXTRAL_8X7B, "kv_lora_rank": 512},
            "is not a key of mixtral that hetopt knows",
        ),
    ],
)
def test_what_has_no_layer_is_refused(config: dict[str, Any], said: str) -> None:
    with pytest.raises(Fault) as caught:
        read(config)
    assert caught.value.message.startswith(said), caught.value.message


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("topk_method", [], "is a list, expected one of greedy, group_limited"),
        ("scoring_func", {}, "is a mapping, expected softmax or sigmoid"),
        ("first_k_dense_replace", 10**6, "is 1000000, expected at most 100000"),
        ("num_nextn_predict_layers", 10**6, "is 1000000, expected at most 100000"),
    ],
)
def test_a_key_that_cannot_be_is_refused_by_name(
    key: str, value: Any, message: str
) -> None:
    with pytest.raises(Fault, match=message) as caught:
        read({**published.DEEPSEEK_V3, key: value})
    assert caught.value.path == (key,)


def test_a_scale_of_zero_is_no_scale_left_out() -> None:
    with pytest.raises(Fault, match=r"is 0\.0, expected a number above 0") as caught:
        read({**published.DEEPSEEK_V3, "routed_scaling_factor": 0})
    assert caught.value.path == ("experts", "scale")


def test_no_more_tokens_are_predicted_than_there_are_layers() -> None:
    with pytest.raises(Fault, match=r"is 62, expected at most layers \(61\)"):
        read({**published.DEEPSEEK_V3, "num_nextn_predict_layers": 62})


def test_what_contradicts_itself_in_a_config_names_the_file(tmp_path: Path) -> None:
    config = {**published.DEEPSEEK_V3, "n_routed_experts": 4}
    (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")
    problem = tmp_path / "problem.yaml"
    problem.write_text(
        "model: {hf_config: config.json}\n"
        "clusters: [{name: a, accelerator: H100, nodes: 1, devices_per_node: 8}]\n"
        "training: {global_batch: 8, seq_len: 1024}\n",
        "utf-8",
    )
    with pytest.raises(InputError) as caught:
        read_problem(problem)
    assert str(caught.value).endswith(
        "problem.yaml:1: model.experts.per_token: is 8, expected at most number (4), "
        "as read from config.json"
    )
