"""Work of one unit on one device, per micro-batch: the sum over its pieces.

The counts follow Megatron-LM's sharding with sequence parallelism. Context
parallelism gives every device ``seq_len / cp`` tokens for the projections and the
MLP; only the attention core sees whole keys and values, balanced, so a device does
``1 / cp`` of ``seq_len ** 2``, or of half of that if attention is causal. Tensor
parallelism splits heads and the MLP's inner width; outside the pieces tokens are
split by ``tp`` too.

All counts are numpy arrays over rows of (micro-batch, cp, tp).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.cost.pieces.kinds import pieces_of
from hetopt.cost.pieces.operations import Operations, sum_of
from hetopt.cost.shapes import Floats, Ints, Shape, element_bytes
from hetopt.problem.training.training import Training

if TYPE_CHECKING:
    from hetopt.problem.model.model import Model


#: The number of parameters does not depend on the training settings.
_ANY = Training(global_batch=1, seq_len=1)


def unit_operations(
    model: Model, training: Training, kind: str, shape: Shape
) -> Operations:
    """Count the operations of the forward pass of one unit of the kind."""
    e = element_bytes(training.precision)
    pieces = pieces_of(model, training, kind)
    parts = [piece.operations(shape, e) for piece in pieces]
    return Operations(
        multiplications=tuple(m for part in parts for m in part.multiplications),
        cores=tuple(core for part in parts for core in part.cores),
        elementwise=tuple(moved for part in parts for moved in part.elementwise),
    )


def unit_parameters(model: Model, kind: str, tp: Ints) -> Floats:
    """Return the parameters of a unit on one device, before ZeRO shards them; (R,).

    Matrices are split by ``tp``; norms, biases added after a reduction, the position
    table and the patch projection are replicated.
    """
    return sum_of(piece.parameters(tp) for piece in pieces_of(model, _ANY, kind))


def unit_expert_parameters(model: Model, kind: str, shape: Shape) -> Floats | None:
    """Return the parameters of a unit's routed experts, if any, on a device; (R,)."""
    if not model.has_experts(kind):
        return None
    pieces = pieces_of(model, _ANY, kind)
    return sum_of(piece.expert_parameters(shape) for piece in pieces)


def tables(model: Model) -> int:
    """Count copies of the token table: of the embedding, the head and later blocks."""
    later = sum(model.starts(index) for index in range(len(model.blocks)))
    return later + (not model.patch) + (not model.classes)
