"""Families of decoders whose layers have routed experts.

Defaults of keys are those of the family's configuration class; how experts are chosen
and what has a bias follow its modelling class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.words import describe
from hetopt.problem.building.huggingface.llama4 import LLAMA_4
from hetopt.problem.building.huggingface.readers import (
    Family,
    Fields,
    activation,
    flag,
    layer_numbers,
    needed,
    neutral,
    number,
    uniform_window,
    windows,
)
from hetopt.problem.building.huggingface.rotary import rotary
from hetopt.problem.model.experts import MAX_LAYERS, Experts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hetopt.problem.building.huggingface.config import Config

#: Keys of losses, of the dispatch of experts and of how released weights are stored:
#: they change neither the layers nor the memory of training.
HARMLESS_OF_EXPERTS = frozenset(
    {
        "aux_loss_alpha",
        "ep_size",
        "output_router_logits",
        "quantization_config",
        "router_aux_loss_coef",
        "router_jitter_noise",
        "seq_aux",
    }
)

#: Values of ``scoring_func``; hetopt uses the same names.
_SCORES = ("softmax", "sigmoid")


def _chosen(config: Config) -> Fields:
    """Read how experts are chosen and weighted (DeepSeek)."""
    groups = config.whole("n_group") or 1
    of_token = config.whole("topk_group") or 1
    method, scores = config.value("topk_method"), config.value("scoring_func")
    if scores not in _SCORES:
        known = " or ".join(_SCORES)
        raise config.wrong("scoring_func", f"is {describe(scores)}, expected {known}")
    methods = {"greedy": False, "group_limited_greedy": False, "noaux_tc": True}
    if not isinstance(method, str) or method not in methods:
        known = ", ".join(methods)
        msg = f"is {describe(method)}, expected one of {known}"
        raise config.wrong("topk_method", msg)
    scale = config.number("routed_scaling_factor", "scale", Experts)
    limited = groups > 1 and method != "greedy"
    return {
        "groups": groups if limited else 0,
        "groups_per_token": of_token if limited else 0,
        "scores": scores,
        "router_bias": methods[method],
        "normalised": config.flag("norm_topk_prob"),
        "scale": 1.0 if scale is None else scale,
    }


def _deepseek_experts(config: Config) -> Fields:
    """Read experts of all but the first layers (DeepSeek-V2 and -V3, GLM-4.5)."""
    config.must_be("moe_layer_freq", 1, "further dense layers are not supported")
    ffn = needed(config, "moe_intermediate_size")
    shared = config.whole("n_shared_experts", least=0) or 0
    return {
        "experts": {
            "number": needed(config, "n_routed_experts"),
            "per_token": needed(config, "num_experts_per_tok"),
            "ffn": ffn,
            "shared_ffn": shared * ffn,
            "dense_layers": config.whole("first_k_dense_replace", 0, MAX_LAYERS) or 0,
            **_chosen(config),
        }
    }


def _qwen_experts(config: Config) -> Fields:
    """Read experts of every n-th layer that is not dense (Qwen2-MoE, Qwen3-MoE)."""
    layers = config.whole("num_hidden_layers") or 0
    every = config.whole("decoder_sparse_step") or 1
    dense = layer_numbers(config, "mlp_only_layers", layers)
    shared = config.whole("shared_expert_intermediate_size", least=0) or 0
    return {
        "experts": {
            "number": needed(config, "num_experts"),
            "per_token": needed(config, "num_experts_per_tok"),
            "ffn": needed(config, "moe_intermediate_size"),
            "shared_ffn": shared,
            "shared_gate": shared > 0,
            "normalised": config.flag("norm_topk_prob"),
            "every": every,
            "dense_layers": tuple(sorted(dense)),
        }
    }


def _local_experts(bias: bool) -> Callable[[Config], Fields]:
    """Return a reader of experts in place of every MLP (Mixtral, GPT-OSS)."""

    def read(config: Config) -> Fields:
        return {
            "experts": {
                "number": needed(config, "num_local_experts"),
                "per_token": needed(config, "num_experts_per_tok"),
                "ffn": needed(config, "intermediate_size"),
                "router_bias": bias,
            }
        }

    return read


def _latent(config: Config) -> Fields:
    """Read the sizes of latent attention (DeepSeek)."""
    config.value("head_dim")
    qk_dim = needed(config, "qk_nope_head_dim")
    rope_dim = needed(config, "qk_rope_head_dim")
    return {
        "head_dim": qk_dim + rope_dim,
        "latent": {
            "q_lora": config.whole("q_lora_rank") or 0,
            "kv_lora": needed(config, "kv_lora_rank"),
            "qk_dim": qk_dim,
            "rope_dim": rope_dim,
            "v_dim": needed(config, "v_head_dim"),
        },
    }


def _predictions(config: Config) -> Fields:
    """Read the number of layers that predict further tokens."""
    layers = config.whole("num_nextn_predict_layers", 0, MAX_LAYERS) or 0
    return {"predictions": layers}


def _alternating_windows(config: Config) -> Fields:
    """Read a sliding window of every other layer from the first (GPT-OSS)."""
    layers = config.whole("num_hidden_layers") or 0
    return windows(config, list(range(1, layers, 2)))


def _clamped_gate(config: Config) -> Fields:
    """Read the clamp of GPT-OSS's gate, which is ``quick-gelu`` apart from it."""
    config.must_be("hidden_act", "silu", "this family has its own gate")
    config.must_be("swiglu_alpha", 1.702, "this family has its own gate")
    limit = config.number("swiglu_limit", "gate_clamp")
    return {"gate_clamp": limit, "activation": "quick-gelu"}


_COMMON = (
    number("rms_norm_eps", "norm_eps"),
    number("attention_dropout", "attention_dropout"),
)
_SILU_LIKE = (*_COMMON, activation("hidden_act"))
_RMS = {"gated": True, "norm": "rms", "mlp_bias": False}
_NO_BIAS = {**_RMS, "qkv_bias": False, "out_bias": False}
_SILU = {"hidden_act": "silu", "rms_norm_eps": 1e-6, "tie_word_embeddings": False}
_NO_WINDOW = neutral(
    "use_sliding_window", False, "hetopt does not support windows in this family"
)

_DEEPSEEK_READERS = (
    *_SILU_LIKE,
    rotary(),
    _latent,
    _deepseek_experts,
    _predictions,
    neutral("rope_interleave", True, "the family's pairs are neighbours"),
)
_DEEPSEEK_FIXED = {**_NO_BIAS, "rotary_interleaved": True}
_V3 = Family(
    defaults={
        **_SILU,
        "first_k_dense_replace": 3,
        "kv_lora_rank": 512,
        "moe_intermediate_size": 2048,
        "n_group": 8,
        "n_routed_experts": 256,
        "n_shared_experts": 1,
        "norm_topk_prob": True,
        "num_experts_per_tok": 8,
        "q_lora_rank": 1536,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "routed_scaling_factor": 2.5,
        "scoring_func": "sigmoid",
        "topk_group": 4,
        "topk_method": "noaux_tc",
        "v_head_dim": 128,
    },
    fixed=_DEEPSEEK_FIXED,
    readers=_DEEPSEEK_READERS,
)

#: model_type -> family.
MIXTURES: Mapping[str, Family] = {
    "mixtral": Family(
        defaults={
            **_SILU,
            "rms_norm_eps": 1e-5,
            "num_key_value_heads": 8,
            "num_experts_per_tok": 2,
            "num_local_experts": 8,
            "rope_theta": 1e6,
        },
        fixed=_NO_BIAS,
        readers=(*_SILU_LIKE, rotary(), uniform_window, _local_experts(False)),
    ),
    "qwen2_moe": Family(
        defaults={
            **_SILU,
            "num_key_value_heads": 16,
            "decoder_sparse_step": 1,
            "moe_intermediate_size": 1408,
            "num_experts": 60,
            "num_experts_per_tok": 4,
            "qkv_bias": True,
            "shared_expert_intermediate_size": 5632,
        },
        fixed={**_RMS, "out_bias": False},
        readers=(
            *_SILU_LIKE,
            rotary(),
            flag("qkv_bias", "qkv_bias"),
            _NO_WINDOW,
            _qwen_experts,
        ),
    ),
    "qwen3_moe": Family(
        defaults={
            **_SILU,
            "num_key_value_heads": 4,
            "decoder_sparse_step": 1,
            "moe_intermediate_size": 768,
            "num_experts": 128,
            "num_experts_per_tok": 8,
        },
        fixed={**_RMS, "qk_norm": "head"},
        readers=(
            *_SILU_LIKE,
            rotary(),
            flag("attention_bias", "qkv_bias", "out_bias"),
            _NO_WINDOW,
            _qwen_experts,
        ),
    ),
    "deepseek_v2": Family(
        defaults={
            **_SILU,
            "first_k_dense_replace": 0,
            "kv_lora_rank": 512,
            "n_routed_experts": 64,
            "n_shared_experts": 2,
            "q_lora_rank": 1536,
            "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64,
            "routed_scaling_factor": 1.0,
            "scoring_func": "softmax",
            "topk_method": "greedy",
            "v_head_dim": 128,
        },
        fixed=_DEEPSEEK_FIXED,
        readers=_DEEPSEEK_READERS,
    ),
    "deepseek_v3": _V3,
    "kimi_k2": _V3,
    "llama4_text": LLAMA_4,
    "glm4_moe": Family(
        defaults={
            **_SILU,
            "rms_norm_eps": 1e-5,
            "first_k_dense_replace": 1,
            "moe_intermediate_size": 1408,
            "n_routed_experts": 128,
            "n_shared_experts": 1,
            "norm_topk_prob": True,
            "num_experts_per_tok": 8,
            "num_key_value_heads": 8,
            "partial_rotary_factor": 0.5,
            "routed_scaling_factor": 1.0,
            "scoring_func": "sigmoid",
            "topk_method": "noaux_tc",
        },
        fixed={**_RMS, "out_bias": False},
        readers=(
            *_SILU_LIKE,
            rotary(fractions=("partial_rotary_factor",)),
            flag("attention_bias", "qkv_bias"),
            lambda config: {
                "qk_norm": "head" if config.flag("use_qk_norm") else "none"
            },
            _deepseek_experts,
            _predictions,
        ),
    ),
    "gpt_oss": Family(
        defaults={
            **_SILU,
            "rms_norm_eps": 1e-5,
            "attention_bias": True,
            "head_dim": 64,
            "num_experts_per_tok": 4,
            "num_key_value_heads": 8,
            "num_local_experts": 128,
            "rope_theta": 150000.0,
            "sliding_window": 128,
            "swiglu_limit": 7.0,
        },
        fixed={**_RMS, "mlp_bias": True, "attention_sinks": True},
        readers=(
            *_COMMON,
            rotary(),
            flag("attention_bias", "qkv_bias", "out_bias"),
            _clamped_gate,
            _alternating_windows,
            _local_experts(True),
        ),
    ),
}

_UNUSED_WINDOW = frozenset({"max_window_layers", "sliding_window"})
#: model_type -> keys without an effect, beside those of all families.
HARMLESS_OF_MIXTURES: Mapping[str, frozenset[str]] = {
    "gpt_oss": frozenset({"experts_per_token", "initial_context_length"}),
    "llama4_text": frozenset({"for_llm_compressor"}),
    "qwen2_moe": _UNUSED_WINDOW,
    "qwen3_moe": _UNUSED_WINDOW,
}

#: model_type -> the layers that hetopt cannot describe.
UNKNOWN_LAYERS = {
    "qwen3_next": "whose layers of linear attention (gated delta rule) hetopt has no "
    "layer for",
    "deepseek_v32": "whose sparse attention (index_topk) hetopt has no layer for",
}
