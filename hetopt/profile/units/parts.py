"""Common parts of several kinds of units."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from hetopt.cost.shard_shape import ShardShape
from hetopt.profile.units.edges import Edges

NORM_EPSILON = 1e-5


class OwnTokens:
    """A unit whose only input is the device's tokens."""

    @staticmethod
    def inputs(edges: Edges) -> tuple[torch.Tensor, ...]:
        """Return the device's tokens."""
        return (edges.arriving("input", *edges.own_size),)


class Norm:
    """RMSNorm, or LayerNorm with its bias."""

    def __init__(self, edges: Edges) -> None:
        width = edges.shape.hidden
        self.size = (width,)
        self.scale = edges.weight(width)
        self.bias = None if edges.shape.gated else edges.weight(width)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise over the hidden size."""
        if self.bias is None:
            return F.rms_norm(x, self.size, self.scale, NORM_EPSILON)
        return F.layer_norm(x, self.size, self.scale, self.bias, NORM_EPSILON)


def with_residual(
    own: torch.Tensor, out: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """Add a unit's output, and its bias if it has one, to its input."""
    return own + out if bias is None else own + (out + bias)


def random_tokens(shape: ShardShape, device: torch.device) -> torch.Tensor:
    """Return token ids of the device's vocabulary, (b, seq_len / cp)."""
    size = (shape.microbatch, shape.seq_len // shape.cp)
    return torch.randint(shape.shard_vocab, size, device=device)
