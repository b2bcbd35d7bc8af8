"""Properties of a unit that latency profiles time separately."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.cost.shard_shape import ShardShape

#: Copies of every held tensor: itself, its gradient, and for some a temporary.
COPIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiled:
    """A unit that is timed; the counts are rough, and plans do not depend on them.

    Attributes
    ----------
    unit
        Its name in profiles, one of ``shard_shape.UNITS``.
    dense
        Whether it has norms or matrices, whose time depends on the hidden size.
    sizes
        Other sizes of a shard on which its time depends.
    place
        The same as columns of ``features.Shards``, by which distances between shards
        are computed.
    matrix_elements
        Weights that every token is multiplied with.
    table_elements
        Weights that are looked up.
    other_flops
        FLOPs besides those of the matrices.
    held_elements
        Elements per token that forward and backward hold at once.
    held_bytes
        Further bytes that they hold, given the bytes of an element.
    """

    unit: str
    dense: bool = True
    sizes: Callable[[ShardShape], tuple[int, ...]]
    place: tuple[str, ...]
    matrix_elements: Callable[[ShardShape], int] = lambda shape: 0
    table_elements: Callable[[ShardShape], int] = lambda shape: 0
    other_flops: Callable[[ShardShape], int] = lambda shape: 0
    held_elements: Callable[[ShardShape], int]
    held_bytes: Callable[[ShardShape, int], int] = lambda shape, element: 0
