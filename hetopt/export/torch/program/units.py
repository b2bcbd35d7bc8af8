"""Units of the model: what ``build_unit`` returns, and what your own must do.

A unit is an ``nn.Module``; ``place.job.kind(index)`` says which it is.

- ``embedding``, unit 0, is called with the tokens of its rank, int64 (b, n), and
  returns (b, m, h).
- ``layer`` units are called with (b, m, h) and return the same.
- ``head``, the last one, is called with (b, m, h) and the tokens that follow, (b, n),
  and returns the sum of the losses of all of its tokens.

Where stages may begin inside a layer (granularity ``block``), three units stand for it:

- ``attention`` is called with (b, m, h) and returns the same.
- ``mlp-up`` is called with (b, m, h) and returns a tuple: this residual, and the inner
  activations (b, n, f / tp) of all n tokens, split by columns over ``place.tensor``.
- ``mlp-down`` is called with these two and returns (b, m, h).

n are the tokens of a cp rank, at ``place.positions`` of the sequence; m = n, or n / tp
where sequence parallelism splits them further (``place.splits_tokens``). A unit follows
``place.plan``: it splits its matrices over ``place.tensor``, and wraps in
``recomputed`` what is to be recomputed. Attributes of parameters:

- ``sum_over``: the group to sum the gradient over, if each tp rank has only a part of
  it, as of a norm with sequence parallelism.
- ``copies``: for routed experts, whose replicas are not ``place.copies``, the ranks
  with the same experts, ``place.expert_copies``.
- ``tied_rows``: in a tied model, the tokens of the tables of the embedding and of the
  head; if one stage has both, they become one parameter.
- ``box``: where the plan has several pipelines, the part of the whole that tp or ep
  gives this rank, a range for each dimension.

Weights must be the same on all replicas: draw them from a seed. Under zero bubble,
gradients of the weights of every ``nn.Linear`` and of ``operations.linear`` run later;
all others are computed with those of inputs.

To use your own: write ``def build_unit(index, place) -> nn.Module`` in a file and give
it as ``--units my_model.py:build_unit``; ``llama_units.py`` beside ``train.py`` is one.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import Context, attend, recomputed
from .experts import RoutedMlp
from .groups import Place
from .job import BLOCKS
from .operations import Columns, Gated, Lookup, Loss, Rows, Turned
from .unit import Unit


def build_unit(index: int, place: Place) -> nn.Module:
    """Return this rank's part of the unit of an index, from 0."""
    kind = place.job.kind(index)
    if kind == "embedding":
        return Embedding(place)
    if kind == "head":
        return Head(place)
    return Layer(index, place, BLOCKS if kind == "layer" else (kind,))


class Embedding(Unit):
    """A table split by the vocabulary, and learned positions if the model has them."""

    def __init__(self, place: Place) -> None:
        super().__init__(0, place)
        self.table("tokens")
        length = self.model["positions"]
        if length:
            whole = torch.empty(length, self.model["hidden"])
            whole.normal_(std=0.02, generator=self.generator("positions"))
            self.vector("positions", whole, outside=True)
            own = place.positions
            if place.splits_tokens:
                own = own.chunk(place.plan.tp)[place.tp]
            self.register_buffer("own", own, persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return (b, m, h) of tokens (b, n)."""
        x = Lookup.apply(tokens, self.tokens, self.region, self.span.start)
        return x + self.positions[self.own] if self.model["positions"] else x


def _call(function: Any, *inputs: Any) -> Any:
    return function(*inputs)


class Layer(Unit):
    """A layer or some of its blocks, with this rank's share of heads and MLP."""

    def __init__(self, index: int, place: Place, blocks: tuple[str, ...]) -> None:
        super().__init__(index, place)
        self.blocks, self.biased = blocks, self.model["norm"] == "layer"
        self.up_names = ("gate", "up") if self.model["gated"] else ("up",)
        if "attention" in blocks:
            self._make_attention()
        if "mlp-up" in blocks:
            self.norm("mlp_norm")
        self.mlp = RoutedMlp(index, place) if place.job.is_routed(index) else None
        if self.mlp is None and "mlp-up" in blocks:
            for name in self.up_names:
                self._column(name, self.model["ffn"])
        if self.mlp is None and "mlp-down" in blocks:
            self._row("down", self.model["ffn"])

    def _make_attention(self) -> None:
        model, width = self.model, self.model["head_dim"]
        self.context = Context.of(self.place)
        self.norm("attention_norm")
        self._column("q", width * model["heads"])
        for name in "kv":
            self._column(name, width * model["kv_heads"])
            if model["kv_heads"] < self.region.size:
                self._keep_one_head(name)
        self._row("out", width * model["heads"])
        if not model["positions"]:
            self.cos, self.sin = self.place.angles

    def _column(self, name: str, outputs: int) -> None:
        """Make a matrix split by outputs, and its bias."""
        shared = name in "kv" and self.model["kv_heads"] < self.region.size
        self.draw(name, outputs, self.model["hidden"], None if shared else 0)
        if self.biased:
            weight = getattr(self, name)
            bias = torch.zeros(weight.shape[0])
            self.vector(f"{name}_bias", bias, outside=False, box=weight.box[:1])

    def _row(self, name: str, inputs: int) -> None:
        """Make a matrix split by inputs, and its bias, added after the sum over tp."""
        self.draw(name, self.model["hidden"], inputs, 1)
        if self.biased:
            zeros = torch.zeros(self.model["hidden"])
            self.vector(f"{name}_bias", zeros, outside=True)

    def _keep_one_head(self, name: str) -> None:
        """Keep only the k or v head of this rank's queries; other ranks share it."""
        head = self.region.rank * self.model["kv_heads"] // self.region.size
        width = self.model["head_dim"]
        for each in (name, f"{name}_bias") if self.biased else (name,):
            whole = getattr(self, each).detach()
            rows = range(head * width, (head + 1) * width)
            parameter = nn.Parameter(whole[rows.start : rows.stop].clone())
            parameter.sum_over = self.place.sharers
            parameter.box = rows, *map(range, whole.shape[1:])
            self.register_parameter(each, parameter)

    def forward(
        self, x: Tensor, inner: Tensor | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Run on (b, m, h), and on the MLP's inner activations (b, n, f / tp)."""
        if self.place.plan.recompute != "full":
            return self._run(x, inner)
        if self.blocks == BLOCKS:
            y: Tensor = recomputed(self._run, x)
            return y
        return self._run(x, inner, recomputed)

    def _run(
        self, x: Tensor, inner: Tensor | None = None, call: Any = _call
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Run the blocks, each by ``call``."""
        if "attention" in self.blocks:
            x = call(self._attention, x)
        if self.mlp is not None:
            return x + self.mlp(self.normed(x, "mlp_norm"))
        if "mlp-up" in self.blocks:
            inner = call(self._mlp_up, x)
        if "mlp-down" in self.blocks:
            return x + call(self._rows, inner, "down")
        return x if inner is None else (x, inner)

    def _columns(self, x: Tensor, names: tuple[str, ...]) -> tuple[Tensor, ...]:
        of = [getattr(self, name) for name in names]
        if self.biased:
            of += [getattr(self, f"{name}_bias") for name in names]
        products: tuple[Tensor, ...] = Columns.apply(x, self.region, self.biased, *of)
        return products

    def _rows(self, x: Tensor, name: str) -> Tensor:
        y = Rows.apply(x, self.region, getattr(self, name))
        return y + getattr(self, f"{name}_bias") if self.biased else y

    def _attention(self, x: Tensor) -> Tensor:
        products = self._columns(self.normed(x, "attention_norm"), ("q", "k", "v"))
        q, k, v = (y.unflatten(-1, (-1, self.model["head_dim"])) for y in products)
        if not self.model["positions"]:
            q, k = (Turned.apply(each, self.cos, self.sin) for each in (q, k))
        again = self.place.plan.recompute == "selective"
        return x + self._rows(attend(q, k, v, self.context, again=again), "out")

    def _mlp_up(self, x: Tensor) -> Tensor:
        products = self._columns(self.normed(x, "mlp_norm"), self.up_names)
        return Gated.apply(*products) if self.model["gated"] else F.gelu(products[0])


class Head(Unit):
    """The last norm, logits split by the vocabulary, and the loss."""

    def __init__(self, place: Place) -> None:
        super().__init__(place.job.units - 1, place)
        self.norm("last_norm")
        self.table("output")

    def forward(self, x: Tensor, targets: Tensor) -> Tensor:
        """Return the sum of the losses of all tokens of (b, m, h)."""
        normed = self.normed(x, "last_norm")
        (logits,) = Columns.apply(normed, self.region, False, self.output)
        loss: Tensor = Loss.apply(logits, targets, self.region, self.span)
        return loss
