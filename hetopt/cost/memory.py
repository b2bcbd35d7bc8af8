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

Whatever passes through an intermediate rank when a boundary is resharded is taken
to be cut into pieces no larger than that rank's own share of the boundary tensor,
which ``fixed_bytes`` holds twice per direction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.operations import (
    BLOCKS,
    element_bytes,
    kv_width,
    query_width,
    sum_of,
    unit_parameters,
    vocab_shard,
)
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
    from hetopt.cost.operations import Floats, Ints, Shape
    from hetopt.problem.training import Recompute, Training

#: Send and receive buffer, for activations and for their gradients.
BOUNDARY_BUFFERS = 4

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
        parameters = parameters + model.hidden * (2 if model.norm == "layer" else 1)
    return np.ceil(parameters * per_parameter)


def activation_bytes(
    model: Model, training: Training, kind: str, shape: Shape, recompute: Recompute
) -> Floats:
    """Bytes kept by one unit from forward to backward of one micro-batch."""
    e = element_bytes(training.precision)
    tokens, own_tokens = _tokens(training, shape)
    if kind == EMBEDDING:
        # Token ids and the dropout mask.
        return tokens * 8 + own_tokens * model.hidden
    if kind == HEAD:
        # Inputs of the norm and of the head; the softmax in fp32.
        logits = tokens * vocab_shard(model, shape.tp)
        return own_tokens * model.hidden * 2 * e + 4 * logits
    if recompute == "full":
        if kind == MLP_DOWN:
            return tokens * model.ffn / shape.tp * e
        return own_tokens * model.hidden * e
    return _kept_bytes(model, training, kind, shape, recompute)


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
    tokens, own_tokens = _tokens(training, shape)
    if kind == LAYER:
        width = np.maximum.reduce(
            [_gradient_width(model, block, shape) for block in BLOCKS]
        )
    else:
        width = _gradient_width(model, kind, shape)
    gathered = np.where(shape.tp > 1, tokens, 0.0) * model.hidden
    need = e * (gathered + own_tokens * model.hidden + tokens * width)
    if kind in (LAYER, ATTENTION):
        ring = np.where(shape.cp > 1, tokens, 0.0) * 4 * kv_width(model, shape.tp)
        need = need + e * ring
    if recompute == "full" and kind not in (EMBEDDING, HEAD):
        need = need + _kept_bytes(model, training, kind, shape, "none")
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
    width = max(model.cut_width(cut) for cut in model.cuts)
    _, own_tokens = _tokens(training, shape)
    tensor = own_tokens * width * element_bytes(training.precision)
    return np.ceil(BOUNDARY_BUFFERS * tensor)


def _tokens(training: Training, shape: Shape) -> tuple[Floats, Floats]:
    """Tokens of a device inside the blocks, and outside them (split by tp)."""
    tokens = shape.microbatch * training.seq_len / shape.cp
    return tokens, tokens / shape.tp


def _kept_bytes(
    model: Model, training: Training, kind: str, shape: Shape, recompute: Recompute
) -> Floats:
    """Bytes kept when the unit is not fully recomputed."""
    if kind == LAYER:
        return sum_of(
            _kept_bytes(model, training, block, shape, recompute) for block in BLOCKS
        )
    e = element_bytes(training.precision)
    tokens, own_tokens = _tokens(training, shape)
    if kind == ATTENTION:
        query = query_width(model) / shape.tp
        core = e * (2 * query + 2 * kv_width(model, shape.tp))
        if recompute == "none":
            core = core + 4 * model.heads / shape.tp
        return own_tokens * model.hidden * (2 * e + 1) + tokens * core
    inner = tokens * model.ffn / shape.tp * e
    if kind == MLP_UP:
        gate = 2 if model.gated else 1
        return own_tokens * model.hidden * 2 * e + inner * gate
    return own_tokens * model.hidden + inner


def _gradient_width(model: Model, kind: str, shape: Shape) -> Floats:
    """Elements per token of the widest tensor whose gradient is held; (R,)."""
    if kind == ATTENTION:
        return query_width(model) / shape.tp + 2 * kv_width(model, shape.tp)
    if kind == MLP_UP:
        return model.ffn / shape.tp * (2 if model.gated else 1)
    if kind == MLP_DOWN:
        return model.ffn / shape.tp
    if kind == HEAD:
        return vocab_shard(model, shape.tp)
    return np.full(len(shape.tp), float(model.hidden))
