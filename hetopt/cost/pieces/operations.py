"""Operations of a piece's or unit's forward pass on one device; arrays are (R,)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from numpy.typing import NDArray

    from hetopt.cost.shapes import Floats

#: Element-wise kernels that operator profiles distinguish.
MemoryKernel = Literal[
    "rmsnorm", "layernorm", "rope", "swiglu", "gelu", "add", "embedding"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Multiplication:
    """A matrix multiplication, (m, k) x (k, n), or a group of equal ones; (R,).

    Attributes
    ----------
    element_bytes
        Bytes of an element of both factors and of the product.
    groups
        Number of multiplications of a grouped kernel, one for each expert of a device;
        None if the kernel is not grouped.
    again
        Whether an earlier multiplication of the unit reads the same input.
    """

    m: Floats
    k: Floats
    n: Floats
    element_bytes: int
    groups: Floats | None = None
    again: NDArray[np.bool_] | bool = False

    @property
    def count(self) -> Floats | float:
        """Number of multiplications of the kernel."""
        return 1.0 if self.groups is None else self.groups

    @property
    def flops(self) -> Floats:
        """FLOPs of the forward product, and of each of the two backward products."""
        return self.count * 2.0 * self.m * self.k * self.n

    @property
    def traffic_bytes(self) -> Floats:
        """Device-memory traffic, forward and for the input's gradient."""
        moved = self.element_bytes * (
            self.m * self.k + self.k * self.n + self.m * self.n
        )
        return self.count * moved

    @property
    def weight_gradient_bytes(self) -> Floats:
        """Memory traffic of the weight's gradient, which is added to an fp32 buffer."""
        factors = self.element_bytes * (self.m * self.k + self.m * self.n)
        return self.count * (factors + 8 * self.k * self.n)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionCore:
    """The fused core of attention: softmax of QK^T, times V; arrays are (R,).

    Attributes
    ----------
    flops
        FLOPs of the forward pass, masked pairs left out.
    traffic_bytes
        Device-memory traffic of the forward pass.
    rows
        Rows of the softmax: sequences times heads times queries.
    keys
        Keys that a row reads, masked ones left out.
    """

    flops: Floats
    traffic_bytes: Floats
    rows: Floats
    keys: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Elementwise:
    """A norm, a residual, an activation, the loss or the like of one piece.

    Attributes
    ----------
    bytes, backward_bytes
        Memory traffic forward and backward; (R,).
    kernels
        Number of kernels that move them in the forward pass.
    kernel
        Name of the kernel in operator profiles; None if they do not distinguish it.
    width
        Elements of a token's row, as profiles count them: the output of a norm, a sum,
        a look-up or an activation, the input of a rotary embedding; (R,). None if
        ``kernel`` is.
    """

    bytes: Floats
    backward_bytes: Floats
    kernels: int
    kernel: MemoryKernel | None = None
    width: Floats | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """All operations of the forward pass on one device.

    Attributes
    ----------
    multiplications
        Matrix multiplications, dense or grouped.
    cores
        Attention cores.
    elementwise
        Element-wise work, piece by piece; at least one.
    """

    multiplications: tuple[Multiplication, ...]
    cores: tuple[AttentionCore, ...]
    elementwise: tuple[Elementwise, ...]

    @property
    def elementwise_bytes(self) -> Floats:
        """Forward traffic of all element-wise work; (R,)."""
        return sum_of(part.bytes for part in self.elementwise)

    @property
    def elementwise_backward_bytes(self) -> Floats:
        """Backward traffic of all element-wise work; (R,)."""
        return sum_of(part.backward_bytes for part in self.elementwise)

    @property
    def kernels(self) -> int:
        """Number of element-wise kernels of the forward pass."""
        return sum(part.kernels for part in self.elementwise)

    @property
    def attention_flops(self) -> Floats:
        """Forward FLOPs of all cores; (R,)."""
        return sum_of((self._nothing, *(core.flops for core in self.cores)))

    @property
    def attention_bytes(self) -> Floats:
        """Forward traffic of all cores; (R,)."""
        return sum_of((self._nothing, *(core.traffic_bytes for core in self.cores)))

    @property
    def _nothing(self) -> Floats:
        return np.zeros(len(self.elementwise_bytes))

    @classmethod
    def of(
        cls,
        *multiplications: Multiplication,
        elementwise: tuple[Elementwise, ...],
        core: AttentionCore | None = None,
    ) -> Self:
        """Return the operations of a piece."""
        return cls(
            multiplications=multiplications,
            cores=() if core is None else (core,),
            elementwise=elementwise,
        )


def multiply(
    m: Floats,
    k: Floats | int,
    n: Floats | int,
    e: int,
    *,
    groups: Floats | None = None,
    again: NDArray[np.bool_] | bool = False,
) -> Multiplication:
    """Return the (m, k) x (k, n) multiplication of elements of ``e`` bytes.

    Parameters
    ----------
    groups, again
        See ``Multiplication``.
    """
    rows = len(m)
    return Multiplication(
        m=m,
        k=np.broadcast_to(np.asarray(k, dtype=np.float64), (rows,)),
        n=np.broadcast_to(np.asarray(n, dtype=np.float64), (rows,)),
        element_bytes=e,
        groups=groups,
        again=again,
    )


def moving(
    moved: Floats,
    kernel: MemoryKernel | None = None,
    width: Floats | int | None = None,
    *,
    kernels: int = 1,
    backward: Floats | None = None,
) -> Elementwise:
    """Return element-wise work.

    Parameters
    ----------
    moved, backward
        Bytes moved forward and backward; if None, backward moves twice ``moved``.
    kernel, width, kernels
        See ``Elementwise``.
    """
    return Elementwise(
        bytes=moved,
        backward_bytes=2 * moved if backward is None else backward,
        kernels=kernels,
        kernel=kernel,
        width=width if width is None else np.full(len(moved), width, dtype=np.float64),
    )


def sum_of(arrays: Iterable[Floats]) -> Floats:
    """Add arrays of equal shape."""
    total: Floats = np.add.reduce(list(arrays))
    return total
