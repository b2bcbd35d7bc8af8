"""How much a shard computes and holds: for the time left, and for shapes to refuse.

Coarser than ``hetopt.cost.operations`` on purpose: nothing that is planned rests on
these counts, and they need no numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.cost.profile_table import ATTENTION_CORE
from hetopt.problem.model import (
    ATTENTION,
    EMBEDDING,
    HEAD,
    LAYER,
    MLP_DOWN,
    MLP_UP,
)

if TYPE_CHECKING:
    from hetopt.cost.profile_table import ShardShape

#: Everything saved is also a gradient, and some of it a temporary.
COPIES = 3


def forward_flops(shape: ShardShape) -> float:
    """Return FLOPs of matrix multiplications and attention, forward."""
    flops = 2.0 * shape.tokens * _matrix_elements(shape)
    if shape.unit in (LAYER, ATTENTION, ATTENTION_CORE):
        flops += 2.0 * shape.tokens * shape.seq_len * shape.shard_heads * shape.head_dim
    return flops


def estimated_bytes(shape: ShardShape) -> int:
    """Return what forward and backward hold at once, rather too much than too little.

    Attention is taken to be fused: no square of the sequence length but the mask
    that context parallelism needs.
    """
    element = 4 if shape.dtype == "fp32" else 2
    query = shape.shard_heads * shape.head_dim
    kv = shape.shard_kv_heads * shape.head_dim
    per_token = 0
    if shape.unit in (LAYER, ATTENTION):
        per_token += 4 * shape.hidden + 5 * (query + 2 * kv)
    if shape.unit == ATTENTION_CORE:
        per_token += 3 * (query + 2 * kv)
    if shape.unit in (LAYER, MLP_UP):
        per_token += 3 * shape.hidden + 4 * shape.shard_ffn
    if shape.unit in (LAYER, MLP_DOWN):
        per_token += 3 * shape.hidden + 2 * shape.shard_ffn
    if shape.unit in (EMBEDDING, HEAD):
        per_token += 4 * shape.hidden
    elements = COPIES * (_parameters(shape) + per_token * shape.tokens)
    extra = 0
    if shape.unit == HEAD:
        # Logits, and three copies in 32 bits: cast, logarithm of softmax, gradient.
        extra = shape.tokens * shape.shard_vocab * (2 * element + 12)
    if shape.unit in (LAYER, ATTENTION, ATTENTION_CORE) and shape.cp > 1:
        whole = shape.microbatch * shape.seq_len * 2 * kv * COPIES
        mask = shape.seq_len * (shape.seq_len // (2 * shape.cp))
        extra = whole * element + mask * (1 + element)
    return elements * element + extra


def _parameters(shape: ShardShape) -> int:
    if shape.unit == EMBEDDING:
        return shape.shard_vocab * shape.hidden
    return _matrix_elements(shape)


def _matrix_elements(shape: ShardShape) -> int:
    """Weights that every token is multiplied with."""
    query = shape.shard_heads * shape.head_dim
    kv = shape.shard_kv_heads * shape.head_dim
    parts = {
        ATTENTION: shape.hidden * (2 * query + 2 * kv),
        MLP_UP: shape.hidden * shape.shard_ffn * (2 if shape.gated else 1),
        MLP_DOWN: shape.hidden * shape.shard_ffn,
        HEAD: shape.hidden * shape.shard_vocab,
        EMBEDDING: 0,
        ATTENTION_CORE: 0,
    }
    if shape.unit == LAYER:
        return parts[ATTENTION] + parts[MLP_UP] + parts[MLP_DOWN]
    return parts[shape.unit]
