"""The MLP up to its activation."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from hetopt.profile.units.edges import Edges
from hetopt.profile.units.parts import Norm, OwnTokens


class MlpUp(OwnTokens):
    """Norm, first matrix (two for SwiGLU) and activation."""

    def __init__(self, edges: Edges) -> None:
        shape = edges.shape
        self.edges = edges
        self.gated = shape.gated
        self.norm = Norm(edges)
        self.into = edges.weight(shape.shard_ffn * (1 + shape.gated), shape.hidden)
        self.bias = None if shape.gated else edges.weight(shape.shard_ffn)

    def __call__(self, own: torch.Tensor) -> torch.Tensor:
        """Return the inner activations; (b, tokens, ffn / tp)."""
        x = self.edges.whole_shard("mlp input", self.norm(own))
        inner = F.linear(x, self.into, self.bias)
        if not self.gated:
            return F.gelu(inner, approximate="tanh")
        return swiglu(inner)


def swiglu(inner: torch.Tensor) -> torch.Tensor:
    """Return one half of the last dimension, gated by the other."""
    gate, up = inner.chunk(2, dim=-1)
    return F.silu(gate) * up
