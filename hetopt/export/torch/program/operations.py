"""Arithmetic of units as autograd functions that keep what hetopt's table counts.

Every ``save_for_backward`` below is one entry of the table; weights are parameters and
do not count. Shapes are (b, n, width): sequences, tokens, numbers per token.
Gradients of the weights of multiplications may run later (``later``).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from .later import weight_gradients
from .region import Region


class Norm(torch.autograd.Function):
    """RMSNorm, or LayerNorm if there is a bias; keeps its input."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, epsilon: float
    ) -> Tensor:
        """Return the norm of (b, n, h)."""
        ctx.save_for_backward(x, weight)
        ctx.centred, ctx.epsilon = bias is not None, epsilon
        normal = _normal(x, ctx.centred, epsilon)[0].to(x.dtype)
        return normal * weight if bias is None else torch.addcmul(bias, normal, weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor | None, None]:
        """Return gradients of input, weight and bias."""
        x, weight = ctx.saved_tensors
        normal, scale = _normal(x, ctx.centred, ctx.epsilon)
        wide = grad.float()
        inner = wide * weight.float()
        along = (inner * normal).mean(-1, keepdim=True)
        of_input = inner - normal * along
        if ctx.centred:
            of_input = of_input - inner.mean(-1, keepdim=True)
        of_weight = (wide * normal).flatten(0, -2).sum(0).to(weight.dtype)
        of_bias = wide.flatten(0, -2).sum(0).to(weight.dtype) if ctx.centred else None
        return (of_input * scale).to(x.dtype), of_weight, of_bias, None


def _normal(x: Tensor, centred: bool, epsilon: float) -> tuple[Tensor, Tensor]:
    """Return x in 32 bits with unit variance, and the factor that made it so."""
    x = x.float()
    if centred:
        x = x - x.mean(-1, keepdim=True)
    scale = (x.square().mean(-1, keepdim=True) + epsilon).rsqrt()
    return x * scale, scale


class Columns(torch.autograd.Function):
    """Matrices split by outputs that read one input; keeps the input ungathered.

    Backward gathers the input once more, as the table prices.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, region: Region, biased: bool, *parameters: Tensor
    ) -> tuple[Tensor, ...]:
        """Return one product per matrix, (b, all tokens, its outputs).

        Parameters
        ----------
        parameters
            The weights, each (outputs, h); if ``biased``, followed by their biases.
        """
        count = len(parameters) // 2 if biased else len(parameters)
        weights = parameters[:count]
        ctx.save_for_backward(x, *weights)
        ctx.region, ctx.biased = region, biased
        full = region.spread(x)
        biases = parameters[count:] if biased else (None,) * count
        pairs = zip(weights, biases, strict=True)
        return tuple(F.linear(full, weight, bias) for weight, bias in pairs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        """Return gradients of the input, the weights and the biases."""
        x, *weights = ctx.saved_tensors
        flat = [grad.flatten(0, -2) for grad in grads]
        of_input = flat[0] @ weights[0]
        for grad, weight in zip(flat[1:], weights[1:], strict=True):
            of_input.addmm_(grad, weight)
        of_input = ctx.region.reduce(of_input.unflatten(0, grads[0].shape[:-1]))
        full = ctx.region.spread(x).flatten(0, -2)
        of_weights = weight_gradients(_products, weights, full, *flat)
        of_biases = [g.sum(0) for g in flat] if ctx.biased else []
        return of_input, None, None, *of_weights, *of_biases


class Rows(torch.autograd.Function):
    """A matrix split by inputs; keeps its input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, region: Region, weight: Tensor) -> Tensor:
        """Return the product of (b, all tokens, inputs), summed: (b, own tokens, h)."""
        ctx.save_for_backward(x, weight)
        ctx.region = region
        return region.reduce(F.linear(x, weight))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Return gradients of the input and the weight."""
        x, weight = ctx.saved_tensors
        grad = ctx.region.spread(grad)
        factors = x.flatten(0, -2), grad.flatten(0, -2)
        return grad @ weight, None, *weight_gradients(_products, [weight], *factors)


#: The region of a matrix that is not split.
_ALONE = Region(group=None, size=1, rank=0, splits=False)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return the result of ``nn.Linear`` on (b, n, h), computed by ``Columns``."""
    parameters = (weight,) if bias is None else (weight, bias)
    (y,) = Columns.apply(x, _ALONE, bias is not None, *parameters)
    product: Tensor = y
    return product


def _products(x: Tensor, *grads: Tensor) -> tuple[Tensor, ...]:
    """Return gradients of weights from their input (rows, h) and the products' ones."""
    return tuple(grad.T @ x for grad in grads)


class Gated(torch.autograd.Function):
    """SwiGLU; keeps both factors, and neither the sigmoid nor its product."""

    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        """Return silu(gate) * up."""
        ctx.save_for_backward(gate, up)
        return F.silu(gate).mul_(up)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        """Return gradients of both factors."""
        gate, up = ctx.saved_tensors
        return Gated.slopes(grad, gate, up)

    @staticmethod
    def slopes(grad: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
        """Return gradients of both factors from that of their product."""
        sigmoid = gate.sigmoid()
        of_up = grad * gate * sigmoid
        slope = sigmoid * (1 + gate * (1 - sigmoid))
        return grad * up * slope, of_up


class Turned(torch.autograd.Function):
    """Rotary position embedding; keeps nothing but the shared tables of angles."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Turn (b, n, heads, d) by (n, 1, d / 2)."""
        ctx.cos, ctx.sin = cos, sin
        return _turn(x, cos, sin)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        """Turn back."""
        return _turn(grad, ctx.cos, -ctx.sin), None, None


def _turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.float().chunk(2, -1)
    turned = torch.cat((first * cos - second * sin, second * cos + first * sin), -1)
    return turned.to(x.dtype)


class Lookup(torch.autograd.Function):
    """A table split by rows of the vocabulary; keeps the tokens."""

    @staticmethod
    def forward(
        ctx: Any, tokens: Tensor, table: Tensor, region: Region, start: int
    ) -> Tensor:
        """Return the rows (b, own tokens, h) of the table for (b, all tokens).

        Parameters
        ----------
        start
            The first token of this rank's part of the table.
        """
        ctx.save_for_backward(tokens)
        ctx.region, ctx.start, ctx.shape = region, start, table.shape
        inside, row = _inside(tokens, start, table.shape[0])
        found = F.embedding(row, table) * inside.unsqueeze(-1)
        return region.reduce(found)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, None, None]:
        """Return the gradient of this rank's part of the table, as a dense tensor."""
        (tokens,) = ctx.saved_tensors
        grad = ctx.region.spread(grad)
        inside, row = _inside(tokens, ctx.start, ctx.shape[0])
        table = grad.new_zeros(ctx.shape)
        rows = (grad * inside.unsqueeze(-1)).flatten(0, -2)
        table.index_add_(0, row.flatten(), rows)
        return None, table, None, None


class Loss(torch.autograd.Function):
    """Cross entropy of logits split by the vocabulary; keeps the softmax in 32 bits."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, targets: Tensor, region: Region, span: range
    ) -> Tensor:
        """Return the sum of the losses of all tokens.

        Parameters
        ----------
        logits
            This rank's, (b, n, len of its part).
        span
            The vocabulary's tokens that they belong to; logits beyond are padding.
        """
        if len(span) < logits.shape[-1]:
            logits[..., len(span) :] = -torch.inf
        highest = logits.amax(-1, keepdim=True).float()
        _all_reduce(highest, region, dist.ReduceOp.MAX)
        softmax = logits - highest
        inside, row = _inside(targets, span.start, len(span))
        # The target's own logit; zero on ranks that do not have it.
        own = softmax.gather(-1, row.unsqueeze(-1)).squeeze(-1)
        own = torch.where(inside, own, 0.0)
        softmax.exp_()
        total = softmax.sum(-1, keepdim=True)
        sums = torch.cat((total, own.unsqueeze(-1)), -1)
        _all_reduce(sums, region, dist.ReduceOp.SUM)
        softmax.div_(sums[..., :1])
        ctx.save_for_backward(softmax, targets)
        ctx.span, ctx.dtype = span, logits.dtype
        return (sums[..., 0].log() - sums[..., 1]).sum()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        """Return the logits' gradient, made in place of the softmax."""
        softmax, targets = ctx.saved_tensors
        inside, row = _inside(targets, ctx.span.start, len(ctx.span))
        one = inside.to(softmax.dtype).unsqueeze(-1)
        softmax.scatter_add_(-1, row.unsqueeze(-1), -one)
        return softmax.mul_(grad).to(ctx.dtype), None, None, None


def _inside(tokens: Tensor, start: int, count: int) -> tuple[Tensor, Tensor]:
    """Return which tokens are in ``start + [0, count)``, and their rows, else 0."""
    row = tokens - start
    inside = (row >= 0) & (row < count)
    return inside, row * inside


def _all_reduce(x: Tensor, region: Region, operation: Any) -> None:
    if region.size > 1:
        dist.all_reduce(x, op=operation, group=region.group)
