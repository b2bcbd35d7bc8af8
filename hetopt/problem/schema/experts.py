"""Routed experts and latent attention as fields of the ``model`` section."""

from __future__ import annotations

from typing import Annotated, Any, get_args

from pydantic import Field, WithJsonSchema

from hetopt.problem.model.experts import Scores
from hetopt.problem.schema.architecture import OptionalNumber
from hetopt.problem.schema.fields import (
    MAX_LAYERS,
    Count,
    OptionalCount,
    OptionalFlag,
    Strict,
    choice,
    listed,
    optional,
    or_none,
    whole,
)

_FROM_ZERO = {"type": "integer", "minimum": 0}


def _read_layers(value: Any) -> int | tuple[int, ...]:
    """Read a number of first layers, or a list of layers."""
    if isinstance(value, list | tuple):
        return listed(whole(0, MAX_LAYERS))(value)
    return whole(0, MAX_LAYERS)(value)


_OptionalCountFromZero = Annotated[
    int | None, or_none(whole(0)), WithJsonSchema(_FROM_ZERO)
]
_Layers = Annotated[
    int | tuple[int, ...] | None,
    or_none(_read_layers),
    WithJsonSchema({"anyOf": [_FROM_ZERO, {"type": "array", "items": _FROM_ZERO}]}),
]


class ExpertsSpec(Strict):
    """Layers with routed experts instead of an MLP; a router chooses some per token."""

    number: Count = Field(description="Routed experts of a layer.")
    per_token: Count = Field(description="Experts that a token is sent to.")
    ffn: Count = Field(description="Inner size of a routed expert.")
    shared_ffn: _OptionalCountFromZero = optional(
        "Inner size of the shared experts together, which all tokens pass; "
        "default: 0, there are none."
    )
    shared_gate: OptionalFlag = optional(
        "The shared experts' result has a weight of its own (Qwen2-MoE); "
        "default: false."
    )
    groups: _OptionalCountFromZero = optional(
        "Groups of experts, of which a token's are in groups_per_token "
        "(DeepSeek-V2 and -V3, a group on every node); default: 0, no limit."
    )
    groups_per_token: _OptionalCountFromZero = optional(
        "Groups that a token's experts are in; default: 0, no limit."
    )
    router_bias: OptionalFlag = optional(
        "The router has a number for each expert; default: false."
    )
    scores: Annotated[Scores | None, or_none(choice(get_args(Scores)))] = optional(
        "Weights of experts are a softmax (default) or sigmoid."
    )
    normalised: OptionalFlag = optional(
        "Weights of a token's experts add up to 1 before scale; default: true."
    )
    scale: OptionalNumber = optional("What weights are multiplied with; default: 1.")
    weighted_input: OptionalFlag = optional(
        "A token is weighted before its experts (Llama-4), not their "
        "results; default: false."
    )
    dense_layers: _Layers = optional(
        "Layers with one MLP for all tokens, of inner size ffn of the "
        "model: so many from the first on, or a list, counted from 0; default: none."
    )
    every: OptionalCount = optional(
        "Every n-th layer is routed (2: the second, the fourth, ...); "
        "default: 1, all but dense_layers."
    )


class LatentSpec(Strict):
    """Multi-head latent attention (DeepSeek-V2)."""

    kv_lora: Count = Field(
        description="Width of the vector that keys and values are made of."
    )
    qk_dim: Count = Field(
        description="Numbers of a head's query and key without rotary embedding."
    )
    rope_dim: Count = Field(
        description="Numbers of a head's query and key with rotary embedding."
    )
    v_dim: Count = Field(description="Numbers of a head's value.")
    q_lora: _OptionalCountFromZero = optional(
        "Width of the vector that queries are made of; default: 0, they "
        "are made of the token."
    )
