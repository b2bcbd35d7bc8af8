"""Units of a Hugging Face Llama, for ``--units llama_units.py:build_unit``.

An example of how to use your own model. It needs ``transformers`` (tested with 5.23)
and uses its layers unchanged, whole on every rank, so the plan must have cp = tp = 1
(pin both). They keep more for their backward pass than hetopt's table counts.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from program.attention import recomputed
from program.groups import Place
from torch import Tensor, nn


def build_unit(index: int, place: Place) -> nn.Module:
    """Return the unit of this index: 0 the embedding, then layers, last the head.

    Raises
    ------
    ValueError
        A stage of the plan splits layers.
    """
    if place.job.kind(index) not in ("embedding", "layer", "head"):
        msg = (
            "units of a Hugging Face Llama are whole layers, and the plan's are parts "
            "of layers: plan with granularity: layer"
        )
        raise ValueError(msg)
    if place.plan.cp > 1 or place.plan.tp > 1:
        msg = (
            f"stage {place.stage} has cp {place.plan.cp} and tp {place.plan.tp}, but "
            "units of a Hugging Face Llama are whole: pin cp and tp to 1"
        )
        raise ValueError(msg)
    # The same weights on all replicas, independent of the plan.
    torch.manual_seed(index)
    if index == 0:
        return Embedding(place)
    if index == place.job.units - 1:
        return Head(place)
    return Layer(index, place)


def config_of(place: Place) -> Any:
    """Return the configuration with the model's sizes."""
    from transformers import LlamaConfig

    model = place.job.model
    return LlamaConfig(
        hidden_size=model["hidden"],
        intermediate_size=model["ffn"],
        num_hidden_layers=model["layers"],
        num_attention_heads=model["heads"],
        num_key_value_heads=model["kv_heads"],
        head_dim=model["head_dim"],
        vocab_size=model["vocab"],
        max_position_embeddings=place.job.seq_len,
        rms_norm_eps=model["norm_eps"],
        rope_parameters={"rope_type": "default", "rope_theta": model["rotary_base"]},
        attn_implementation="sdpa",
    )


def table_of(place: Place) -> nn.Parameter:
    """Return a token table; a tied one is drawn alike on both stages that have it."""
    if place.job.model["tied"]:
        torch.manual_seed(0)
    weight = torch.empty(place.job.model["vocab"], place.job.model["hidden"])
    table = nn.Parameter(nn.init.normal_(weight, std=0.02))
    if place.job.model["tied"]:
        table.tied_rows = range(len(table))
    return table


class Embedding(nn.Module):
    """Tokens to (b, n, h)."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.table = table_of(place)

    def forward(self, tokens: Tensor) -> Tensor:
        """Look up (b, n)."""
        return F.embedding(tokens, self.table)


class Layer(nn.Module):
    """One of transformers' decoder layers."""

    def __init__(self, index: int, place: Place) -> None:
        super().__init__()
        from transformers.models.llama import modeling_llama

        config = config_of(place)
        self.layer = modeling_llama.LlamaDecoderLayer(config, index - 1)
        self.rotary = modeling_llama.LlamaRotaryEmbedding(config)
        self.again = place.plan.recompute == "full"

    def forward(self, x: Tensor) -> Tensor:
        """Run on (b, n, h)."""
        y: Tensor = recomputed(self._run, x) if self.again else self._run(x)
        return y

    def _run(self, x: Tensor) -> Tensor:
        positions = torch.arange(x.shape[1], device=x.device)[None]
        turned = self.rotary(x, positions)
        y: Tensor = self.layer(x, position_embeddings=turned)
        return y


class Head(nn.Module):
    """The last norm, the logits and the loss."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        from transformers.models.llama import modeling_llama

        config = config_of(place)
        self.norm = modeling_llama.LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.table = table_of(place)

    def forward(self, x: Tensor, targets: Tensor) -> Tensor:
        """Return the sum of the losses of all tokens."""
        logits = F.linear(self.norm(x), self.table).float()
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
