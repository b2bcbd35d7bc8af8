"""What one unit computes and holds on one device, per micro-batch.

The counts follow Megatron-LM's sharding with sequence parallelism. Context
parallelism gives every device ``seq_len / cp`` tokens for the projections and the
MLP; only the attention core sees whole keys and values, causally and balanced, so
a device does ``1 / cp`` of half of ``seq_len ** 2``. Tensor parallelism splits
heads and the MLP's inner width; outside the blocks tokens are split by ``tp`` too.

All counts are numpy arrays over rows of (micro-batch, cp, tp). A ``layer`` is
exactly ``attention`` + ``mlp-up`` + ``mlp-down``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hetopt.problem.model import (
    ATTENTION,
    EMBEDDING,
    HEAD,
    LAYER,
    MLP_DOWN,
    MLP_UP,
    Model,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hetopt.problem.training import Precision, Training

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Units that make up one ``layer``.
BLOCKS = (ATTENTION, MLP_UP, MLP_DOWN)

#: Bytes that the loss moves per logit: the cast to fp32, the maximum, the sum of
#: exponentials and the softmax each read or write four bytes; ours, from counting
#: Megatron's vocabulary-parallel cross entropy.
LOSS_BYTES_FORWARD = 20
LOSS_BYTES_BACKWARD = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Rows of shards: sequences per replica, and how a sequence is split; (R,)."""

    microbatch: Ints
    cp: Ints
    tp: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Multiplication:
    """One dense matrix multiplication; (R,).

    Attributes
    ----------
    flops
        Of the forward product, and of each of the two backward ones.
    traffic_bytes
        Device-memory traffic, forward and for the input's gradient.
    weight_gradient_bytes
        The same for the weight's gradient, which is added to an fp32 buffer.
    """

    flops: Floats
    traffic_bytes: Floats
    weight_gradient_bytes: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """Everything the forward pass of one unit does on one device.

    Attributes
    ----------
    multiplications
        Dense matrix multiplications.
    attention_flops, attention_bytes
        The fused attention core (softmax of QK^T, times V), causal; (R,).
    elementwise_bytes, elementwise_backward_bytes
        Memory traffic of norms, residuals, activations, loss; (R,).
    kernels
        Kernels of the forward pass other than multiplications and the core.
    """

    multiplications: tuple[Multiplication, ...]
    attention_flops: Floats
    attention_bytes: Floats
    elementwise_bytes: Floats
    elementwise_backward_bytes: Floats
    kernels: int


def element_bytes(precision: Precision) -> int:
    """Bytes of one activation or weight."""
    return 4 if precision == "fp32" else 2


def query_width(model: Model) -> int:
    """Elements per token of all query heads."""
    return model.heads * model.head_dim


def kv_width(model: Model, tp: Ints) -> Floats:
    """Elements per token of a device's keys (or values); replicated if tp > heads."""
    return np.maximum(model.kv_heads / tp, 1.0) * model.head_dim


def unit_operations(
    model: Model, training: Training, kind: str, shape: Shape
) -> Operations:
    """Count the forward pass of one unit of a kind."""
    if kind == LAYER:
        parts = [unit_operations(model, training, block, shape) for block in BLOCKS]
        return Operations(
            multiplications=tuple(m for part in parts for m in part.multiplications),
            attention_flops=sum_of(part.attention_flops for part in parts),
            attention_bytes=sum_of(part.attention_bytes for part in parts),
            elementwise_bytes=sum_of(part.elementwise_bytes for part in parts),
            elementwise_backward_bytes=sum_of(
                part.elementwise_backward_bytes for part in parts
            ),
            kernels=sum(part.kernels for part in parts),
        )
    e = element_bytes(training.precision)
    hidden, ffn = model.hidden, model.ffn
    tokens = shape.microbatch * training.seq_len / shape.cp
    own_tokens = tokens / shape.tp
    nothing = np.zeros(len(tokens))
    multiplications: tuple[Multiplication, ...] = ()
    attention_flops = attention_bytes = nothing
    if kind == ATTENTION:
        query = query_width(model) / shape.tp
        kv = kv_width(model, shape.tp)
        multiplications = (
            _multiply(tokens, hidden, query + 2 * kv, e),
            _multiply(tokens, query, hidden, e),
        )
        # QK^T and PV are 2 FLOPs each per pair; causality halves the pairs.
        attention_flops = 2 * tokens * training.seq_len * query
        whole_tokens = tokens * shape.cp
        attention_bytes = e * (2 * tokens * query + 2 * whole_tokens * kv)
        # Norm: read, write. Dropout and residual: two reads, a mask, a write.
        # Rotary embedding: queries and keys read and written.
        elementwise = own_tokens * hidden * (5 * e + 1) + tokens * 2 * e * (query + kv)
        kernels = 4
    elif kind == MLP_UP:
        width = ffn / shape.tp
        inner = 2 if model.gated else 1
        multiplications = (_multiply(tokens, hidden, inner * width, e),)
        elementwise = own_tokens * hidden * 2 * e + tokens * width * e * (inner + 1)
        kernels = 2
    elif kind == MLP_DOWN:
        multiplications = (_multiply(tokens, ffn / shape.tp, hidden, e),)
        elementwise = own_tokens * hidden * (3 * e + 1)
        kernels = 1
    elif kind == EMBEDDING:
        elementwise = tokens * hidden * 2 * e + own_tokens * hidden * (2 * e + 1)
        # The table's fp32 gradient is read and written where a token falls.
        return Operations(
            multiplications=(),
            attention_flops=nothing,
            attention_bytes=nothing,
            elementwise_bytes=elementwise,
            elementwise_backward_bytes=elementwise + tokens * hidden * 8,
            kernels=3,
        )
    elif kind == HEAD:
        logits = vocab_shard(model, shape.tp)
        norm = own_tokens * hidden * 2 * e
        return Operations(
            multiplications=(_multiply(tokens, hidden, logits, e),),
            attention_flops=nothing,
            attention_bytes=nothing,
            elementwise_bytes=norm + tokens * logits * LOSS_BYTES_FORWARD,
            elementwise_backward_bytes=2 * norm + tokens * logits * LOSS_BYTES_BACKWARD,
            kernels=6,
        )
    else:
        msg = f"unknown unit kind {kind!r}"
        raise ValueError(msg)
    return Operations(
        multiplications=multiplications,
        attention_flops=attention_flops,
        attention_bytes=attention_bytes,
        elementwise_bytes=elementwise,
        elementwise_backward_bytes=2 * elementwise,
        kernels=kernels,
    )


def unit_parameters(model: Model, kind: str, tp: Ints) -> Floats:
    """Parameters of one unit on one device, before ZeRO shards them; (R,).

    Matrices are split by ``tp``; norms, biases added after a reduction and the
    position table are replicated. Models with LayerNorm are GPT-like and have
    biases; models with RMSNorm have none.
    """
    if kind == LAYER:
        return sum_of(unit_parameters(model, block, tp) for block in BLOCKS)
    hidden = model.hidden
    vectors = 2 if model.norm == "layer" else 1
    bias = model.norm == "layer"
    norm = np.full(len(tp), float(hidden * vectors))
    parameters: Floats
    if kind == ATTENTION:
        query = query_width(model) / tp
        inner = query + 2 * kv_width(model, tp)
        parameters = hidden * (inner + query) + norm + bias * (inner + hidden)
    elif kind == MLP_UP:
        inner = model.ffn / tp * (2 if model.gated else 1)
        parameters = hidden * inner + norm + bias * inner
    elif kind == MLP_DOWN:
        parameters = hidden * model.ffn / tp + float(bias * hidden)
    elif kind == EMBEDDING:
        parameters = hidden * (vocab_shard(model, tp) + model.positions)
    elif kind == HEAD:
        parameters = hidden * vocab_shard(model, tp) + norm
    else:
        msg = f"unknown unit kind {kind!r}"
        raise ValueError(msg)
    return parameters


def vocab_shard(model: Model, tp: Ints) -> Floats:
    """Rows of the vocabulary on one device; the last shard is padded."""
    return np.ceil(model.vocab / tp)


def model_flops(model: Model, training: Training) -> float:
    """FLOPs of one iteration, forward and backward, causal, without recomputation.

    ``B s 6 [L (h f e + 2 h^2 (1 + g/a)) + h V] + 6 B s^2 h L`` with e = 3 for SwiGLU
    and 2 otherwise (Megatron-LM's count), written with head widths so that
    it holds where heads * head_dim is not the hidden size.
    """
    query = query_width(model)
    kv = model.kv_heads * model.head_dim
    mlp = model.hidden * model.ffn * (3 if model.gated else 2)
    attention = 2 * model.hidden * (query + kv)
    tokens = training.global_batch * training.seq_len
    dense = model.layers * (mlp + attention) + model.hidden * model.vocab
    core = training.seq_len * query * model.layers
    return 6.0 * tokens * (dense + core)


def sum_of(arrays: Iterable[Floats]) -> Floats:
    """Add arrays of one shape."""
    total: Floats = np.add.reduce(list(arrays))
    return total


def _multiply(m: Floats, k: Floats | int, n: Floats | int, e: int) -> Multiplication:
    """Return the (m, k) x (k, n) multiplication."""
    return Multiplication(
        flops=2.0 * m * k * n,
        traffic_bytes=e * (m * k + k * n + m * n),
        weight_gradient_bytes=e * (m * k + m * n) + 8 * k * n,
    )
