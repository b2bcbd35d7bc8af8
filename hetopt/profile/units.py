"""The units of a transformer, as one device of (cp, tp) computes them.

What other devices would send is there from the start: a tensor that a collective
would deliver begins as a leaf, a tensor that one would take ends with a given
gradient (``Edges``). So one device is enough, nothing communicates, and the kernels
are those of tensor parallelism with sequence parallelism (Megatron-LM):

- norms and residuals see the device's ``seq_len / (cp * tp)`` tokens, matrices and
  attention ``seq_len / cp``;
- heads, the MLP's inner width and the vocabulary are divided by ``tp``;
- queries are the first and the last of ``2 * cp`` chunks of the sequence, the
  balanced pair of rank 0, and meet the keys and values of all tokens before them.

Gradients of weights are added to those of the micro-batch before, as in training.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import torch
import torch.nn.functional as F

from hetopt.cost.profile_table import ATTENTION_CORE
from hetopt.problem.model import (
    ATTENTION,
    EMBEDDING,
    HEAD,
    LAYER,
    MLP_DOWN,
    MLP_UP,
)

if TYPE_CHECKING:
    from hetopt.cost.profile_table import ShardShape

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
WEIGHT_SCALE = 0.02
ROTARY_BASE = 10000.0
NORM_EPSILON = 1e-5


class Unit(Protocol):
    """Something that can be timed."""

    def forward(self) -> None:
        """Run forward and keep what backward needs."""
        ...

    def backward(self) -> None:
        """Run backward."""
        ...


@dataclass(slots=True)
class Edges:
    """Makes tensors, and stands in for the other devices; see the module's head."""

    shape: ShardShape
    device: torch.device
    leaves: dict[str, torch.Tensor] = field(default_factory=dict)
    ends: list[torch.Tensor] = field(default_factory=list)
    gradients: dict[tuple[int, ...], torch.Tensor] = field(default_factory=dict)

    def weight(self, *size: int) -> torch.Tensor:
        """Return a trained matrix or vector."""
        return (self._random(*size) * WEIGHT_SCALE).requires_grad_()

    def arriving(self, name: str, *size: int) -> torch.Tensor:
        """Return the tensor of this name that comes from elsewhere, with gradient."""
        if name not in self.leaves:
            self.leaves[name] = self._random(*size).requires_grad_()
        return self.leaves[name]

    def whole_shard(self, name: str, own: torch.Tensor) -> torch.Tensor:
        """Gather a device's tokens to those of its tensor-parallel group."""
        if self.shape.tp == 1:
            return own
        self.ends.append(own)
        return self.arriving(
            name, own.shape[0], own.shape[1] * self.shape.tp, *own.shape[2:]
        )

    def own_tokens(self, name: str, partial: torch.Tensor) -> torch.Tensor:
        """Reduce and scatter a tensor-parallel group's tokens to the device's."""
        if self.shape.tp == 1:
            return partial
        self.ends.append(partial)
        own = partial.shape[1] // self.shape.tp
        return self.arriving(name, partial.shape[0], own, *partial.shape[2:])

    def whole_sequence(self, name: str, part: torch.Tensor) -> torch.Tensor:
        """Gather keys or values, (b, heads, tokens, width), of the whole sequence."""
        if self.shape.cp == 1:
            return part
        self.ends.append(part)
        batch, heads, tokens, width = part.shape
        return self.arriving(name, batch, heads, tokens * self.shape.cp, width)

    def backward(self) -> None:
        """Run backward from everything that left the device."""
        torch.autograd.backward(self.ends, [self._gradient(end) for end in self.ends])

    def forget(self) -> None:
        """Drop the graph and the gradients of what arrived; weights keep theirs."""
        self.ends.clear()
        for leaf in self.leaves.values():
            leaf.grad = None

    def _gradient(self, end: torch.Tensor) -> torch.Tensor:
        size = tuple(end.shape)
        if size not in self.gradients:
            random = torch.randn_like(end, requires_grad=False)
            # A loss has gradient 1; a tiny one would slow CPUs down (denormals).
            self.gradients[size] = random if size else torch.ones_like(random)
        return self.gradients[size]

    def _random(self, *size: int) -> torch.Tensor:
        return torch.randn(size, device=self.device, dtype=DTYPES[self.shape.dtype])


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


class Core:
    """Fused causal attention of the device's queries to all keys before them."""

    def __init__(self, edges: Edges) -> None:
        shape = edges.shape
        self.cp = shape.cp
        self.grouped = shape.shard_heads != shape.shard_kv_heads
        self.repeats = shape.shard_heads // shape.shard_kv_heads
        kind = edges.device.type
        #: The kernels that take fewer keys than queries.
        self.native = kind == "cpu" or (kind == "cuda" and shape.dtype != "fp32")
        self.mask: Any = None
        if shape.cp > 1:
            self.mask = _last_chunk_mask(shape, edges.device)

    def __call__(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> torch.Tensor:
        """Attend; all are (b, heads, tokens, width)."""
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


class Attention:
    """Norm, queries, keys and values, rotary embedding, core, output, residual."""

    def __init__(self, edges: Edges) -> None:
        shape = self.shape = edges.shape
        self.edges = edges
        self.norm = Norm(edges)
        self.query_width = shape.shard_heads * shape.head_dim
        self.kv_width = shape.shard_kv_heads * shape.head_dim
        inner = self.query_width + 2 * self.kv_width
        self.into = edges.weight(inner, shape.hidden)
        self.out = edges.weight(shape.hidden, self.query_width)
        self.bias_into = None if shape.gated else edges.weight(inner)
        self.bias_out = None if shape.gated else edges.weight(shape.hidden)
        self.core = Core(edges)
        self.rotary = _rotary(shape, edges.device) if shape.gated else None

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
            query, key = _rotate(query, *self.rotary), _rotate(key, *self.rotary)
        key = self.edges.whole_sequence("keys", key)
        value = self.edges.whole_sequence("values", value)
        mixed = self.core(query, key, value).transpose(1, 2).flatten(2)
        out = self.edges.own_tokens("attention output", F.linear(mixed, self.out))
        return _residual(own, out, self.bias_out)


class MlpUp:
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
        gate, up = inner.chunk(2, dim=-1)
        return F.silu(gate) * up


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
        return _residual(own, out, self.bias)


class Layer:
    """A transformer layer: its three blocks in one graph."""

    def __init__(self, edges: Edges) -> None:
        self.attention = Attention(edges)
        self.up = MlpUp(edges)
        self.down = MlpDown(edges)

    def __call__(self, own: torch.Tensor) -> torch.Tensor:
        """Return the device's tokens after the layer; (b, tokens, hidden)."""
        own = self.attention(own)
        return self.down(self.up(own), own)


class Embedding:
    """Rows of the vocabulary's table; GPT adds learned positions."""

    def __init__(self, edges: Edges) -> None:
        shape = edges.shape
        self.edges = edges
        self.table = edges.weight(shape.shard_vocab, shape.hidden)
        self.ids = _tokens(shape, edges.device)
        self.positions = None
        if not shape.gated:
            own = shape.seq_len // (shape.cp * shape.tp)
            self.positions = edges.weight(own, shape.hidden)

    def __call__(self) -> torch.Tensor:
        """Return the device's tokens; (b, tokens, hidden)."""
        rows = F.embedding(self.ids, self.table)
        own = self.edges.own_tokens("embedding output", rows)
        return own if self.positions is None else own + self.positions


class Head:
    """Norm, logits, and the loss in 32 bits."""

    def __init__(self, edges: Edges) -> None:
        shape = edges.shape
        self.edges = edges
        self.norm = Norm(edges)
        self.out = edges.weight(shape.shard_vocab, shape.hidden)
        self.targets = _tokens(shape, edges.device).flatten()

    def __call__(self, own: torch.Tensor) -> torch.Tensor:
        """Return the mean loss of the device's share of the logits."""
        x = self.edges.whole_shard("head input", self.norm(own))
        logits = F.linear(x, self.out).flatten(0, 1)
        return F.cross_entropy(logits.float(), self.targets)


class ShardUnit:
    """One unit's shard with its inputs, ready to be timed.

    Parameters
    ----------
    shape
        What to compute.
    device
        Where.
    """

    def __init__(self, shape: ShardShape, device: torch.device) -> None:
        self.shape = shape
        self.edges = Edges(shape, device)
        self.call = _BUILDERS[shape.unit](self.edges)

    def forward(self) -> None:
        """Run forward and keep what backward needs."""
        self.edges.forget()
        self.edges.ends.append(self.call(*self._inputs()))

    def backward(self) -> None:
        """Run backward."""
        self.edges.backward()

    def _inputs(self) -> tuple[torch.Tensor, ...]:
        shape, edges = self.shape, self.edges
        tokens = shape.seq_len // shape.cp
        own_size = (shape.microbatch, tokens // shape.tp, shape.hidden)
        if shape.unit == EMBEDDING:
            return ()
        if shape.unit == ATTENTION_CORE:
            return tuple(
                edges.arriving(name, shape.microbatch, heads, length, shape.head_dim)
                for name, heads, length in (
                    ("query", shape.shard_heads, tokens),
                    ("keys", shape.shard_kv_heads, shape.seq_len),
                    ("values", shape.shard_kv_heads, shape.seq_len),
                )
            )
        own = edges.arriving("input", *own_size)
        if shape.unit != MLP_DOWN:
            return (own,)
        inner = edges.arriving("inner", shape.microbatch, tokens, shape.shard_ffn)
        return (inner, own)


_BUILDERS: dict[str, Any] = {
    LAYER: Layer,
    ATTENTION: Attention,
    MLP_UP: MlpUp,
    MLP_DOWN: MlpDown,
    EMBEDDING: Embedding,
    HEAD: Head,
    ATTENTION_CORE: Core,
}


def query_positions(shape: ShardShape, device: torch.device) -> torch.Tensor:
    """Return where in the sequence the device's tokens stand, (seq_len / cp,)."""
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
    """Causality of the sequence's last chunk, aligned with the last key.

    CUDA has kernels that need no mask for it; PyTorch promises that alignment for
    no other device, so they get a boolean mask.
    """
    chunk = shape.seq_len // (2 * shape.cp)
    if device.type == "cuda" and torch.version.hip is None:
        from torch.nn.attention.bias import causal_lower_right

        return causal_lower_right(chunk, shape.seq_len)
    full = torch.ones(chunk, shape.seq_len, dtype=torch.bool, device=device)
    return full.tril(shape.seq_len - chunk)


def _rotary(
    shape: ShardShape, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cosines and sines, (tokens, head_dim)."""
    half = torch.arange(0, shape.head_dim, 2, device=device) / shape.head_dim
    angles = torch.outer(query_positions(shape, device), ROTARY_BASE**-half)
    angles = torch.cat((angles, angles), dim=-1)
    dtype = DTYPES[shape.dtype]
    return angles.cos().to(dtype), angles.sin().to(dtype)


def _rotate(
    x: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor
) -> torch.Tensor:
    left, right = x.chunk(2, dim=-1)
    return x * cosines + torch.cat((-right, left), dim=-1) * sines


def _residual(
    own: torch.Tensor, out: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    return own + out if bias is None else own + (out + bias)


def _tokens(shape: ShardShape, device: torch.device) -> torch.Tensor:
    """Token ids of the device's vocabulary, (b, seq_len / cp)."""
    size = (shape.microbatch, shape.seq_len // shape.cp)
    return torch.randint(shape.shard_vocab, size, device=device)
