"""Families of dense decoders: the fields that their keys give, and the fixed ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.problem.building.huggingface.readers import (
    Family,
    activation,
    flag,
    hidden_dropout,
    last_windows,
    neutral,
    number,
    query_scale,
    regular_windows,
    root_of_hidden,
    uniform_window,
    unturned_layers,
)
from hetopt.problem.building.huggingface.rotary import rotary

if TYPE_CHECKING:
    from collections.abc import Mapping

_RMS_EPS = number("rms_norm_eps", "norm_eps")
_SCORES_DROPOUT = number("attention_dropout", "attention_dropout")
_ATTENTION_BIAS = flag("attention_bias", "qkv_bias", "out_bias")
_SILU_LAYER = (_RMS_EPS, activation("hidden_act"), _SCORES_DROPOUT)
_LLAMA_LIKE = (*_SILU_LAYER, rotary())
_LLAMA = (*_LLAMA_LIKE, _ATTENTION_BIAS, flag("mlp_bias", "mlp_bias"))
_PARTLY_TURNED = (*_SILU_LAYER, rotary(fractions=("partial_rotary_factor",)))
_GEMMA_LIKE = (_RMS_EPS, _SCORES_DROPOUT, _ATTENTION_BIAS, root_of_hidden)
_SOFTCAPS = (
    number("attn_logit_softcapping", "attention_softcap"),
    number("final_logit_softcapping", "logit_softcap"),
)

_RMS = {"gated": True, "norm": "rms", "mlp_bias": False}
_NO_BIAS = {**_RMS, "qkv_bias": False, "out_bias": False}
_GEMMA = {**_RMS, "norm_zero_centred": True}
_LAYER = {"gated": False, "norm": "layer", "mlp_bias": True}

#: Defaults that several of the library's configuration classes share.
_SILU = {"hidden_act": "silu", "rms_norm_eps": 1e-6, "tie_word_embeddings": False}
_TANH = {
    "rms_norm_eps": 1e-6,
    "hidden_activation": "gelu_pytorch_tanh",
    "tie_word_embeddings": True,
    "head_dim": 256,
}
_GLM = {
    **_SILU,
    "rms_norm_eps": 1.5625e-07,
    "partial_rotary_factor": 0.5,
    "attention_bias": True,
    "num_key_value_heads": 2,
    "head_dim": 128,
}

#: model_type -> family.
FAMILIES: Mapping[str, Family] = {
    "llama": Family(
        defaults=_SILU,
        fixed={"gated": True, "norm": "rms"},
        readers=_LLAMA,
    ),
    "mistral": Family(
        defaults={**_SILU, "num_key_value_heads": 8, "sliding_window": 4096},
        fixed=_NO_BIAS,
        readers=(*_LLAMA_LIKE, uniform_window),
    ),
    "qwen2": Family(
        defaults={
            **_SILU,
            "num_key_value_heads": 32,
            "use_sliding_window": False,
            "sliding_window": 4096,
            "max_window_layers": 28,
        },
        fixed={**_RMS, "qkv_bias": True, "out_bias": False},
        readers=(*_LLAMA_LIKE, last_windows),
    ),
    "qwen3": Family(
        defaults={
            **_SILU,
            "num_key_value_heads": 32,
            "head_dim": 128,
            "use_sliding_window": False,
            "sliding_window": 4096,
            "max_window_layers": 28,
        },
        fixed={**_RMS, "qk_norm": "head"},
        readers=(*_LLAMA_LIKE, _ATTENTION_BIAS, last_windows),
    ),
    "gemma": Family(
        defaults={
            **_TANH,
            "hidden_activation": None,
            "hidden_act": "gelu_pytorch_tanh",
            "num_key_value_heads": 16,
        },
        fixed=_GEMMA,
        readers=(
            *_GEMMA_LIKE,
            rotary(),
            activation("hidden_activation", "hidden_act"),
        ),
    ),
    "gemma2": Family(
        defaults={
            **_TANH,
            "num_key_value_heads": 4,
            "query_pre_attn_scalar": 256,
            "sliding_window": 4096,
            "sliding_window_pattern": 2,
            "attn_logit_softcapping": 50.0,
            "final_logit_softcapping": 30.0,
        },
        fixed={**_GEMMA, "norm_place": "both"},
        readers=(
            *_GEMMA_LIKE,
            rotary(),
            *_SOFTCAPS,
            activation("hidden_activation", "hidden_act"),
            query_scale,
            regular_windows,
        ),
    ),
    "gemma3_text": Family(
        defaults={
            **_TANH,
            "num_key_value_heads": 4,
            "query_pre_attn_scalar": 256,
            "rope_theta": 1e6,
            "rope_local_base_freq": 1e4,
            "sliding_window": 4096,
            "sliding_window_pattern": 6,
        },
        fixed={**_GEMMA, "norm_place": "both", "qk_norm": "head"},
        readers=(
            *_GEMMA_LIKE,
            rotary(local="rope_local_base_freq"),
            *_SOFTCAPS,
            activation("hidden_activation", "hidden_act"),
            query_scale,
            regular_windows,
        ),
    ),
    "smollm3": Family(
        defaults={
            **_SILU,
            "num_key_value_heads": 4,
            "tie_word_embeddings": True,
            "rope_theta": 2e6,
            "no_rope_layer_interval": 4,
        },
        fixed={"gated": True, "norm": "rms"},
        readers=(*_LLAMA, unturned_layers),
    ),
    "olmo2": Family(
        defaults={**_SILU, "rms_norm_eps": 1e-5},
        fixed={**_RMS, "norm_place": "after", "qk_norm": "all"},
        readers=(*_LLAMA_LIKE, _ATTENTION_BIAS),
    ),
    "glm": Family(
        defaults=_GLM,
        fixed={**_RMS, "out_bias": False, "rotary_interleaved": True},
        readers=(*_PARTLY_TURNED, flag("attention_bias", "qkv_bias")),
    ),
    "glm4": Family(
        defaults=_GLM,
        fixed={
            **_RMS,
            "out_bias": False,
            "rotary_interleaved": True,
            "norm_place": "both",
        },
        readers=(*_PARTLY_TURNED, flag("attention_bias", "qkv_bias")),
    ),
    "phi3": Family(
        defaults={**_SILU, "rms_norm_eps": 1e-5},
        fixed=_NO_BIAS,
        readers=(
            *_PARTLY_TURNED,
            uniform_window,
            hidden_dropout("resid_pdrop", "embd_pdrop"),
        ),
    ),
    "gpt2": Family(
        defaults={
            "tie_word_embeddings": True,
            "activation_function": "gelu_new",
            "layer_norm_epsilon": 1e-5,
            "resid_pdrop": 0.1,
            "embd_pdrop": 0.1,
            "attn_pdrop": 0.1,
        },
        fixed={**_LAYER, "qkv_bias": True, "out_bias": True},
        readers=(
            number("layer_norm_epsilon", "norm_eps"),
            activation("activation_function"),
            number("attn_pdrop", "attention_dropout"),
            hidden_dropout("resid_pdrop", "embd_pdrop"),
            neutral("scale_attn_weights", True, "scores have to be scaled"),
            neutral(
                "scale_attn_by_inverse_layer_idx", False, "layers scale scores alike"
            ),
        ),
    ),
    "gpt_neox": Family(
        defaults={
            "tie_word_embeddings": False,
            "hidden_act": "gelu",
            "layer_norm_eps": 1e-5,
            "rotary_pct": 0.25,
            "attention_bias": True,
            "use_parallel_residual": True,
        },
        fixed=_LAYER,
        readers=(
            number("layer_norm_eps", "norm_eps"),
            activation("hidden_act"),
            rotary(
                bases=("rope_theta", "rotary_emb_base"),
                fractions=("partial_rotary_factor", "rotary_pct"),
            ),
            _SCORES_DROPOUT,
            _ATTENTION_BIAS,
            hidden_dropout("hidden_dropout"),
            flag("use_parallel_residual", "parallel_mlp"),
        ),
    ),
}

#: model_type -> keys without an effect, beside those of all families: they choose an
#: implementation, or describe a head that is not trained here.
HARMLESS_OF: Mapping[str, frozenset[str]] = {
    "gpt2": frozenset(
        {
            "n_ctx",
            "reorder_and_upcast_attn",
            "summary_activation",
            "summary_first_dropout",
            "summary_proj_to_labels",
            "summary_type",
            "summary_use_proj",
        }
    ),
    "phi3": frozenset({"original_max_position_embeddings"}),
    "smollm3": frozenset({"max_window_layers", "sliding_window"}),
}
