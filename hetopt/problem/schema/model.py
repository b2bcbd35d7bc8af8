"""The ``model`` section of the problem file as pydantic models."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from hetopt.base.words import describe
from hetopt.problem.schema.architecture import ArchitectureSpec
from hetopt.problem.schema.experts import ExpertsSpec, LatentSpec
from hetopt.problem.schema.fields import (
    LayerCount,
    Name,
    OptionalAttention,
    OptionalCount,
    OptionalFlag,
    OptionalGranularity,
    OptionalLayerCount,
    OptionalName,
    OptionalNorm,
    Strict,
    field_error,
    optional,
    or_none,
    whole,
)


def preset_if_text(value: Any) -> Any:
    """Return a mapping with a text as its preset; other values unchanged."""
    return {"preset": value} if isinstance(value, str) else value


class BlockSpec(Strict):
    """Layers of one kind; sizes that it does not give are those of the whole model."""

    name: Name = Field(
        description="The kind of its layers: lower-case letters, digits and -."
    )
    layers: LayerCount = Field(description="The number of layers.")
    hidden: OptionalCount = optional("Hidden size.")
    heads: OptionalCount = optional("Attention heads.")
    kv_heads: OptionalCount = optional("Default: heads.")
    head_dim: OptionalCount = optional("Default: hidden / heads.")
    ffn: OptionalCount = optional("Inner size of the MLP.")
    gated: OptionalFlag = optional("true: an MLP of three matrices.")
    attention: OptionalAttention = optional("causal (default) or bidirectional.")
    window: OptionalCount = optional(
        "Tokens that attend to each other; default: the sequence."
    )
    merge: OptionalCount = optional(
        "Tokens of the block before that become one token here, by a "
        "matrix that may change the width; default: 1."
    )
    context: OptionalName = optional(
        "Block before, whose output every layer here attends to as well; "
        "the first such block starts from tokens of its own (an encoder's decoder)."
    )


class SizesSpec(Strict):
    """A model's source, sizes, inputs and outputs."""

    preset: OptionalName = optional("Name from `hetopt catalog`.")
    hf_config: OptionalName = optional(
        "Hugging Face config.json, relative to this file."
    )
    name: OptionalName = optional("Label for reports.")
    layers: OptionalLayerCount = optional("Transformer layers.")
    hidden: OptionalCount = optional("Hidden size.")
    heads: OptionalCount = optional("Attention heads.")
    kv_heads: OptionalCount = optional("Key-value heads (GQA); default: heads.")
    head_dim: OptionalCount = optional("Size of a head; default: hidden / heads.")
    ffn: OptionalCount = optional(
        "Inner size of the MLP; default: 4 hidden, or for a gated MLP "
        "Llama's rule, 8/3 hidden rounded up to a multiple of 256."
    )
    vocab: OptionalCount = optional(
        "Vocabulary size; default: 32000, none with patch and classes."
    )
    gated: OptionalFlag = optional(
        "true: an MLP of three matrices (default); false: of two."
    )
    tied: OptionalFlag = optional(
        "Embedding table is also the output head; default: false."
    )
    norm: OptionalNorm = optional("Default: rms if gated, else layer.")
    positions: Annotated[int | None, or_none(whole(0))] = optional(
        "Length of a learned position table; default: 0, rotary."
    )
    granularity: OptionalGranularity = optional(
        "What the pipeline is cut into; layer (default): whole layers; "
        "block: attention, first and second MLP matrix are units of their own."
    )
    attention: OptionalAttention = optional(
        "causal (default): tokens attend to those before them; "
        "bidirectional: to all of the sequence."
    )
    patch: OptionalCount = optional(
        "Numbers in an image patch (its area times channels), which is "
        "projected to a token; default: tokens are looked up in a table."
    )
    classes: OptionalCount = optional(
        "Outputs of a classifier of whole sequences; default: a "
        "vocabulary, and a loss for every token."
    )
    blocks: tuple[BlockSpec, ...] | None = optional(
        "Layers of several kinds in pipeline order; the fields above are "
        "their defaults."
    )

    experts: ExpertsSpec | None = optional(
        "Routed experts in place of the MLP; default: none."
    )
    latent: LatentSpec | None = optional(
        "Sizes of multi-head latent attention; default: heads have keys "
        "and values of their own."
    )
    predictions: Annotated[int | None, or_none(whole(0))] = optional(
        "Layers that predict further tokens, behind the last one and of "
        "its kind (DeepSeek-V3); default: 0."
    )

    @field_validator("blocks", mode="before")
    @classmethod
    def _list(cls, value: Any) -> Any:
        if value is not None and (not isinstance(value, list) or not value):
            what = "an empty list" if value == [] else describe(value)
            raise field_error(f"is {what}, expected a list of at least one block")
        return value


class ModelSpec(ArchitectureSpec, SizesSpec):
    """A transformer: a preset, a config.json, or its fields.

    Fields beside ``preset`` or ``hf_config`` override what that gives.
    """

    _text = model_validator(mode="before")(preset_if_text)
