"""The MLP after its activation."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from hetopt.profile.units.edges import Edges
from hetopt.profile.units.parts import with_residual


class MlpDown:
    """Second matrix and residual."""

    def __init__(self, edges: Edges) -> None:
        shape = edges.shape
        self.edges = edges
        self.out = edges.weight(shape.hidden, shape.shard_ffn)
        self.bias = None if shape.gated else edges.weight(shape.hidden)

    def __call__(self, inner: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
        """Return the device's tokens after the MLP; (b, tokens, hidden)."""
        out = self.edges.own_tokens("mlp output", F.linear(inner, self.out))
        return with_residual(own, out, self.bias)

    @staticmethod
    def inputs(edges: Edges) -> tuple[torch.Tensor, ...]:
        """Return the inner activations, and the tokens of the residual."""
        shape = edges.shape
        own = edges.arriving("input", *edges.own_size)
        tokens = shape.seq_len // shape.cp
        return edges.arriving("inner", shape.microbatch, tokens, shape.shard_ffn), own
