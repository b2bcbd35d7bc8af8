"""Gradients of weights that run later than those of inputs (zero bubble's W).

Under a schedule that splits backward passes, a multiplication's backward pass computes
only its input's gradient and puts its two factors aside: the input and the gradient of
its result, both gathered if the multiplication gathers. A W pass multiplies them. The
factors put aside form another autograd graph, so that a W pass is a backward pass like
any other: hooks of parameters run, and factors count with all that autograd keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

#: Gradients of weights from an input and the gradients of its products.
Multiply = Callable[..., tuple[Tensor, ...]]

# What the running backward pass puts aside; None if it is not split. Autograd runs
# backward passes of GPUs in threads of its own, so this is global to the process.
_aside: list[Tensor] | None = None


@contextmanager
def put_aside() -> Iterator[list[Tensor]]:
    """Let backward passes put gradients of weights aside, in the list it yields."""
    global _aside
    found: list[Tensor] = []
    _aside = found
    try:
        yield found
    finally:
        _aside = None


def weight_gradients(
    multiply: Multiply, weights: list[Tensor], *factors: Tensor
) -> tuple[Tensor | None, ...]:
    """Return gradients of weights; None for each if they are put aside.

    Parameters
    ----------
    multiply
        Computes the gradients from the factors.
    """
    if _aside is None:
        return multiply(*factors)
    with torch.enable_grad():
        kept = [each.detach() for each in factors]
        found = _Aside.apply(multiply, len(kept), *kept, *weights)
    if found.requires_grad:
        _aside.append(found)
    return (None,) * len(weights)


def parameters_of(aside: list[Tensor]) -> set[nn.Parameter]:
    """Return the parameters whose gradients were put aside."""
    return {
        node.variable
        for each in aside
        if each.grad_fn is not None
        for node, _ in each.grad_fn.next_functions
        if node is not None
    }


def run_aside(aside: list[Tensor]) -> None:
    """Compute the gradients that were put aside, and accumulate them."""
    if aside:
        torch.autograd.backward(aside, [torch.empty_like(each) for each in aside])


class _Aside(torch.autograd.Function):
    """Keeps the factors in forward and multiplies them in backward; result is empty."""

    @staticmethod
    def forward(ctx: Any, multiply: Multiply, count: int, *tensors: Tensor) -> Tensor:
        """Return an empty tensor.

        Parameters
        ----------
        count
            How many of the tensors are factors; weights follow.
        """
        ctx.save_for_backward(*tensors[:count])
        ctx.multiply = multiply
        return tensors[0].new_empty(0)

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[Any, ...]:
        """Return the gradients of the weights."""
        factors = ctx.saved_tensors
        return (None, None, *[None] * len(factors), *ctx.multiply(*factors))
