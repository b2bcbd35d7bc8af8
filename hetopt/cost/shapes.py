"""Shapes of shards as arrays, and the widths of what a shard holds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Self

    from hetopt.problem.model.block import Block
    from hetopt.problem.model.model import Model
    from hetopt.problem.training.choices import Precision

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: Multiplier of the hash: 2**64 over the golden ratio, which is odd.
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def _one() -> Ints:
    return np.ones(1, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Rows of shards: sequences per replica, and how a sequence is split; (R,).

    Attributes
    ----------
    sequence_parallel
        Whether tokens are split by tp between pieces; else every rank has them all.
    ep, etp
        Ranks over which routed experts are spread, and ranks that split each expert's
        matrices; (R,), or (1,) if all rows have the same.
    """

    microbatch: Ints
    cp: Ints
    tp: Ints
    sequence_parallel: bool = True
    ep: Ints = field(default_factory=_one)
    etp: Ints = field(default_factory=_one)

    @classmethod
    def of(
        cls, rows: Iterable[Sequence[int]], *, sequence_parallel: bool = True
    ) -> Self:
        """Return the shape of rows of (microbatch, cp, tp), optionally with ep, etp."""
        numbers = np.array(list(rows), dtype=np.int64)
        numbers = numbers.reshape(len(numbers), numbers.shape[1] if len(numbers) else 3)
        microbatch, cp, tp, *experts = numbers.T
        return cls(
            microbatch=microbatch,
            cp=cp,
            tp=tp,
            sequence_parallel=sequence_parallel,
            **dict(zip(("ep", "etp"), experts, strict=bool(experts))),
        )

    @property
    def columns(self) -> tuple[Ints, ...]:
        """Numbers in which shards differ; (R,) each."""
        numbers = (self.microbatch, self.cp, self.tp, self.ep, self.etp)
        return tuple(np.broadcast_to(part, self.tp.shape) for part in numbers)

    def take(self, rows: NDArray[np.intp]) -> Self:
        """Return some of the rows, in the order of ``rows``."""
        microbatch, cp, tp, ep, etp = (part[rows] for part in self.columns)
        return replace(self, microbatch=microbatch, cp=cp, tp=tp, ep=ep, etp=etp)

    def all_tokens(self, tokens: int) -> Floats:
        """Return a device's tokens inside a piece, of ``tokens`` per sequence; (R,)."""
        here: Floats = self.microbatch * tokens / self.cp
        return here

    def own_tokens(self, tokens: int) -> Floats:
        """Return a device's tokens between pieces; the last tensor rank is padded."""
        parts = self.cp * (self.tp if self.sequence_parallel else 1)
        shares: Floats = np.ceil(tokens / parts)
        return self.microbatch * shares

    def gathered_tokens(self, tokens: int) -> Floats:
        """Return a device's tokens after a gather over tp; 0 if there is none."""
        gathers = (self.tp > 1) & self.sequence_parallel
        return np.where(gathers, self.all_tokens(tokens), 0.0)


def distinct_rows(columns: Iterable[NDArray[Any]]) -> tuple[Ints, Ints]:
    """Find the distinct rows of numbers.

    Sorting a million rows takes seconds; so a hash of each row is sorted. If rows with
    equal hashes differ, the rows themselves are sorted after all.

    Parameters
    ----------
    columns
        (R,) each.

    Returns
    -------
    The first of every set of equal rows, in any order; and for each row the index of
    its set, (R,).
    """
    whole = [np.ascontiguousarray(column, dtype=np.float64) for column in columns]
    mixed = np.zeros(len(whole[0]), dtype=np.uint64)
    for column in whole:
        # Adding 0.0 makes -0.0 and 0.0 equal in their bits.
        mixed = (mixed ^ (column + 0.0).view(np.uint64)) * _MULTIPLIER
        mixed ^= mixed >> np.uint64(29)
    _, first, where = np.unique(mixed, return_index=True, return_inverse=True)
    if not all(np.array_equal(column[first][where], column) for column in whole):
        rows = np.stack(whole, axis=1)
        _, first, where = np.unique(
            rows, axis=0, return_index=True, return_inverse=True
        )
    # Only numpy 2.0 keeps the reduced axis.
    return first, where.reshape(-1)


def element_bytes(precision: Precision) -> int:
    """Return the bytes of an activation or weight; only matrix products are in fp8."""
    return 4 if precision == "fp32" else 2


def query_width(of: Model | Block) -> int:
    """Return the elements per token of all query heads."""
    return of.heads * of.head_dim


def kv_width(of: Model | Block, tp: Ints) -> Floats:
    """Return a device's keys (or values) per token; replicated if tp > their heads."""
    return np.maximum(of.kv_heads / tp, 1.0) * of.head_dim


def vocab_shard(model: Model, tp: Ints) -> Floats:
    """Return the rows of the vocabulary on one device; the last shard is padded."""
    return np.ceil(model.vocab / tp)


def logit_shard(model: Model, tp: Ints) -> Floats:
    """Return a device's outputs of the head; the last shard is padded."""
    return np.ceil((model.classes or model.vocab) / tp)
