"""What a model computes beside its sizes, as fields of the ``model`` section."""

from __future__ import annotations

import math
from typing import Annotated, Any, get_args

from pydantic import BeforeValidator, Field, WithJsonSchema

from hetopt.base.words import describe
from hetopt.problem.model.architecture import Activation, NormPlace, QkNorm, ScalingKind
from hetopt.problem.schema.fields import (
    OptionalCount,
    OptionalFlag,
    Strict,
    choice,
    field_error,
    listed,
    optional,
    or_none,
    whole,
)


def read_number(value: Any) -> float:
    """Read a finite number."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise field_error(f"is {describe(value)}, expected a number")


OptionalNumber = Annotated[
    float | None, or_none(read_number), WithJsonSchema({"type": "number"})
]
LayerNumbers = Annotated[
    tuple[int, ...] | None,
    or_none(listed(whole(0))),
    WithJsonSchema({"type": "array", "items": {"type": "integer", "minimum": 0}}),
]


class RotaryScalingSpec(Strict):
    """How rotary frequencies are scaled for longer sequences."""

    kind: Annotated[ScalingKind, BeforeValidator(choice(get_args(ScalingKind)))] = (
        Field(description="linear, llama3, dynamic, yarn or longrope.")
    )
    factor: Annotated[float, BeforeValidator(read_number)] = Field(
        description="How many times longer sequences become."
    )
    low_freq_factor: OptionalNumber = optional("Of llama3; default: 1.")
    high_freq_factor: OptionalNumber = optional("Of llama3; default: 4.")
    original_positions: OptionalCount = optional("Of llama3; default: 8192.")


class ArchitectureSpec(Strict):
    """Norms, positions, attention and activations."""

    activation: Annotated[Activation | None, or_none(choice(get_args(Activation)))] = (
        optional(
            "Of the MLP; default: silu if gated, else GELU in either form "
            "(gelu, gelu-tanh), as a runtime has it."
        )
    )
    gate_clamp: OptionalNumber = optional(
        "Inputs of a gated activation are clamped to it, and 1 is added to "
        "the other factor (GPT-OSS); default: neither."
    )
    norm_eps: OptionalNumber = optional(
        "Added to the variance in norms; default: 1e-5."
    )
    norm_zero_centred: OptionalFlag = optional(
        "Norms multiply with 1 + weight (Gemma); default: false."
    )
    norm_place: Annotated[NormPlace | None, or_none(choice(get_args(NormPlace)))] = (
        optional(
            "Norms before attention and MLP (default), after them (OLMo-2) "
            "or both (Gemma-2, GLM-4)."
        )
    )
    qk_norm: Annotated[QkNorm | None, or_none(choice(get_args(QkNorm)))] = optional(
        "Norm of queries and keys: of each head, of all heads together "
        "(OLMo-2), or l2, without weights (Llama-4); default: none."
    )
    qkv_bias: OptionalFlag = optional(
        "Biases of queries, keys and values; default: if norm is layer."
    )
    out_bias: OptionalFlag = optional(
        "Bias of attention's output; default: if norm is layer."
    )
    mlp_bias: OptionalFlag = optional("Biases of the MLP; default: if norm is layer.")
    parallel_mlp: OptionalFlag = optional(
        "Attention and MLP read the same input (GPT-NeoX); default: false."
    )
    rotary_base: OptionalNumber = optional(
        "Base of rotary frequencies; default: 10000."
    )
    rotary_fraction: OptionalNumber = optional(
        "Share of a head that is rotated; default: 1."
    )
    rotary_interleaved: OptionalFlag = optional(
        "Neighbours form pairs (GLM-4), not a head's halves; default: false."
    )
    rotary_local_base: OptionalNumber = optional(
        "Base in layers with a sliding window (Gemma-3); default: rotary_base."
    )
    rotary_scaling: RotaryScalingSpec | None = optional(
        "How frequencies are scaled; default: not."
    )
    rotary_full_layers: OptionalFlag = optional(
        "full_layers have rotary embeddings, too (not in Llama-4, SmolLM3); "
        "default: true."
    )
    attention_scale: OptionalNumber = optional(
        "Factor of scores; default: 1 / sqrt(head_dim)."
    )
    attention_softcap: OptionalNumber = optional(
        "Scores become cap * tanh(scores / cap); default: no cap."
    )
    logit_softcap: OptionalNumber = optional(
        "The same of logits (Gemma-2); default: no cap."
    )
    attention_sinks: OptionalFlag = optional(
        "The sum of each head's softmax has a further, learned term "
        "(GPT-OSS); default: false."
    )
    sliding_window: OptionalCount = optional(
        "Tokens that a token attends to, itself and those just before; "
        "default: all before it."
    )
    attention_chunk: OptionalCount = optional(
        "Tokens of a chunk, whose tokens attend to those before them in it "
        "alone (Llama-4); default: sequences are whole."
    )
    full_layers: LayerNumbers = optional(
        "Layers, counted from 0, without the window or chunks, or without rotary "
        "embeddings alone if there are neither; default: none."
    )
    attention_temperature: OptionalCount = optional(
        "Number of tokens after which queries without rotary embedding are "
        "scaled up another step (Llama-4); default: they are not scaled up."
    )
    hidden_dropout: OptionalNumber = optional(
        "Of embeddings and the results of attention and MLP; default: 0."
    )
    attention_dropout: OptionalNumber = optional("Of attention's scores; default: 0.")
    embedding_scale: OptionalNumber = optional(
        "What embeddings are multiplied with (Gemma); default: 1."
    )
