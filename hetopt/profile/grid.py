"""Shards to measure: HetAuto's grid, a quick one, or the user's."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Literal

from hetopt.cost.profiles.units import forward_flops, shard_key
from hetopt.cost.shard_shape import ATTENTION_CORE, UNITS, ShardShape
from hetopt.problem.model.kinds import EMBEDDING, HEAD, LAYER

if TYPE_CHECKING:
    from collections.abc import Iterator

Family = Literal["llama", "gpt"]

#: Units of a model that is planned layer by layer.
LAYER_UNITS = (LAYER, EMBEDDING, HEAD, ATTENTION_CORE)

#: Fused attention kernels support head widths up to 256; rotary embeddings, even ones.
HEAD_DIMS = range(8, 257, 2)

#: Seed of the order in which shards are measured and, in a quick profile, chosen.
SHUFFLE_SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Sizes whose combinations are measured, except those that do not divide.

    Attributes
    ----------
    units
        Unit kinds.
    families
        ``llama``: RMSNorm, rotary, SwiGLU; ``gpt``: LayerNorm, GELU, biases.
    dtype
        bf16, fp16 or fp32.
    hidden, heads, kv_heads, ffn, vocab
        Sizes of the whole model. If None, ``kv_heads`` is as many as heads, and ``ffn``
        8/3 of the hidden size, rounded up to 256 (llama), or 4 times (gpt).
    degrees
        Pairs of (cp, tp).
    microbatch, seq_len
        Sequences, and tokens of a whole sequence.
    most_flops
        Shards whose forward pass has more FLOPs are left out; None is no limit.
    per_unit
        Most shards of each kind and family, drawn at random; None is no limit.
    """

    units: tuple[str, ...]
    families: tuple[Family, ...]
    dtype: str
    hidden: tuple[int, ...]
    heads: tuple[int, ...]
    kv_heads: tuple[int, ...] | None = None
    ffn: tuple[int, ...] | None = None
    vocab: tuple[int, ...] = (32000,)
    degrees: tuple[tuple[int, int], ...]
    microbatch: tuple[int, ...]
    seq_len: tuple[int, ...]
    most_flops: float | None = None
    per_unit: int | None = None


def hetauto_grid(dtype: str) -> Grid:
    """Return the grid of HetAuto, section 7.6: up to 16 devices.

    The paper gives ranges; the steps here are powers of two, with 3072 added.
    """
    return Grid(
        units=LAYER_UNITS,
        families=("llama",),
        dtype=dtype,
        hidden=(1024, 2048, 3072, 4096),
        heads=(8, 16, 32),
        degrees=tuple(
            (n // tp, tp)
            for n in (1, 2, 4, 8, 16)
            for tp in (1, 2, 4, 8, 16)
            if n >= tp
        ),
        microbatch=(1, 2, 4, 8, 16),
        seq_len=(1024, 2048, 4096, 8192),
    )


def quick_grid(dtype: str) -> Grid:
    """Return a grid of small shapes of all kinds: about 2 minutes on 2 CPU cores."""
    return Grid(
        units=UNITS,
        families=("llama",),
        dtype=dtype,
        hidden=(128, 192, 256, 384, 512),
        heads=(4, 8),
        kv_heads=(2, 4, 8),
        vocab=(1024, 4096),
        degrees=((1, 1), (1, 2), (2, 1), (1, 4), (2, 2), (4, 1)),
        microbatch=(1, 2, 4),
        seq_len=(128, 256, 512, 1024),
        most_flops=1.2e9,
        per_unit=80,
    )


def distinct_shapes(grid: Grid) -> tuple[ShardShape, ...]:
    """Return the grid's shards, each once even if several degrees share it.

    They are in a fixed random order: so an interrupted profile still covers the whole
    grid, the time left can be estimated from the time spent, and a device that slows
    down as it warms up does not affect some sizes more than others.
    """
    by_key: dict[object, ShardShape] = {}
    for shape in _all_shapes(grid):
        if grid.most_flops is None or forward_flops(shape) <= grid.most_flops:
            by_key.setdefault(shard_key(shape), shape)
    groups: dict[tuple[str, bool], list[ShardShape]] = {}
    for shape in by_key.values():
        groups.setdefault((shape.unit, shape.gated), []).append(shape)
    lot = random.Random(SHUFFLE_SEED)
    shapes = []
    for group in groups.values():
        lot.shuffle(group)
        shapes += group[: grid.per_unit]
    lot.shuffle(shapes)
    return tuple(shapes)


def _all_shapes(grid: Grid) -> Iterator[ShardShape]:
    for unit, family, hidden, heads, vocab, (cp, tp), microbatch, seq_len in product(
        grid.units,
        grid.families,
        grid.hidden,
        grid.heads,
        grid.vocab,
        grid.degrees,
        grid.microbatch,
        grid.seq_len,
    ):
        gated = family == "llama"
        if hidden % heads or hidden // heads not in HEAD_DIMS:
            continue
        widths = grid.ffn or (_ffn(hidden, gated=gated),)
        for kv_heads, ffn in product(grid.kv_heads or (heads,), widths):
            try:
                yield ShardShape(
                    unit=unit,
                    gated=gated,
                    dtype=grid.dtype,
                    hidden=hidden,
                    heads=heads,
                    kv_heads=kv_heads,
                    head_dim=hidden // heads,
                    ffn=ffn,
                    vocab=vocab,
                    cp=cp,
                    tp=tp,
                    microbatch=microbatch,
                    seq_len=seq_len,
                )
            except ValueError:
                # The degrees do not divide this model.
                continue


def _ffn(hidden: int, *, gated: bool) -> int:
    return -(-8 * hidden // 3 // 256) * 256 if gated else 4 * hidden
