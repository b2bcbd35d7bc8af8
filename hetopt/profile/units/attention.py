"""Attention with its norm, projections and residual."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from hetopt.cost.shard_shape import ShardShape
from hetopt.profile.units.core import Core, query_positions
from hetopt.profile.units.edges import DTYPES, Edges
from hetopt.profile.units.parts import Norm, OwnTokens, with_residual

ROTARY_BASE = 10000.0


class Attention(OwnTokens):
    """Norm, queries, keys and values, rotary embedding, core, output, residual."""

    def __init__(self, edges: Edges) -> None:
        shape = self.shape = edges.shape
        self.edges = edges
        self.norm = Norm(edges)
        self.query_width = shape.shard_query
        self.kv_width = shape.shard_kv
        inner = self.query_width + 2 * self.kv_width
        self.into = edges.weight(inner, shape.hidden)
        self.out = edges.weight(shape.hidden, self.query_width)
        self.bias_into = None if shape.gated else edges.weight(inner)
        self.bias_out = None if shape.gated else edges.weight(shape.hidden)
        self.core = Core(edges)
        self.rotary = rotary_tables(shape, edges.device) if shape.gated else None

    def __call__(self, own: torch.Tensor) -> torch.Tensor:
        """Return the device's tokens after attention; (b, tokens, hidden)."""
        x = self.edges.whole_shard("attention input", self.norm(own))
        inner = F.linear(x, self.into, self.bias_into)
        query, key, value = (
            part.unflatten(-1, (-1, self.shape.head_dim)).transpose(1, 2)
            for part in inner.split(
                (self.query_width, self.kv_width, self.kv_width), dim=-1
            )
        )
        if self.rotary is not None:
            query, key = rotate(query, *self.rotary), rotate(key, *self.rotary)
        key = self.edges.whole_sequence("keys", key)
        value = self.edges.whole_sequence("values", value)
        mixed = self.core(query, key, value).transpose(1, 2).flatten(2)
        out = self.edges.own_tokens("attention output", F.linear(mixed, self.out))
        return with_residual(own, out, self.bias_out)


def rotary_tables(
    shape: ShardShape, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cosines and sines, (tokens, head_dim)."""
    half = torch.arange(0, shape.head_dim, 2, device=device) / shape.head_dim
    angles = torch.outer(query_positions(shape, device), ROTARY_BASE**-half)
    angles = torch.cat((angles, angles), dim=-1)
    dtype = DTYPES[shape.dtype]
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(x: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    """Rotate heads, (b, heads, tokens, head_dim), by their tokens' positions."""
    left, right = x.chunk(2, dim=-1)
    return x * cosines + torch.cat((-right, left), dim=-1) * sines
