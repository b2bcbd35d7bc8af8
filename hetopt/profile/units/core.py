"""The fused attention core."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from hetopt.cost.shard_shape import ShardShape
from hetopt.profile.units.edges import Edges


class Core:
    """Fused causal attention of the device's queries to all keys before them."""

    def __init__(self, edges: Edges) -> None:
        shape = edges.shape
        self.cp = shape.cp
        self.grouped = shape.shard_heads != shape.shard_kv_heads
        self.repeats = shape.shard_heads // shape.shard_kv_heads
        kind = edges.device.type
        #: Whether the kernels support fewer key heads than query heads.
        self.native = kind == "cpu" or (kind == "cuda" and shape.dtype != "fp32")
        self.mask: Any = None
        if shape.cp > 1:
            self.mask = _last_chunk_mask(shape, edges.device)

    def __call__(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> torch.Tensor:
        """Return the attention's output; all are (b, heads, tokens, width)."""
        if self.grouped and not self.native:
            key = key.repeat_interleave(self.repeats, dim=1)
            value = value.repeat_interleave(self.repeats, dim=1)
        grouped = self.grouped and self.native
        if self.cp == 1:
            return F.scaled_dot_product_attention(
                query, key, value, is_causal=True, enable_gqa=grouped
            )
        chunk = query.shape[2] // 2
        first = F.scaled_dot_product_attention(
            query[:, :, :chunk],
            key[:, :, :chunk],
            value[:, :, :chunk],
            is_causal=True,
            enable_gqa=grouped,
        )
        last = F.scaled_dot_product_attention(
            query[:, :, chunk:], key, value, attn_mask=self.mask, enable_gqa=grouped
        )
        return torch.cat((first, last), dim=2)

    @staticmethod
    def inputs(edges: Edges) -> tuple[torch.Tensor, ...]:
        """Return queries, keys and values."""
        shape = edges.shape
        tokens = shape.seq_len // shape.cp
        return tuple(
            edges.arriving(name, shape.microbatch, heads, length, shape.head_dim)
            for name, heads, length in (
                ("query", shape.shard_heads, tokens),
                ("keys", shape.shard_kv_heads, shape.seq_len),
                ("values", shape.shard_kv_heads, shape.seq_len),
            )
        )


def query_positions(shape: ShardShape, device: torch.device) -> torch.Tensor:
    """Return the positions of the device's tokens in the sequence, (seq_len / cp,)."""
    if shape.cp == 1:
        return torch.arange(shape.seq_len, device=device)
    chunk = shape.seq_len // (2 * shape.cp)
    return torch.cat(
        (
            torch.arange(chunk, device=device),
            torch.arange(shape.seq_len - chunk, shape.seq_len, device=device),
        )
    )


def _last_chunk_mask(shape: ShardShape, device: torch.device) -> Any:
    """Return the causal mask of the sequence's last chunk, aligned with the last key.

    CUDA has kernels that need no mask for this alignment. PyTorch guarantees it for no
    other device, so these have a boolean mask.
    """
    chunk = shape.seq_len // (2 * shape.cp)
    if device.type == "cuda" and torch.version.hip is None:
        from torch.nn.attention.bias import causal_lower_right

        return causal_lower_right(chunk, shape.seq_len)
    full = torch.ones(chunk, shape.seq_len, dtype=torch.bool, device=device)
    return full.tril(shape.seq_len - chunk)
