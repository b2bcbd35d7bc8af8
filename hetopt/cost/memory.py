"""Memory of one unit on one device (MODEL.md section 5).

Estimates tend to be too high. With flash attention and sequence
parallelism, per token and in 16 bits, a layer keeps

    attention   4 h + 4 (query width + kv width)
    mlp-up      4 h + 2 f (4 f gated)
    mlp-down          2 f

and with dropout a mask of h each behind attention and MLP. With masks this is
Korthikanti et al.'s ``s b h (18 + 4 f / h)`` for GPT and FlagScale's ``18 + 6 f / h``
for SwiGLU with full heads, all over cp * tp; less with fewer key and value heads.
``none`` adds the attention's log-sum-exp (4 bytes per head and token); flash attention
keeps no scores, so it is little more than ``selective``. FP8 is counted as BF16, plus
FP8 copies of the weights, except that layers' multiplications keep their inputs in FP8
(``pieces.kernels``): 2 h + f less, and, as the core keeps its own result in 16 bits,
a copy of query width more. ``full`` keeps the input of every unit and has the unit's
working set as a temporary. With granularity ``block`` the units are the blocks, so
``full`` keeps more than with ``layer``: a stage may begin at any block.

Without sequence parallelism, norms, residuals and dropout keep all tokens on every
tensor rank: ``s b h (10 + 24 / t)`` (Korthikanti et al., Table 2). What attention and
loss keep depends on their kernels (``pieces.kernels``). Without dropout, as Megatron's
Llamas run, there are no masks: the peaks measured on B200 have no room for them.

Every layer with a context is counted as keeping it. A stage with several such layers
keeps it once, so this is too much. A piece that merges tokens keeps them twice.

Resharding a boundary may send tensors through an intermediate rank. They are assumed to
be cut into pieces no larger than that rank's own share of the boundary tensor, which
``fixed_bytes`` holds twice per direction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.held_alike import held_alike
from hetopt.cost.pieces.kernels import kernels_of
from hetopt.cost.pieces.kinds import pieces_of
from hetopt.cost.pieces.operations import sum_of
from hetopt.cost.recompute import again_bytes
from hetopt.cost.shapes import Floats, Ints, Shape, element_bytes, vocab_shard
from hetopt.cost.units import unit_operations
from hetopt.problem.model.kinds import EMBEDDING, END_KINDS, HEAD, PREDICTION
from hetopt.problem.model.model import Model
from hetopt.problem.training.choices import BESIDE_BF16

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.problem.cluster.cluster import Offload
    from hetopt.problem.training.choices import Recompute
    from hetopt.problem.training.training import Training

#: Send and receive buffers, for activations and for their gradients.
BOUNDARY_BUFFERS = 4

#: Send and receive buffers of the ring of context parallelism.
RING_BUFFERS = 2

#: Bytes per parameter of a layer's weights in FP8 and their transposes, which
#: Transformer Engine keeps between micro-batches on Hopper; counted by us.
FP8_COPIES = 2

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

    Gradients accumulate in fp32 by default. 16-bit training keeps an fp32 master copy.
    SGD has a momentum.
    """
    moments = 8 if training.optimizer == "adam" else 4
    if training.precision == "fp32":
        return ParameterBytes(weight=4, gradient=4, optimizer=moments)
    gradient = 4 if training.gradients == "fp32" else 2
    return ParameterBytes(weight=2, gradient=gradient, optimizer=4 + moments)


def state_bytes(
    model: Model,
    training: Training,
    kind: str,
    shape: Shape,
    replicas: Ints,
    *,
    alone: NDArray[np.bool_] | None = None,
    offload: Offload | None = None,
) -> Floats:
    """Return the bytes of a unit's weights, gradients and optimizer states; (R,).

    ZeRO shards them over the ranks that hold the same parameters.

    Parameters
    ----------
    replicas
        dp * cp; (R,).
    alone
        Rows that can only be the whole pipeline, where a tied head uses the embedding's
        table; None if there are none.
    offload
        State that is in the hosts' memory and not on devices.
    """
    size = parameter_bytes(training)
    tp, one = shape.tp, np.ones(len(shape.tp))
    optimizer = 0 if offload == "optimizer" else size.optimizer
    copies = FP8_COPIES * (training.precision in BESIDE_BF16 and kind not in END_KINDS)
    found: list[Floats] = []
    for part in held_alike(model, training, kind, shape, replicas):
        over = part.shards if training.zero >= 3 else one
        per_parameter = (
            (size.weight + copies) / over
            + size.gradient / (part.shards if training.zero >= 2 else one)
            + optimizer / (part.shards if training.zero >= 1 else one)
        )
        if found:
            found.append(part.parameters * per_parameter)
            continue
        less = _table_parameters(model, kind, tp, alone)
        found.append((part.parameters + less) * per_parameter)
        if copies and kind == PREDICTION:
            # Its table is only read by lookup: there is no FP8 copy.
            table = model.parts[-1].hidden * vocab_shard(model, tp)
            found.append(-(table + less) * copies / over)
    return np.ceil(sum_of(found))


def _table_parameters(
    model: Model, kind: str, tp: Ints, alone: NDArray[np.bool_] | None
) -> Floats | float:
    """Return what to add to the dense parameters that a unit's pieces have.

    If the whole pipeline is one stage, a tied head and prediction layers use the
    embedding's table. Megatron's report spreads the final norm over all stages, so the
    first stage has a share too.
    """
    if kind == EMBEDDING:
        width = model.parts[-1].hidden
        return float(width * (2 if model.norm == "layer" else 1))
    shares = (kind == HEAD and model.tied) or kind == PREDICTION
    if alone is None or not shares:
        return 0.0
    table = model.parts[-1].hidden * vocab_shard(model, tp)
    return -np.where(alone, table, 0.0)


def weight_bytes(model: Model, training: Training, kind: str, shape: Shape) -> Floats:
    """Return the bytes of tensors that a unit's pending weight gradients need.

    Per micro-batch: of every multiplication the input and the gradient of the result,
    as autograd has them: gathered over ``tp`` if the multiplied tensor is gathered.
    Inputs are as narrow as layers keep them (``Kernels.narrow``); what several
    multiplications read counts once, unless each keeps a narrow copy.
    """
    work = unit_operations(model, training, kind, shape)
    narrow = None if kind in END_KINDS else kernels_of(training).narrow
    kept = np.zeros(len(shape.tp))
    for part in work.multiplications:
        e = part.element_bytes
        again = part.again if narrow is None else False
        width = np.where(again, 0, part.k * (narrow or e)) + part.n * e
        kept = kept + part.count * part.m * width
    return np.ceil(kept)


def temporary_bytes(
    model: Model, training: Training, kind: str, shape: Shape, recompute: Recompute
) -> Floats:
    """Return the peak bytes that a unit needs temporarily, beyond what it keeps.

    They are the input gathered over ``tp``, the gradients of the widest tensors, the
    ring buffers of context parallelism, the working set under full recomputation, up to
    ZeRO-1 an embedding table's whole gradient before it is accumulated, from ZeRO-2 the
    unit's gradient before it is scattered, and with ZeRO-3 its gathered weights.
    """
    e = element_bytes(training.precision)
    pieces = pieces_of(model, training, kind)
    need: Floats = np.maximum.reduce(
        [piece.working_bytes(shape, e, recompute) for piece in pieces]
    )
    for piece in pieces:
        ring = piece.ring_bytes(shape, e)
        if ring is not None:
            need = need + np.where(shape.cp > 1, RING_BUFFERS * ring, 0.0)
    need = need + again_bytes(model, training, kind, shape, recompute)
    if training.zero <= 1:
        for piece in pieces:
            need = need + e * piece.table_elements(shape.tp)
    parameters = sum_of(
        part.parameters
        for part in held_alike(model, training, kind, shape, np.ones_like(shape.tp))
    )
    size = parameter_bytes(training)
    if training.zero >= 2:
        # Autograd makes the gradient in the weights' precision.
        need = need + parameters * size.weight
    if training.zero >= 3:
        need = need + parameters * size.weight * ZERO3_GATHERED_UNITS
    temporary: Floats = np.ceil(need)
    return temporary


def fixed_bytes(model: Model, training: Training, shape: Shape) -> Floats:
    """Return the bytes of a stage's boundary buffers, for the widest possible cut."""
    cuts = dict.fromkeys(model.cuts)
    widest: Floats = np.maximum.reduce(
        [
            sum_of(
                shape.own_tokens(tokens) * width
                for tokens, width in model.cut_tensors(cut, training.seq_len)
            )
            for cut in cuts
        ]
    )
    size: Floats = BOUNDARY_BUFFERS * (widest * element_bytes(training.precision))
    return np.ceil(size)
