"""What a profile's unit is, and about how much it computes and holds.

Work and memory are coarser than ``hetopt.cost.units`` on purpose: they only weigh
the time left and refuse shapes, and nothing that is planned rests on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.cost.pieces.kinds import profiled_parts
from hetopt.cost.pieces.profiled import COPIES

if TYPE_CHECKING:
    from hetopt.cost.shard_shape import ShardShape


def shard_key(shape: ShardShape) -> tuple[str | int, ...]:
    """Return what a device really computes: equal for shards that take equal time.

    Models and degrees that differ may leave one device the same work; such
    shards are measured once (HAPT, section 5.1).
    """
    parts = profiled_parts(shape.unit)
    key: tuple[str | int, ...] = (shape.unit, shape.dtype)
    if parts[0].dense:
        key += (shape.gated, shape.hidden, shape.tokens, shape.own_tokens)
    return key + tuple(size for part in parts for size in part.sizes(shape))


def place_columns(unit: str) -> tuple[str, ...]:
    """Name the ``sources.features.Shards`` columns that tell this unit's shards apart.

    Shards that differ only in columns their work does not depend on are the same.
    """
    parts = profiled_parts(unit)
    names = ["tokens", "hidden"] if parts[0].dense else ["tokens"]
    names += [name for part in parts for name in part.place]
    return tuple(dict.fromkeys(names))


def forward_flops(shape: ShardShape) -> float:
    """Return FLOPs of matrix multiplications and attention, forward."""
    parts = profiled_parts(shape.unit)
    matrices = sum(part.matrix_elements(shape) for part in parts)
    others = sum(part.other_flops(shape) for part in parts)
    return 2.0 * shape.tokens * matrices + others


def estimated_bytes(shape: ShardShape) -> int:
    """Return what forward and backward hold at once, rather too much than too little.

    Attention is taken to be fused: no square of the sequence length but the mask
    that context parallelism needs.
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
