"""What one unit computes and holds on one device, per micro-batch.

The counts follow Megatron-LM's sharding with sequence parallelism. Context
parallelism gives every device ``seq_len / cp`` tokens for the projections and the
MLP; only the attention core sees whole keys and values, balanced, so a device does
``1 / cp`` of ``seq_len ** 2``, or of half of that where attention is causal. Tensor
parallelism splits heads and the MLP's inner width; outside the blocks tokens are
split by ``tp`` too. The matrix that merges tokens is split like the MLP's; what
projects image patches is not: each device projects its own.

All counts are numpy arrays over rows of (micro-batch, cp, tp). A unit is the sum of
its pieces (``hetopt.cost.pieces``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hetopt.cost.pieces import (
    CLASSIFIER,
    CROSS_ATTENTION,
    MERGE,
    PATCHES,
    Piece,
    all_tokens,
    own_tokens,
    pieces_of,
)
from hetopt.problem.model import ATTENTION, EMBEDDING, HEAD, MLP_DOWN, MLP_UP, Model

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hetopt.problem.model import Block
    from hetopt.problem.training import Precision, Training

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

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
        The fused attention core (softmax of QK^T, times V); (R,).
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


def query_width(of: Model | Block) -> int:
    """Elements per token of all query heads."""
    return of.heads * of.head_dim


def kv_width(of: Model | Block, tp: Ints) -> Floats:
    """Elements per token of a device's keys (or values); replicated if tp > heads."""
    return np.maximum(of.kv_heads / tp, 1.0) * of.head_dim


def unit_operations(
    model: Model, training: Training, kind: str, shape: Shape
) -> Operations:
    """Count the forward pass of one unit of a kind."""
    e = element_bytes(training.precision)
    pieces = pieces_of(model, training.seq_len, kind)
    parts = [_piece_operations(model, piece, shape, e) for piece in pieces]
    if len(parts) == 1:
        return parts[0]
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


def _piece_operations(model: Model, piece: Piece, shape: Shape, e: int) -> Operations:
    if piece.name in (EMBEDDING, PATCHES, HEAD, CLASSIFIER):
        return _end_operations(model, piece, shape, e)
    block, hidden = piece.block, piece.block.hidden
    tokens, own = all_tokens(shape, piece.tokens), own_tokens(shape, piece.tokens)
    query, kv = query_width(block) / shape.tp, kv_width(block, shape.tp)
    attention_flops = attention_bytes = np.zeros(len(tokens))
    if piece.name == ATTENTION:
        multiplications: tuple[Multiplication, ...] = (
            _multiply(tokens, hidden, query + 2 * kv, e),
            _multiply(tokens, query, hidden, e),
        )
        # QK^T and PV are 2 FLOPs each per pair; causality halves the pairs.
        keys = block.window or piece.tokens
        pairs = tokens * keys * (0.5 if block.attention == "causal" else 1.0)
        attention_flops = 4 * pairs * query
        whole_tokens = tokens * shape.cp
        attention_bytes = e * (2 * tokens * query + 2 * whole_tokens * kv)
        # Norm: read, write. Dropout and residual: two reads, a mask, a write.
        # Rotary embedding: queries and keys read and written.
        elementwise = own * hidden * (5 * e + 1) + tokens * 2 * e * (query + kv)
        kernels = 4
        if block.window:
            # Tokens are put in the order of their windows, and back.
            elementwise = elementwise + own * hidden * 4 * e
            kernels = 6
    elif piece.name == CROSS_ATTENTION:
        source = all_tokens(shape, piece.source_tokens)
        multiplications = (
            _multiply(tokens, hidden, query, e),
            _multiply(source, piece.source_hidden, 2 * kv, e),
            _multiply(tokens, query, hidden, e),
        )
        attention_flops = 4 * tokens * piece.source_tokens * query
        attention_bytes = e * (2 * tokens * query + 2 * source * kv)
        elementwise = own * hidden * (5 * e + 1)
        kernels = 2
    elif piece.name == MLP_UP:
        width = block.ffn / shape.tp
        inner = 2 if block.gated else 1
        multiplications = (_multiply(tokens, hidden, inner * width, e),)
        elementwise = own * hidden * 2 * e + tokens * width * e * (inner + 1)
        kernels = 2
    elif piece.name == MLP_DOWN:
        multiplications = (_multiply(tokens, block.ffn / shape.tp, hidden, e),)
        elementwise = own * hidden * (3 * e + 1)
        kernels = 1
    else:
        joined = block.merge * piece.source_hidden
        multiplications = (_multiply(tokens, joined, hidden / shape.tp, e),)
        # Joining and the norm read and write the tokens.
        source = own_tokens(shape, piece.source_tokens)
        elementwise = source * piece.source_hidden * 4 * e
        kernels = 2
    return Operations(
        multiplications=multiplications,
        attention_flops=attention_flops,
        attention_bytes=attention_bytes,
        elementwise_bytes=elementwise,
        elementwise_backward_bytes=2 * elementwise,
        kernels=kernels,
    )


def _end_operations(model: Model, piece: Piece, shape: Shape, e: int) -> Operations:
    """Count what opens or closes a model."""
    hidden = piece.block.hidden
    tokens, own = all_tokens(shape, piece.tokens), own_tokens(shape, piece.tokens)
    nothing = np.zeros(len(tokens))
    multiplications: tuple[Multiplication, ...] = ()
    if piece.name == EMBEDDING:
        elementwise = tokens * hidden * 2 * e + own * hidden * (2 * e + 1)
        # The table's fp32 gradient is read and written where a token falls.
        backward = elementwise + tokens * hidden * 8
        kernels = 3
    elif piece.name == PATCHES:
        multiplications = (_multiply(own, model.patch, hidden, e),)
        elementwise = own * hidden * (2 * e + 1)
        backward, kernels = elementwise, 2
    else:
        rows = results(piece, shape)
        logits = logit_shard(model, shape.tp)
        norm = own * hidden * 2 * e
        multiplications = (_multiply(rows, hidden, logits, e),)
        elementwise = norm + rows * logits * LOSS_BYTES_FORWARD
        backward = 2 * norm + rows * logits * LOSS_BYTES_BACKWARD
        kernels = 6
    return Operations(
        multiplications=multiplications,
        attention_flops=nothing,
        attention_bytes=nothing,
        elementwise_bytes=elementwise,
        elementwise_backward_bytes=backward,
        kernels=kernels,
    )


def results(piece: Piece, shape: Shape) -> Floats:
    """Rows of logits: one per token, or of a classifier one per sequence; (R,)."""
    if piece.name == HEAD:
        return all_tokens(shape, piece.tokens)
    return shape.microbatch.astype(np.float64)


def unit_parameters(model: Model, kind: str, tp: Ints) -> Floats:
    """Parameters of one unit on one device, before ZeRO shards them; (R,).

    Matrices are split by ``tp``; norms, biases added after a reduction, the position
    table and what projects patches are replicated. Models with LayerNorm are GPT-like
    and have biases; models with RMSNorm have none.
    """
    # How many tokens there are makes no difference.
    pieces = pieces_of(model, 1, kind)
    return sum_of(_piece_parameters(model, piece, tp) for piece in pieces)


def _piece_parameters(model: Model, piece: Piece, tp: Ints) -> Floats:
    block, hidden = piece.block, piece.block.hidden
    vectors = 2 if model.norm == "layer" else 1
    bias = model.norm == "layer"
    norm = np.full(len(tp), float(hidden * vectors))
    query, kv = query_width(block) / tp, kv_width(block, tp)
    parameters: Floats
    if piece.name == ATTENTION:
        inner = query + 2 * kv
        parameters = hidden * (inner + query) + norm + bias * (inner + hidden)
    elif piece.name == CROSS_ATTENTION:
        parameters = 2 * hidden * query + 2 * piece.source_hidden * kv + norm
        parameters = parameters + bias * (query + 2 * kv + hidden)
    elif piece.name == MLP_UP:
        inner = block.ffn / tp * (2 if block.gated else 1)
        parameters = hidden * inner + norm + bias * inner
    elif piece.name == MLP_DOWN:
        parameters = hidden * block.ffn / tp + float(bias * hidden)
    elif piece.name == MERGE:
        joined = block.merge * piece.source_hidden
        parameters = joined * (hidden / tp + float(vectors))
    elif piece.name == EMBEDDING:
        parameters = hidden * (vocab_shard(model, tp) + model.positions)
    elif piece.name == PATCHES:
        rows = model.patch + model.positions + 1
        parameters = np.full(len(tp), float(hidden * rows))
    else:
        logits = logit_shard(model, tp)
        parameters = hidden * logits + norm
        if piece.name == CLASSIFIER:
            parameters = parameters + logits
    return parameters


def model_parameters(model: Model) -> float:
    """Parameters of the whole model; a tied table counts once."""
    one = np.ones(1, dtype=np.int64)
    total = sum(float(unit_parameters(model, kind, one)[0]) for kind in model.units)
    if model.tied:
        total -= (tables(model) - 1) * model.hidden * model.vocab
    return total


def tables(model: Model) -> int:
    """Count copies of the token table: of the embedding, the head, later tokens."""
    later = sum(model.starts(index) for index in range(len(model.blocks)))
    return later + (not model.patch) + (not model.classes)


def vocab_shard(model: Model, tp: Ints) -> Floats:
    """Rows of the vocabulary on one device; the last shard is padded."""
    return np.ceil(model.vocab / tp)


def logit_shard(model: Model, tp: Ints) -> Floats:
    """Return a device's outputs of the head; the last shard is padded."""
    return np.ceil((model.classes or model.vocab) / tp)


def model_flops(model: Model, training: Training) -> float:
    """FLOPs of one iteration, forward and backward, without recomputation.

    Of a decoder-only model ``B s 6 [L (h f e + 2 h^2 (1 + g/a)) + h V] + 6 B s^2 h L``
    with e = 3 for SwiGLU and 2 otherwise (Megatron-LM's count), written with head
    widths so that it holds where heads * head_dim is not the hidden size. Of others
    the same by counting: three times the multiplications of the forward pass.
    """
    if not model.is_decoder_only:
        whole = np.array([training.global_batch])
        shape = Shape(microbatch=whole, cp=np.ones_like(whole), tp=np.ones_like(whole))
        forward = 0.0
        for kind in model.units:
            work = unit_operations(model, training, kind, shape)
            forward += sum(float(part.flops[0]) for part in work.multiplications)
            forward += float(work.attention_flops[0])
        return 3 * forward
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
