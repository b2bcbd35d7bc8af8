"""Bytes that the kernels of a training program keep and move.

Attention is fused (FlashAttention) or separate operations, which hold every score. The
bytes per logit of the loss depend on the program:

``fused``, ZeRO-0 and -1
    Megatron-LM's compiled cross entropy: logits in 16 bits, their copy in fp32 and its
    exponentials. Ten bytes follow from the peaks measured on B200
    (``benchmarks/memory.py``): from tp 2 to tp 8 they fall by 4.7 GiB / tp, and 10
    bytes of 4,096 x 128,256 logits are 4.9 GiB.
``fused``, ZeRO-2 and -3
    The fused kernels commonly used with PyTorch's FSDP (FlashAttention's): logits in
    16 bits, and their gradient.
``unfused``, ZeRO-0 and -1
    Megatron-LM's own cross entropy, and that of hetopt's program: a copy of the logits
    in fp32 becomes the softmax and then its gradient in place.
``unfused``, ZeRO-2 and -3
    PyTorch's separate operations: the logarithm of the softmax in fp32, the loss's
    gradient with respect to it, and the softmax's.

Multiplications in FP8 and below keep their inputs as they multiply them, with the
scales of blocks: Transformer Engine drops the copy by rows after the forward pass and
keeps the one by columns, or for FP8 the one that ranks gather (modelled, from its
code). ``Software.casts_again`` says which programs keep 16 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetopt.cost.shapes import element_bytes

if TYPE_CHECKING:
    from hetopt.problem.training.dispatch import Dispatch
    from hetopt.problem.training.training import Training


#: Bytes of an element of a multiplication's input that is kept as it is multiplied, by
#: precision: 32 elements share a scale of 8 bits in MXFP8, 16 in NVFP4.
KEPT_INPUT_BYTES = {"fp8": 1.0, "mxfp8": 1 + 1 / 32, "nvfp4": 1 / 2 + 1 / 16}


@dataclass(frozen=True, slots=True, kw_only=True)
class LossKernel:
    """The loss's bytes per logit.

    Attributes
    ----------
    kept
        Bytes kept from forward to backward.
    peak
        Most bytes at any time, including those kept.
    forward, backward
        Bytes moved by a pass.
    """

    kept: int
    peak: int
    forward: int
    backward: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """Kernels of a training program, and how tokens are dispatched to experts.

    Attributes
    ----------
    fused_attention
        Whether attention's core is one kernel.
    loss
        The loss's bytes.
    dispatch
        How tokens reach routed experts.
    narrow
        Bytes of an element of the inputs that layers' multiplications keep in a
        precision of their own; None if they keep what other operations keep.
    """

    fused_attention: bool
    loss: LossKernel
    dispatch: Dispatch
    narrow: float | None = None


def kernels_of(training: Training) -> Kernels:
    """Return the kernels of a training program."""
    fp32 = training.precision == "fp32"
    # Bytes moved, by operation. Fused: the cast to fp32, the maximum, the sum of
    # exponentials and the softmax each read or write four bytes. Unfused, all but the
    # cast read and write all logits: maximum, difference, exponential, sum, quotient.
    if training.cross_entropy == "unfused":
        in_place = 4 + element_bytes(training.precision)
        peak = 12 if training.zero >= 2 else in_place
        loss = LossKernel(kept=4, peak=peak, forward=38, backward=14)
    elif training.zero >= 2:
        each = 4 if fp32 else 2
        loss = LossKernel(kept=each, peak=2 * each, forward=20, backward=8)
    else:
        loss = LossKernel(kept=4, peak=8 if fp32 else 10, forward=20, backward=8)
    casts_again = training.software is not None and training.software.casts_again
    return Kernels(
        fused_attention=training.attention == "fused",
        loss=loss,
        dispatch=training.moe,
        narrow=None if casts_again else KEPT_INPUT_BYTES.get(training.precision),
    )
