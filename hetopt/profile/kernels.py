"""Single kernels to measure, and their order.

The logarithms of sizes are points of a Halton sequence: even a measurement that ends
early covers the whole range evenly. For the same reason the kinds of kernels alternate.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from hetopt.cost.operators.file import (
    GROUP_MATMUL,
    LAYOUTS,
    MATMUL,
    MEMORY,
    SDP_BACKWARD,
    SDP_FORWARD,
    OperatorRow,
)
from hetopt.cost.operators.work import BACKWARD_PRODUCTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.cost.operators.work import Rates

#: Element-wise kernels of a layer with a gated MLP.
Moves = Literal["rmsnorm", "rope", "swiglu", "add"]

_ELEMENT_BYTES = 2

#: Elements that a kernel reads and writes in the forward pass, per token and element
#: of width, as the cost model counts them; backward twice as many.
_MOVED: dict[Moves, int] = {"rmsnorm": 2, "rope": 2, "swiglu": 3, "add": 3}

#: Sizes are multiples of this, as those of models.
_STEP = 128

#: Ends of the ranges of sizes.
_TOKENS = (128, 16384)
_DEPTH, _WIDTH = (256, 16384), (256, 32768)
_MOVED_TOKENS, _MOVED_WIDTH = (128, 16384), (256, 16384)
_GROUPS, _GROUP_TOKENS = (4, 32), (128, 2048)
_GROUP_WIDTH = (256, 8192)

_BATCHES, _SEQ_LENS = (1, 2, 4), (256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
_HEADS, _SHARED, _HEAD_DIMS = (4, 8, 16, 32, 64), (1, 4, 8), (64, 128)


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A multiplication of a layer, (m, k) x (k, n), and the two of its backward pass.

    Attributes
    ----------
    groups
        Number of multiplications in one kernel (experts); 1 for a dense one.
    """

    groups: int = 1
    m: int
    k: int
    n: int

    @property
    def kind(self) -> str:
        """Class of operators; those of a class are about equally far from the peak."""
        return MATMUL if self.groups == 1 else GROUP_MATMUL

    @property
    def operators(self) -> tuple[dict[str, Any], ...]:
        """Columns of its rows, in the order of ``LAYOUTS``."""
        m, k, n = self.m, self.k, self.n
        shapes = {"TN": (m, k, n), "NN": (m, n, k), "NT": (n, m, k)}
        return tuple(
            {"op": self.kind, "groups": self.groups, "layout": layout}
            | dict(zip("mkn", shapes[layout], strict=True))
            for layout in LAYOUTS
        )

    @property
    def flops(self) -> float:
        """FLOPs of all three multiplications."""
        return 6.0 * self.groups * self.m * self.k * self.n

    @property
    def moved_bytes(self) -> float:
        """Bytes of all three: factors, products, and the gradient's fp32 buffer."""
        m, k, n = self.m, self.k, self.n
        return float(self.groups * (6 * (m * k + k * n + m * n) + 8 * k * n))


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """The fused, causal attention core, forward and backward."""

    batch: int
    seq: int
    heads: int
    kv_heads: int
    head_dim: int

    @property
    def kind(self) -> str:
        """Class of operators; those of a class are about equally far from the peak."""
        return SDP_FORWARD

    @property
    def operators(self) -> tuple[dict[str, Any], ...]:
        """Columns of its rows: forward, backward."""
        sizes = asdict(self)
        width = sizes.pop("head_dim")
        sizes |= {"qk_dim": width, "v_dim": width}
        return tuple({"op": op} | sizes for op in (SDP_FORWARD, SDP_BACKWARD))

    @property
    def flops(self) -> float:
        """FLOPs of both passes."""
        pairs = self.batch * self.heads * self.seq**2 / 2
        return (1 + BACKWARD_PRODUCTS) * 4 * pairs * self.head_dim

    @property
    def moved_bytes(self) -> float:
        """Bytes of both passes."""
        rows = self.batch * self.seq * (self.heads + self.kv_heads)
        return (1 + BACKWARD_PRODUCTS) * 2 * _ELEMENT_BYTES * rows * self.head_dim


@dataclass(frozen=True, slots=True, kw_only=True)
class Elementwise:
    """An element-wise kernel of a layer, forward and backward.

    Attributes
    ----------
    tokens, width
        Shape of its input; for SwiGLU, of its output.
    """

    what: Moves
    tokens: int
    width: int

    @property
    def kind(self) -> str:
        """Class of operators; those of a class are about equally far from the peak."""
        return MEMORY

    @property
    def operators(self) -> tuple[dict[str, Any], ...]:
        """Columns of its rows: forward, backward; add has no backward kernel."""
        moved = _ELEMENT_BYTES * _MOVED[self.what] * self.tokens * self.width
        sizes = (moved,) if self.what == "add" else (moved, 2 * moved)
        named = {"op": MEMORY, "kernel": self.what, "n": self.width}
        return tuple(named | {"bytes": size} for size in sizes)

    @property
    def flops(self) -> float:
        """Always 0: FLOPs are negligible."""
        return 0.0

    @property
    def moved_bytes(self) -> float:
        """Bytes of all its rows."""
        return float(sum(row["bytes"] for row in self.operators))


Kernel = Product | Attention | Elementwise


def kernel_label(kernel: Kernel) -> str:
    """Return a kernel's name and sizes."""
    sizes = ", ".join(f"{name} {value}" for name, value in asdict(kernel).items())
    return f"{kernel.kind} ({sizes})"


def expected_s(kernel: Kernel, rates: Rates) -> float:
    """Return the least seconds that one repetition of all passes of a kernel takes."""
    return max(kernel.flops / rates.flops, kernel.moved_bytes / rates.bytes_per_s)


def rows_of(
    kernel: Kernel, dtype: str, seconds: Sequence[float]
) -> tuple[OperatorRow, ...]:
    """Return a kernel's rows; ``seconds`` are those of its passes, in their order."""
    return tuple(
        OperatorRow(dtype=dtype, time_us=float(f"{once * 1e6:.6g}"), **columns)
        for columns, once in zip(kernel.operators, seconds, strict=True)
    )


def kernels(rates: Rates, *, quick: bool, most_s: float) -> tuple[Kernel, ...]:
    """Return the kernels to measure, in an order in which any prefix covers all sizes.

    Parameters
    ----------
    rates
        Peak rates of the device.
    quick
        Whether to return only a quarter of the kernels.
    most_s
        Kernels whose ``expected_s`` is longer are left out.
    """
    scale = 1 if quick else 4
    parts: tuple[Sequence[Kernel], ...] = (
        _products(1024 * scale),
        _attentions(512 * scale),
        _elementwise(256 * scale),
        _grouped(512 * scale),
    )
    wanted = (64, 32, 48, 8)
    turns: list[tuple[float, int, Kernel]] = []
    for order, (part, count) in enumerate(zip(parts, wanted, strict=True)):
        fits = [kernel for kernel in part if expected_s(kernel, rates) <= most_s]
        taken = list(dict.fromkeys(fits))[: count * scale]
        turns += [
            ((number + 0.5) / (count * scale), order, kernel)
            for number, kernel in enumerate(taken)
        ]
    return tuple(kernel for *_, kernel in sorted(turns, key=lambda turn: turn[:2]))


def _products(count: int) -> list[Kernel]:
    return [
        Product(m=_size(m, _TOKENS), k=_size(k, _DEPTH), n=_size(n, _WIDTH))
        for m, k, n in _halton(3, count)
    ]


def _grouped(count: int) -> list[Kernel]:
    return [
        Product(
            groups=int(_between(groups, _GROUPS)),
            m=_size(m, _GROUP_TOKENS),
            k=_size(k, _GROUP_WIDTH),
            n=_size(n, _GROUP_WIDTH),
        )
        for groups, m, k, n in _halton(4, count)
    ]


def _attentions(count: int) -> list[Kernel]:
    found: list[Kernel] = []
    for point in _halton(5, count):
        seq, heads, batch, width, shared = (
            values[int(part * len(values))]
            for part, values in zip(
                point,
                (_SEQ_LENS, _HEADS, _BATCHES, _HEAD_DIMS, _SHARED),
                strict=True,
            )
        )
        found.append(
            Attention(
                batch=batch,
                seq=seq,
                heads=heads,
                kv_heads=max(1, heads // shared),
                head_dim=width,
            )
        )
    return found


def _elementwise(count: int) -> list[Kernel]:
    kinds = get_args(Moves)
    return [
        Elementwise(
            what=kinds[number % len(kinds)],
            tokens=_size(tokens, _MOVED_TOKENS),
            width=_size(width, _MOVED_WIDTH),
        )
        for number, (tokens, width) in enumerate(_halton(2, count))
    ]


def _halton(dimensions: int, count: int) -> list[list[float]]:
    """Return ``count`` points, in [0, 1) in each dimension, without the origin."""
    from scipy.stats.qmc import Halton

    points = Halton(dimensions, scramble=False).random(count + 1)
    found: list[list[float]] = points[1:].tolist()
    return found


def _between(part: float, ends: tuple[int, int]) -> float:
    """Interpolate between two ends in logarithms; ``part`` is from 0 to 1."""
    return float(ends[0] * (ends[1] / ends[0]) ** part)


def _size(part: float, ends: tuple[int, int]) -> int:
    return max(ends[0], round(_between(part, ends) / _STEP) * _STEP)
