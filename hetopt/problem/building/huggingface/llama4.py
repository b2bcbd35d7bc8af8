"""Llama-4's text models: chunks of tokens, and experts in all or every other layer.

Defaults of keys are those of the family's configuration class, and layers compute what
its modelling class does (transformers, ``models/llama4``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.problem.building.huggingface.readers import (
    Family,
    Fields,
    activation,
    flag,
    layer_numbers,
    needed,
    number,
    turned_layers,
)
from hetopt.problem.building.huggingface.rotary import rotary

if TYPE_CHECKING:
    from hetopt.problem.building.huggingface.config import Config


def _experts(config: Config) -> Fields:
    """Read the layers with experts; a shared expert is as wide as a routed one.

    ``intermediate_size`` is the width of an expert, not of the other layers' MLP.
    """
    layers = config.whole("num_hidden_layers") or 0
    every = config.whole("interleave_moe_layer_step") or 1
    routed = layer_numbers(config, "moe_layers", layers)
    routed = routed or frozenset(range(every - 1, layers, every))
    ffn = needed(config, "intermediate_size")
    return {
        "ffn": needed(config, "intermediate_size_mlp"),
        "experts": {
            "number": needed(config, "num_local_experts"),
            "per_token": needed(config, "num_experts_per_tok"),
            "ffn": ffn,
            "shared_ffn": ffn,
            "scores": "sigmoid",
            "normalised": False,
            "weighted_input": True,
            "dense_layers": tuple(i for i in range(layers) if i not in routed),
        },
    }


def _attention(config: Config) -> Fields:
    """Read the chunk size and the layers of full attention without rotary."""
    turned = turned_layers(config)
    types = ["chunked_attention" if each else "full_attention" for each in turned]
    why = "layers attend within chunks if they have rotary embeddings"
    if config.value("layer_types") is not None:
        config.must_be("layer_types", types, why)
    config.must_be("attn_scale", 0.1, "this family fixes the scale of queries")
    full = tuple(layer for layer, each in enumerate(turned) if not each)
    chunk, floor = config.whole("attention_chunk_size"), config.whole("floor_scale")
    if chunk is None:
        msg = "is missing, expected the tokens of a chunk"
        raise config.wrong("attention_chunk_size", msg)
    # Released files have true here, or 4, the interval of layers: both mean yes.
    grows = bool(config.value("attn_temperature_tuning")) and bool(full)
    return {
        "attention_chunk": chunk,
        "full_layers": full,
        "rotary_full_layers": not full,
        "qk_norm": "l2" if config.flag("use_qk_norm") else "none",
        **({"attention_temperature": floor} if grows else {}),
    }


LLAMA_4 = Family(
    defaults={
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "rms_norm_eps": 1e-5,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "rope_theta": 500000.0,
        "intermediate_size_mlp": 16384,
        "interleave_moe_layer_step": 1,
        "num_experts_per_tok": 1,
        "num_local_experts": 16,
        "no_rope_layer_interval": 4,
        "attention_chunk_size": 8192,
        "attn_scale": 0.1,
        "attn_temperature_tuning": True,
        "floor_scale": 8192,
        "use_qk_norm": True,
    },
    fixed={"gated": True, "norm": "rms", "mlp_bias": False, "rotary_interleaved": True},
    readers=(
        number("rms_norm_eps", "norm_eps"),
        number("attention_dropout", "attention_dropout"),
        activation("hidden_act"),
        rotary(),
        flag("attention_bias", "qkv_bias", "out_bias"),
        _attention,
        _experts,
    ),
)
