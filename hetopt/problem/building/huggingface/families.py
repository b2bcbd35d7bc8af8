"""Families of dense decoders: what each computes, by its keys or without saying so."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hetopt.problem.building.huggingface.rotary import FULL, SLIDING, rotary
from hetopt.words import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hetopt.problem.building.huggingface.config import Config

#: A library's name of an activation -> hetopt's.
_ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_fast": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "quick_gelu": "quick-gelu",
    "relu": "relu",
    "relu2": "squared-relu",
}

Fields = dict[str, Any]


def _activation(*keys: str) -> Callable[[Config], Fields]:
    """Return a reader of the activation: of the first of its keys that says one."""

    def read(config: Config) -> Fields:
        given = {key: config.value(key) for key in keys}
        key = next((key for key in keys if given[key] is not None), keys[-1])
        name = given[key]
        if not isinstance(name, str) or name not in _ACTIVATIONS:
            known = ", ".join(_ACTIVATIONS)
            raise config.wrong(key, f"is {describe(name)}, expected one of {known}")
        return {"activation": _ACTIVATIONS[name]}

    return read


def _number(key: str, field: str) -> Callable[[Config], Fields]:
    """Return a reader of one number; nothing is said where it is null."""

    def read(config: Config) -> Fields:
        value = config.number(key)
        return {} if value is None else {field: value}

    return read


def _flag(key: str, *fields: str) -> Callable[[Config], Fields]:
    """Return a reader of true or false."""

    def read(config: Config) -> Fields:
        return dict.fromkeys(fields, config.flag(key))

    return read


def _hidden_dropout(*keys: str) -> Callable[[Config], Fields]:
    """Return a reader of one probability for embeddings and residuals."""

    def read(config: Config) -> Fields:
        first, *others = (config.number(key) or 0.0 for key in keys)
        for key, other in zip(keys[1:], others, strict=True):
            if other != first:
                msg = f"is {other:g}, expected that of {keys[0]} ({first:g})"
                raise config.wrong(key, msg)
        return {"hidden_dropout": first}

    return read


def _neutral(key: str, value: Any, why: str) -> Callable[[Config], Fields]:
    """Return a reader that refuses other values."""

    def read(config: Config) -> Fields:
        config.must_be(key, value, why)
        return {}

    return read


def _window(config: Config) -> Fields:
    """Read a sliding window of all layers (Mistral, Phi-3)."""
    window = config.whole("sliding_window")
    return {} if window is None else {"sliding_window": window}


def _last_windows(config: Config) -> Fields:
    """Read sliding windows that may be switched on for the last layers (Qwen)."""
    layers = config.whole("num_hidden_layers") or 0
    first = config.whole("max_window_layers", least=0) or 0
    fields = _windows(config, list(range(min(first, layers))))
    return fields if config.flag("use_sliding_window") else {}


def _regular_windows(config: Config) -> Fields:
    """Read sliding windows of all but every n-th layer (Gemma-2 and -3)."""
    layers = config.whole("num_hidden_layers") or 0
    every = config.whole("_sliding_window_pattern")
    every = config.whole("sliding_window_pattern") if every is None else every
    full = [layer for layer in range(layers) if every and (layer + 1) % every == 0]
    return _windows(config, full)


def _windows(config: Config, full: list[int]) -> Fields:
    """Return the sliding window, and layers without it if no types are listed."""
    layers = config.whole("num_hidden_layers") or 0
    window, types = config.whole("sliding_window"), config.value("layer_types")
    if types is not None:
        full = _full_by_type(config, types, layers)
        if window is None and len(full) < layers:
            raise config.wrong("sliding_window", "is missing, as layers are sliding")
    if window is None or len(full) == layers:
        return {}
    return {"sliding_window": window, "full_layers": tuple(full)}


def _full_by_type(config: Config, types: Any, layers: int) -> list[int]:
    """Return the layers that attend to all, from a list of types."""
    if not isinstance(types, list) or len(types) != layers:
        msg = f"is {describe(types)}, expected a list of {layers} types"
        raise config.wrong("layer_types", msg)
    for name in types:
        if name not in (FULL, SLIDING):
            msg = f"holds {describe(name)}, expected {FULL} or {SLIDING}"
            raise config.wrong("layer_types", msg)
    return [layer for layer, name in enumerate(types) if name == FULL]


def _query_scale(config: Config) -> Fields:
    """Read ``query_pre_attn_scalar``, whose inverse root scales scores (Gemma)."""
    scalar = config.number("query_pre_attn_scalar")
    if scalar is None or scalar == config.number("head_dim"):
        return {}
    if scalar <= 0:
        raise config.wrong(
            "query_pre_attn_scalar", f"is {scalar:g}, expected more than 0"
        )
    return {"attention_scale": scalar**-0.5}


def _root_of_hidden(config: Config) -> Fields:
    """Embeddings are multiplied with the root of the hidden size (Gemma)."""
    return {"embedding_scale": math.sqrt(config.whole("hidden_size") or 1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Models of one configuration class.

    Attributes
    ----------
    defaults
        What keys stand for where a file leaves them out.
    fixed
        Fields of the model that no key says.
    readers
        Read further fields; none of them leaves a key that it knows unread.
    """

    defaults: Mapping[str, Any] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    readers: tuple[Callable[[Config], Fields], ...] = ()


_RMS_EPS = _number("rms_norm_eps", "norm_eps")
_SCORES_DROPOUT = _number("attention_dropout", "attention_dropout")
_ATTENTION_BIAS = _flag("attention_bias", "qkv_bias", "out_bias")
_SILU_LAYER = (_RMS_EPS, _activation("hidden_act"), _SCORES_DROPOUT)
_LLAMA_LIKE = (*_SILU_LAYER, rotary())
_PARTLY_TURNED = (*_SILU_LAYER, rotary(fractions=("partial_rotary_factor",)))
_GEMMA_LIKE = (_RMS_EPS, _SCORES_DROPOUT, _ATTENTION_BIAS, _root_of_hidden)
_SOFTCAPS = (
    _number("attn_logit_softcapping", "attention_softcap"),
    _number("final_logit_softcapping", "logit_softcap"),
)

_RMS = {"gated": True, "norm": "rms", "mlp_bias": False}
_NO_BIAS = {**_RMS, "qkv_bias": False, "out_bias": False}
_GEMMA = {**_RMS, "norm_zero_centred": True}
_LAYER = {"gated": False, "norm": "layer", "mlp_bias": True}

#: What the library's classes have in common where a file says nothing.
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
        readers=(*_LLAMA_LIKE, _ATTENTION_BIAS, _flag("mlp_bias", "mlp_bias")),
    ),
    "mistral": Family(
        defaults={**_SILU, "num_key_value_heads": 8, "sliding_window": 4096},
        fixed=_NO_BIAS,
        readers=(*_LLAMA_LIKE, _window),
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
        readers=(*_LLAMA_LIKE, _last_windows),
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
        readers=(*_LLAMA_LIKE, _ATTENTION_BIAS, _last_windows),
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
            _activation("hidden_activation", "hidden_act"),
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
            _activation("hidden_activation", "hidden_act"),
            _query_scale,
            _regular_windows,
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
            _activation("hidden_activation", "hidden_act"),
            _query_scale,
            _regular_windows,
        ),
    ),
    "olmo2": Family(
        defaults={**_SILU, "rms_norm_eps": 1e-5},
        fixed={**_RMS, "norm_place": "after", "qk_norm": "all"},
        readers=(*_LLAMA_LIKE, _ATTENTION_BIAS),
    ),
    "glm": Family(
        defaults=_GLM,
        fixed={**_RMS, "out_bias": False, "rotary_interleaved": True},
        readers=(*_PARTLY_TURNED, _flag("attention_bias", "qkv_bias")),
    ),
    "glm4": Family(
        defaults=_GLM,
        fixed={
            **_RMS,
            "out_bias": False,
            "rotary_interleaved": True,
            "norm_place": "both",
        },
        readers=(*_PARTLY_TURNED, _flag("attention_bias", "qkv_bias")),
    ),
    "phi3": Family(
        defaults={**_SILU, "rms_norm_eps": 1e-5},
        fixed=_NO_BIAS,
        readers=(
            *_PARTLY_TURNED,
            _window,
            _hidden_dropout("resid_pdrop", "embd_pdrop"),
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
            _number("layer_norm_epsilon", "norm_eps"),
            _activation("activation_function"),
            _number("attn_pdrop", "attention_dropout"),
            _hidden_dropout("resid_pdrop", "embd_pdrop"),
            _neutral("scale_attn_weights", True, "scores have to be scaled"),
            _neutral(
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
            _number("layer_norm_eps", "norm_eps"),
            _activation("hidden_act"),
            rotary(
                bases=("rope_theta", "rotary_emb_base"),
                fractions=("partial_rotary_factor", "rotary_pct"),
            ),
            _SCORES_DROPOUT,
            _ATTENTION_BIAS,
            _hidden_dropout("hidden_dropout"),
            _flag("use_parallel_residual", "parallel_mlp"),
        ),
    ),
}

#: Keys of a family beside those of all that change nothing: how code is run, or how a
#: head that is not trained here is made.
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
}
