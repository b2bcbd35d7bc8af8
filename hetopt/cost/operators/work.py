"""Kernels as a forest sees them: seconds at the device's peak rates, and sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.forests.forest import Samples
from hetopt.cost.forests.trees import Settings
from hetopt.cost.operators.file import (
    GROUP_MATMUL,
    LAYOUTS,
    MATMUL,
    MEMORY,
    SDP_BACKWARD,
    SDP_FORWARD,
)
from hetopt.cost.shapes import Floats

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hetopt.cost.operators.file import OperatorRow
    from hetopt.cost.pieces.operations import AttentionCore, Elementwise, Multiplication

#: Ratio of multiplications in the attention core's backward and forward pass: scores
#: again, and the gradients of scores, queries, keys and values (5 of 2).
BACKWARD_PRODUCTS = 2.5

#: Rows and columns of the product, or rows of a softmax, that one thread block
#: computes: the granularity of work on a device.
_TILE = 128

#: Sizes of tiles, in rows and columns, that a multiplication may use.
_TILES = ((_TILE, _TILE), (2 * _TILE, _TILE), (_TILE, 2 * _TILE))

#: Approximate number of tiles that a device computes at once: it has 84 (A40) to 148
#: (B200) processors. The exact number does not improve forests.
_AT_ONCE = 128

#: How the forest of each class of operators grows. Attention cores have few rows and
#: need all features at every split. Grouped multiplications were measured for few
#: weight shapes, which small leaves overfit.
SETTINGS = {
    MATMUL: Settings(trees=100, max_features=0.5, min_samples_leaf=1),
    GROUP_MATMUL: Settings(trees=100, max_features=0.5, min_samples_leaf=20),
    SDP_FORWARD: Settings(trees=60, max_features=1.0, min_samples_leaf=1),
    SDP_BACKWARD: Settings(trees=60, max_features=1.0, min_samples_leaf=1),
    MEMORY: Settings(trees=60, max_features=0.5, min_samples_leaf=1),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Peak rates of a device: FLOP/s and bytes per second."""

    flops: float
    bytes_per_s: float


def samples_of_rows(op: str, rows: Sequence[OperatorRow], rates: Rates) -> Samples:
    """Return measured rows of one class."""

    def column(name: str) -> Floats:
        return np.array([getattr(row, name) or 1 for row in rows], dtype=np.float64)

    if op in (MATMUL, GROUP_MATMUL):
        layout = np.array([LAYOUTS.index(row.layout or "TN") for row in rows])
        return _products(
            (column("m"), column("k"), column("n")),
            column("groups"),
            layout,
            column("output_bytes"),
            rates,
        )
    if op == MEMORY:
        names = np.array([row.kernel or "" for row in rows])
        return _memory(column("bytes"), rates, names, column("n"))
    batch, seq, heads = column("batch"), column("seq"), column("heads")
    width = column("qk_dim") + column("v_dim")
    # Causal: half of the pairs, with 2 FLOPs per pair and element of width.
    return _core(
        flops=batch * heads * seq * seq * width,
        traffic_bytes=2 * batch * seq * width * (heads + column("kv_heads")),
        rows=batch * heads * seq,
        keys=seq / 2,
        rates=rates,
        backward=op == SDP_BACKWARD,
    )


def product(part: Multiplication, layout: str, rates: Rates) -> Samples:
    """Return one of the three products of a layer's multiplication, R times."""
    m, k, n = part.m, part.k, part.n
    shape = {"TN": (m, k, n), "NN": (m, n, k), "NT": (n, m, k)}[layout]
    return _products(
        shape,
        np.ones(len(m)) if part.groups is None else part.groups,
        np.full(len(m), LAYOUTS.index(layout)),
        np.full(len(m), 8.0 if layout == "NT" else 2.0),
        rates,
    )


def core(part: AttentionCore, rates: Rates, *, backward: bool) -> Samples:
    """Return an attention core, forward or backward, R times."""
    return _core(
        flops=part.flops,
        traffic_bytes=part.traffic_bytes,
        rows=part.rows,
        keys=part.keys,
        rates=rates,
        backward=backward,
    )


def elementwise(part: Elementwise, rates: Rates, *, backward: bool) -> Samples:
    """Return a single kernel of element-wise work, R times."""
    moved = part.backward_bytes if backward else part.bytes
    names = np.full(len(moved), part.kernel or "")
    width = np.ones(len(moved)) if part.width is None else part.width
    return _memory(moved / part.kernels, rates, names, width)


def _memory(
    moved_bytes: Floats, rates: Rates, names: NDArray[np.str_], width: Floats
) -> Samples:
    """Return kernels that only move bytes."""
    return _samples(
        compute_s=np.zeros(len(moved_bytes)),
        traffic_s=moved_bytes / rates.bytes_per_s,
        wave_s=np.zeros(len(moved_bytes)),
        starts=np.ones(len(moved_bytes)),
        sizes=np.log(width)[:, None],
        names=names,
    )


def _products(
    shape: tuple[Floats, Floats, Floats],
    groups: Floats,
    layout: np.ndarray,
    output_bytes: Floats,
    rates: Rates,
) -> Samples:
    m, k, n = shape
    filled = [_filled(m, n, tile) for tile in _TILES]
    moved = groups * (2 * (m * k + k * n) + output_bytes * m * n)
    compute_s = groups * 2 * m * k * n / rates.flops
    return _samples(
        compute_s=compute_s,
        wave_s=compute_s / np.max(filled, axis=0),
        traffic_s=moved / rates.bytes_per_s,
        starts=groups,
        sizes=np.stack(
            [
                np.log(m),
                np.log(k),
                np.log(n),
                np.log(np.ceil(m / _TILE) * np.ceil(n / _TILE)),
                *filled,
                *(_alignment(size) for size in shape),
                layout == LAYOUTS.index("NN"),
                layout == LAYOUTS.index("NT"),
                output_bytes,
                np.log(groups),
            ],
            axis=1,
        ),
    )


def _filled(m: Floats, n: Floats, tile: tuple[int, int]) -> Floats:
    """Return the share of its whole waves of whole tiles that a product fills."""
    height, width = tile
    tiles = np.ceil(m / height) * np.ceil(n / width)
    waves = np.ceil(tiles / _AT_ONCE)
    filled: Floats = m * n / (waves * _AT_ONCE * height * width)
    return filled


def _alignment(size: Floats) -> Floats:
    """Return log2 of the largest power of two, at most 128, that divides a size."""
    aligned: Floats = np.log2(np.gcd(np.rint(size).astype(np.int64), _TILE))
    return aligned


def _core(
    *,
    flops: Floats,
    traffic_bytes: Floats,
    rows: Floats,
    keys: Floats,
    rates: Rates,
    backward: bool,
) -> Samples:
    scale = BACKWARD_PRODUCTS if backward else 1.0
    compute_s = scale * flops / rates.flops
    width = flops / (4 * rows * keys)
    return _samples(
        compute_s=compute_s,
        wave_s=compute_s * _AT_ONCE * _TILE / rows,
        traffic_s=scale * traffic_bytes / rates.bytes_per_s,
        starts=np.ones(len(rows)),
        sizes=np.log(np.stack([rows, keys, width], axis=1)),
        bound_by_compute=True,
    )


def _samples(
    *,
    compute_s: Floats,
    wave_s: Floats,
    traffic_s: Floats,
    starts: Floats,
    sizes: Floats,
    names: NDArray[np.str_] | None = None,
    bound_by_compute: bool = False,
) -> Samples:
    """Return R kernels of one class on one device; arguments are (R,).

    Parameters
    ----------
    compute_s, traffic_s
        Seconds at the device's peak rate, and at its memory bandwidth.
    wave_s
        For multiplications, ``compute_s`` of whole waves of whole tiles: the last wave
        takes as long as a full one. For attention cores, that of one wave.
    starts
        Kernels that start one after the other: one per group of a multiplication.
    sizes
        Other sizes on which the time depends; (R, F).
    names
        For element-wise work the kernels' names, empty if unknown.
    bound_by_compute
        Whether traffic and starts are left out: fused attention is mostly measured at
        one sequence length, where they cannot be distinguished from waves.

    Returns
    -------
    2 or 4 terms, and features: logarithms of both bounds and of their ratio, and sizes.
    """
    terms = [compute_s, wave_s]
    if not bound_by_compute:
        terms += [traffic_s, starts]
    # Memory operators have no compute: a nanosecond keeps logarithms finite.
    compute, traffic = np.log(compute_s + 1e-9), np.log(traffic_s)
    bounds = np.stack([compute, traffic, compute - traffic], axis=1)
    return Samples(
        terms=np.stack(terms, axis=1),
        features=np.concatenate([bounds, sizes], axis=1),
        names=np.full(len(compute), "") if names is None else names,
    )
