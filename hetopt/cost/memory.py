"""Memory of one unit on one device (MODEL.md section 5).

Nothing is under-estimated on purpose. With flash attention and sequence
parallelism, per token and in 16 bits, a layer keeps

    attention   5 h + 4 (query width + kv width)
    mlp-up      4 h + 2 f (4 f gated)
    mlp-down      h + 2 f

which is Korthikanti et al.'s ``s b h (18 + 4 f / h)`` for GPT and FlagScale's
``18 + 6 f / h`` for SwiGLU with full heads, all over cp * tp; less with fewer key
and value heads. ``none`` adds the attention's log-sum-exp (4 bytes per head and
token); flash attention keeps no scores, so it is little more than ``selective``.
``full`` keeps the input of every unit and has the unit's working set as a
temporary. With granularity ``block`` the units are the blocks, so ``full`` keeps
more than with ``layer``: a stage may begin at any block.

A layer with a context keeps it as well, in every layer: a stage that has many of them
keeps it once, so this is more than it needs. What merges tokens keeps them twice.

Whatever passes through an intermediate rank when a boundary is resharded is taken
to be cut into pieces no larger than that rank's own share of the boundary tensor,
which ``fixed_bytes`` holds twice per direction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.operations import (
    element_bytes,
    kv_width,
    logit_shard,
    query_width,
    results,
    sum_of,
    unit_parameters,
)
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
from hetopt.problem.model import (
    ATTENTION,
    EMBEDDING,
    END_KINDS,
    HEAD,
    MLP_DOWN,
    MLP_UP,
    Model,
)

if TYPE_CHECKING:
    from hetopt.cost.operations import Floats, Ints, Shape
    from hetopt.problem.training import Recompute, Training

#: Send and receive buffer, for activations and for their gradients.
BOUNDARY_BUFFERS = 4

#: A token as data loaders hand it out.
TOKEN_ID_BYTES = 8

#: A unit's weights are gathered while the previous unit still holds its own.
ZERO3_GATHERED_UNITS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterBytes:
    """Bytes per parameter: weight, accumulated gradient, optimizer state."""

    weight: int
    gradient: int
    optimizer: int


def parameter_bytes(training: Training) -> ParameterBytes:
    """Return bytes per parameter; 2 + 4 + 12 for Adam in 16 bits (Megatron-LM).

    Gradients accumulate in fp32. 16-bit training keeps an fp32 master copy. SGD
    has a momentum.
    """
    moments = 8 if training.optimizer == "adam" else 4
    if training.precision == "fp32":
        return ParameterBytes(weight=4, gradient=4, optimizer=moments)
    return ParameterBytes(weight=2, gradient=4, optimizer=4 + moments)


def state_bytes(
    model: Model, training: Training, kind: str, tp: Ints, replicas: Ints
) -> Floats:
    """Weights, gradients and optimizer states; ZeRO shards over replicas = dp * cp."""
    size = parameter_bytes(training)
    one = np.ones(len(tp))
    per_parameter = (
        size.weight / (replicas if training.zero >= 3 else one)
        + size.gradient / (replicas if training.zero >= 2 else one)
        + size.optimizer / (replicas if training.zero >= 1 else one)
    )
    parameters = unit_parameters(model, kind, tp)
    if kind == EMBEDDING:
        # Megatron's report spreads the final norm over all stages, so that the
        # first one has a share too.
        width = model.parts[-1].hidden
        parameters = parameters + width * (2 if model.norm == "layer" else 1)
    return np.ceil(parameters * per_parameter)


def activation_bytes(
    model: Model, training: Training, kind: str, shape: Shape, recompute: Recompute
) -> Floats:
    """Bytes kept by one unit from forward to backward of one micro-batch."""
    pieces = pieces_of(model, training.seq_len, kind)
    if recompute == "full" and kind not in END_KINDS:
        return _input_bytes(training, pieces, shape)
    return _kept_bytes(model, training, pieces, shape, recompute)


def temporary_bytes(
    model: Model, training: Training, kind: str, shape: Shape, recompute: Recompute
) -> Floats:
    """Return the most that a unit needs for a moment, beyond what it keeps.

    That is the input gathered over ``tp``, the gradient of the widest tensor, the
    ring buffers of context parallelism, the working set under full recomputation,
    and with ZeRO-2 and -3 the unit's gradient before it is scattered and its
    gathered weights.
    """
    e = element_bytes(training.precision)
    pieces = pieces_of(model, training.seq_len, kind)
    need: Floats = np.maximum.reduce(
        [e * _working_elements(model, piece, shape) for piece in pieces]
    )
    for piece in pieces:
        if piece.name == ATTENTION:
            tokens = all_tokens(shape, piece.tokens)
            ring = np.where(shape.cp > 1, tokens, 0.0) * 4
            need = need + e * (ring * kv_width(piece.block, shape.tp))
    if recompute == "full" and kind not in END_KINDS:
        need = need + _kept_bytes(model, training, pieces, shape, "none")
    parameters = unit_parameters(model, kind, shape.tp)
    size = parameter_bytes(training)
    if training.zero >= 2:
        need = need + parameters * size.gradient
    if training.zero >= 3:
        need = need + parameters * size.weight * ZERO3_GATHERED_UNITS
    temporary: Floats = np.ceil(need)
    return temporary


def fixed_bytes(model: Model, training: Training, shape: Shape) -> Floats:
    """Buffers of a stage's boundaries, for the widest tensor that can cross one."""
    cuts = dict.fromkeys(model.cuts)
    widest: Floats = np.maximum.reduce(
        [
            sum_of(
                own_tokens(shape, tokens) * width
                for tokens, width in model.cut_tensors(cut, training.seq_len)
            )
            for cut in cuts
        ]
    )
    size: Floats = BOUNDARY_BUFFERS * (widest * element_bytes(training.precision))
    return np.ceil(size)


def _input_bytes(training: Training, pieces: tuple[Piece, ...], shape: Shape) -> Floats:
    """Bytes of what a unit reads: the last unit's output, and the context."""
    e = element_bytes(training.precision)
    first = pieces[0]
    if first.name == MLP_DOWN:
        size = all_tokens(shape, first.tokens) * first.block.ffn / shape.tp * e
    elif first.name == EMBEDDING:
        size = all_tokens(shape, first.tokens) * TOKEN_ID_BYTES
    elif first.name == MERGE:
        size = own_tokens(shape, first.source_tokens) * first.source_hidden * e
    else:
        size = own_tokens(shape, first.tokens) * first.block.hidden * e
    for piece in pieces:
        if piece.name == CROSS_ATTENTION:
            source = own_tokens(shape, piece.source_tokens)
            size = size + source * piece.source_hidden * e
    return size


def _kept_bytes(
    model: Model,
    training: Training,
    pieces: tuple[Piece, ...],
    shape: Shape,
    recompute: Recompute,
) -> Floats:
    """Bytes kept when the unit is not fully recomputed."""
    return sum_of(
        _kept_by_piece(model, training, piece, shape, recompute) for piece in pieces
    )


def _kept_by_piece(
    model: Model, training: Training, piece: Piece, shape: Shape, recompute: Recompute
) -> Floats:
    e = element_bytes(training.precision)
    block, hidden = piece.block, piece.block.hidden
    tokens, own = all_tokens(shape, piece.tokens), own_tokens(shape, piece.tokens)
    query, kv = query_width(block) / shape.tp, kv_width(block, shape.tp)
    scores = 4 * block.heads / shape.tp if recompute == "none" else 0.0
    if piece.name == EMBEDDING:
        # Token ids and the dropout mask.
        return tokens * TOKEN_ID_BYTES + own * hidden
    if piece.name == PATCHES:
        return own * model.patch * e + own * hidden
    if piece.name in (HEAD, CLASSIFIER):
        # Inputs of the norm and of the head; the softmax in fp32.
        rows = results(piece, shape)
        return own * hidden * 2 * e + 4 * (rows * logit_shard(model, shape.tp))
    if piece.name == ATTENTION:
        core = e * (2 * query + 2 * kv) + scores
        return own * hidden * (2 * e + 1) + tokens * core
    if piece.name == CROSS_ATTENTION:
        # Every layer is taken to keep the context, which a stage keeps once.
        source = all_tokens(shape, piece.source_tokens)
        context = own_tokens(shape, piece.source_tokens) * piece.source_hidden * e
        core = tokens * (e * 2 * query + scores) + source * e * 2 * kv
        return own * hidden * (2 * e + 1) + core + context
    if piece.name == MERGE:
        # Inputs of the norm and of the matrix.
        return own_tokens(shape, piece.source_tokens) * piece.source_hidden * 2 * e
    inner = tokens * block.ffn / shape.tp * e
    if piece.name == MLP_UP:
        gate = 2 if block.gated else 1
        return own * hidden * 2 * e + inner * gate
    return own * hidden + inner


def _working_elements(model: Model, piece: Piece, shape: Shape) -> Floats:
    """Elements of the gathered input and of the gradients held at once; (R,)."""
    hidden = piece.block.hidden
    tokens, own = all_tokens(shape, piece.tokens), own_tokens(shape, piece.tokens)
    gathered = np.where(shape.tp > 1, tokens, 0.0) * hidden
    if piece.name == CLASSIFIER:
        logits = logit_shard(model, shape.tp)
        return own * hidden + results(piece, shape) * (hidden + logits)
    if piece.name == PATCHES:
        return own * (hidden + model.patch)
    if piece.name in (CROSS_ATTENTION, MERGE):
        source = all_tokens(shape, piece.source_tokens)
        own_source = own_tokens(shape, piece.source_tokens)
        read = np.where(shape.tp > 1, source, 0.0) + own_source
        if piece.name == MERGE:
            # Joining copies the tokens.
            wide = source * piece.source_hidden + tokens * hidden / shape.tp
        else:
            wide = tokens * query_width(piece.block) / shape.tp
            wide = wide + source * 2 * kv_width(piece.block, shape.tp)
        return gathered + own * hidden + read * piece.source_hidden + wide
    return gathered + own * hidden + tokens * _gradient_width(model, piece, shape)


def _gradient_width(model: Model, piece: Piece, shape: Shape) -> Floats:
    """Elements per token of the widest tensor whose gradient is held; (R,)."""
    block = piece.block
    if piece.name == ATTENTION:
        return query_width(block) / shape.tp + 2 * kv_width(block, shape.tp)
    if piece.name == MLP_UP:
        return block.ffn / shape.tp * (2 if block.gated else 1)
    if piece.name == MLP_DOWN:
        return block.ffn / shape.tp
    if piece.name == HEAD:
        return logit_shard(model, shape.tp)
    return np.full(len(shape.tp), float(block.hidden))
