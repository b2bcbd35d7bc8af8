"""Keys of a profile's shards, and rough estimates of their work and memory.

The estimates are coarser than ``hetopt.cost.units`` on purpose: they only weight shards
in the time left and exclude shapes, and plans do not depend on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.cost.pieces.kinds import profiled_parts
from hetopt.cost.pieces.profiled import COPIES

if TYPE_CHECKING:
    from hetopt.cost.shard_shape import ShardShape


def shard_key(shape: ShardShape) -> tuple[str | int, ...]:
    """Return a key that is equal for shards with the same work on one device.

    Different models and degrees may give one device the same work; such shards are
    measured once (HAPT, section 5.1).
    """
    parts = profiled_parts(shape.unit)
    key: tuple[str | int, ...] = (shape.unit, shape.dtype)
    if parts[0].dense:
        key += (shape.gated, shape.hidden, shape.tokens, shape.own_tokens)
    return key + tuple(size for part in parts for size in part.sizes(shape))


def place_columns(unit: str) -> tuple[str, ...]:
    """Return the columns of ``features.Shards`` on which a unit's work depends.

    Shards that differ only in other columns are the same.
    """
    parts = profiled_parts(unit)
    names = ["tokens", "hidden"] if parts[0].dense else ["tokens"]
    names += [name for part in parts for name in part.place]
    return tuple(dict.fromkeys(names))


def forward_flops(shape: ShardShape) -> float:
    """Return the forward FLOPs of matrix multiplications and attention."""
    parts = profiled_parts(shape.unit)
    matrices = sum(part.matrix_elements(shape) for part in parts)
    others = sum(part.other_flops(shape) for part in parts)
    return 2.0 * shape.tokens * matrices + others


def estimated_bytes(shape: ShardShape) -> int:
    """Return a high estimate of the bytes that forward and backward hold at once.

    Attention is assumed to be fused: only the mask of context parallelism grows with
    the square of the sequence length.
    """
    element = 4 if shape.dtype == "fp32" else 2
    parts = profiled_parts(shape.unit)
    elements = sum(
        part.matrix_elements(shape)
        + part.table_elements(shape)
        + part.held_elements(shape) * shape.tokens
        for part in parts
    )
    others = sum(part.held_bytes(shape, element) for part in parts)
    return COPIES * elements * element + others
