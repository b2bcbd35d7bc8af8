"""What the forward pass of a piece or a unit does on one device; (R,) per number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from hetopt.cost.shapes import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Multiplication:
    """One dense matrix multiplication; (R,).

    Attributes
    ----------
    flops
        Of the forward product, and of each of the two backward ones.
    traffic_bytes
        Device-memory traffic, forward and for the input's gradient.
    weight_gradient_bytes
        The same for the weight's gradient, which is added to an fp32 buffer.
    """

    flops: Floats
    traffic_bytes: Floats
    weight_gradient_bytes: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """Everything the forward pass does on one device.

    Attributes
    ----------
    multiplications
        Dense matrix multiplications.
    attention_flops, attention_bytes
        The fused attention core (softmax of QK^T, times V); (R,).
    elementwise_bytes, elementwise_backward_bytes
        Memory traffic of norms, residuals, activations, loss; (R,).
    kernels
        Kernels of the forward pass other than multiplications and the core.
    """

    multiplications: tuple[Multiplication, ...]
    attention_flops: Floats
    attention_bytes: Floats
    elementwise_bytes: Floats
    elementwise_backward_bytes: Floats
    kernels: int

    @classmethod
    def of(
        cls,
        *multiplications: Multiplication,
        elementwise: Floats,
        kernels: int,
        backward: Floats | None = None,
        core: tuple[Floats, Floats] | None = None,
    ) -> Self:
        """Return what a piece does.

        Parameters
        ----------
        elementwise, backward
            Bytes of element-wise work, forward and backward; backward moves twice as
            many as forward if None.
        core
            FLOPs and bytes of the attention core; None if there is none.
        """
        nothing = np.zeros(len(elementwise))
        flops, moved = core or (nothing, nothing)
        return cls(
            multiplications=multiplications,
            attention_flops=flops,
            attention_bytes=moved,
            elementwise_bytes=elementwise,
            elementwise_backward_bytes=(
                2 * elementwise if backward is None else backward
            ),
            kernels=kernels,
        )


def multiply(m: Floats, k: Floats | int, n: Floats | int, e: int) -> Multiplication:
    """Return the (m, k) x (k, n) multiplication of elements of ``e`` bytes."""
    return Multiplication(
        flops=2.0 * m * k * n,
        traffic_bytes=e * (m * k + k * n + m * n),
        weight_gradient_bytes=e * (m * k + m * n) + 8 * k * n,
    )


def sum_of(arrays: Iterable[Floats]) -> Floats:
    """Add arrays of one shape."""
    total: Floats = np.add.reduce(list(arrays))
    return total
