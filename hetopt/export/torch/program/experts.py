"""Routed experts: the choice of some for each token, and their arithmetic.

Nothing balances the load of experts: hetopt prices no auxiliary loss. How uneven it is
assumed to be is ``imbalance`` of the problem.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .dispatch import Copied, Joined, Routes
from .groups import Place
from .later import weight_gradients
from .operations import Columns, Gated, Rows, linear
from .unit import Unit


class RoutedMlp(Unit):
    """A router, this rank's experts, and its part of the shared ones."""

    def __init__(self, index: int, place: Place) -> None:
        super().__init__(index, place)
        self.experts: dict[str, Any] = self.model["experts"]
        number, hidden = self.experts["number"], self.model["hidden"]
        self.vector("router", self.drawn("router", number, hidden), outside=True)
        if self.experts["router_bias"]:
            self.vector("router_bias", torch.zeros(number), outside=True)
        each = number // place.plan.ep
        self.own = range(place.ep * each, (place.ep + 1) * each)
        width = self.experts["ffn"]
        self.up_names = ("gate", "up") if self.model["gated"] else ("up",)
        for name in self.up_names:
            self._matrices(name, width, hidden, 0)
        self._matrices("down", hidden, width, 1)
        width = self.experts["shared_ffn"]
        self.shared = SharedMlp(index, place, width) if width else None

    def _matrices(self, name: str, outputs: int, inputs: int, split: int) -> None:
        """Make one of an expert's matrices, (own experts, outputs, inputs)."""
        place = self.place
        parts = [
            self.drawn(f"{name} {expert}", outputs, inputs)
            .chunk(place.plan.etp, split)[place.etp]
            .clone()
            for expert in self.own
        ]
        parameter = nn.Parameter(torch.stack(parts))
        parameter.copies = place.expert_copies
        sides = [self.own, range(outputs), range(inputs)]
        own = parts[0].shape[split]
        sides[split + 1] = range(place.etp * own, (place.etp + 1) * own)
        parameter.box = tuple(sides)
        self.register_parameter(name, parameter)

    def forward(self, x: Tensor) -> Tensor:
        """Return the experts' output for (b, m, h)."""
        tokens = x.flatten(0, 1)
        weights, choice = self._route(tokens)
        routes = Routes.of(self.place, choice, self.experts["number"])
        # Copies of tokens by the expert that they go to.
        order, copies = choice.flatten().argsort(stable=True), choice.shape[1]
        rows = routes.there(Copied.apply(tokens, order, copies))
        scale = routes.there(weights.flatten()[order].unsqueeze(1))
        up = [getattr(self, name) for name in self.up_names]
        inner = Weighted.apply(scale, *Grouped.apply(rows, routes.ends, *up))
        (found,) = Grouped.apply(inner, routes.ends, self.down)
        y: Tensor = Joined.apply(routes.back(found), order, copies).view_as(x)
        return y if self.shared is None else y + self.shared(x)

    def _route(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weights and numbers of the experts of each token, both (n, k)."""
        own = self.experts
        bias = self.router_bias if own["router_bias"] else None
        logits = Logits.apply(x, self.router, bias)
        sigmoid = own["scores"] == "sigmoid"
        scores = logits.sigmoid() if sigmoid else logits.softmax(-1)
        choice = self._allowed(scores.detach()).topk(own["per_token"]).indices
        weights = scores.gather(1, choice)
        if own["normalised"]:
            weights = weights / weights.sum(-1, keepdim=True)
        return weights * own["scale"], choice

    def _allowed(self, scores: Tensor) -> Tensor:
        """Return the scores (n, E), -1 outside of the groups that a token may choose.

        A group's score is the sum of its best ones, as many as a token has experts per
        group (``group_limited_topk`` of Megatron-core 0.16.1).
        """
        groups, most = self.experts["groups"], self.experts["groups_per_token"]
        if not groups:
            return scores
        by_group = scores.unflatten(1, (groups, -1))
        each = self.experts["per_token"] // most
        best = by_group.topk(each).values.sum(-1).topk(most).indices
        inside = torch.zeros_like(by_group[..., 0], dtype=torch.bool)
        inside.scatter_(1, best, value=True)
        return by_group.masked_fill(~inside.unsqueeze(-1), -1.0).flatten(1)


class SharedMlp(Unit):
    """Shared experts, which process all tokens, as one MLP that tp splits."""

    def __init__(self, index: int, place: Place, width: int) -> None:
        super().__init__(index, place)
        hidden = self.model["hidden"]
        self.up_names = ("gate", "up") if self.model["gated"] else ("up",)
        for name in self.up_names:
            self.draw(name, width, hidden, 0)
        self.draw("down", hidden, width, 1)
        if self.model["experts"]["shared_gate"]:
            self.vector("weight", self.drawn("weight", 1, hidden), outside=True)

    def forward(self, x: Tensor) -> Tensor:
        """Run on (b, m, h)."""
        up = [getattr(self, name) for name in self.up_names]
        inner = Columns.apply(x, self.region, False, *up)
        acted = Gated.apply(*inner) if self.model["gated"] else F.gelu(inner[0])
        y: Tensor = Rows.apply(acted, self.region, self.down)
        if not self.model["experts"]["shared_gate"]:
            return y
        return y * linear(x, self.weight).sigmoid()


class Logits(torch.autograd.Function):
    """The router's matrix, multiplied in 32 bits; keeps its input in its own type."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Return (n, E) in 32 bits of (n, h)."""
        ctx.save_for_backward(x, weight)
        ctx.biased = bias is not None
        return F.linear(
            x.float(), weight.float(), None if bias is None else bias.float()
        )

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Return gradients of input, weight and bias."""
        x, weight = ctx.saved_tensors
        of_input = (grad @ weight.float()).to(x.dtype)
        (of_weight,) = weight_gradients(_wide_product, [weight], x, grad)
        of_bias = grad.sum(0).to(weight.dtype) if ctx.biased else None
        return of_input, of_weight, of_bias


def _wide_product(x: Tensor, grad: Tensor) -> tuple[Tensor]:
    return ((grad.T @ x.float()).to(x.dtype),)


class Grouped(torch.autograd.Function):
    """Several matrices of each expert, applied to one input; keeps the input."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, ends: list[int], *weights: Tensor
    ) -> tuple[Tensor, ...]:
        """Return one product per matrix, (rows, its outputs).

        Parameters
        ----------
        ends
            End (exclusive) of the rows of each expert.
        weights
            Each (experts, outputs, inputs).
        """
        ctx.save_for_backward(x, *weights)
        ctx.ends = ends
        found = tuple(x.new_empty((len(x), weight.shape[1])) for weight in weights)
        for expert, rows in _pieces(ends):
            for weight, product in zip(weights, found, strict=True):
                torch.mm(x[rows], weight[expert].T, out=product[rows])
        return found

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        """Return gradients of the input and the weights."""
        x, *weights = ctx.saved_tensors
        of_input = torch.zeros_like(x)
        for expert, rows in _pieces(ctx.ends):
            for grad, weight in zip(grads, weights, strict=True):
                of_input[rows].addmm_(grad[rows], weight[expert])
        multiply = partial(_grouped_products, ctx.ends)
        return of_input, None, *weight_gradients(multiply, weights, x, *grads)


def _grouped_products(ends: list[int], x: Tensor, *grads: Tensor) -> tuple[Tensor, ...]:
    """Return gradients of weights, each (experts, outputs, inputs)."""
    shapes = [(len(ends), grad.shape[1], x.shape[1]) for grad in grads]
    found = tuple(x.new_empty(shape) for shape in shapes)
    for expert, rows in _pieces(ends):
        for grad, of_weight in zip(grads, found, strict=True):
            torch.mm(grad[rows].T, x[rows], out=of_weight[expert])
    return found


def _pieces(ends: list[int]) -> list[tuple[int, slice]]:
    """Return each expert with its rows."""
    return [(expert, slice(*own)) for expert, own in enumerate(pairwise([0, *ends]))]


class Weighted(torch.autograd.Function):
    """SwiGLU or GELU, times the router's weight; keeps its inputs, no product."""

    @staticmethod
    def forward(ctx: Any, scale: Tensor, *inner: Tensor) -> Tensor:
        """Return the weighted activation of (rows, f).

        Parameters
        ----------
        scale
            (rows, 1), in 32 bits.
        inner
            For SwiGLU the gate and the tensor it multiplies; for GELU one tensor.
        """
        ctx.save_for_backward(scale, *inner)
        return (_activation(*inner) * scale).to(inner[0].dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        """Return gradients of the router's weight and of ``inner``."""
        scale, *inner = ctx.saved_tensors
        of_scale = (grad.float() * _activation(*inner)).sum(-1, keepdim=True)
        grad = (grad * scale).to(grad.dtype)
        if len(inner) == 1:
            return of_scale, torch.ops.aten.gelu_backward(grad, inner[0])
        return of_scale, *Gated.slopes(grad, *inner)


def _activation(first: Tensor, up: Tensor | None = None) -> Tensor:
    return F.gelu(first) if up is None else F.silu(first).mul_(up)
