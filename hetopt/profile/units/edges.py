"""Stand-ins for the tensors that a device receives from others and sends to them.

The result of a collective is replaced by a leaf of the graph, and its input gets a
given gradient. So one device is enough, without communication.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from hetopt.cost.shard_shape import ShardShape

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
WEIGHT_SCALE = 0.02


@dataclass(slots=True)
class Edges:
    """Tensors of a shard, and stand-ins for others; see the module's docstring."""

    shape: ShardShape
    device: torch.device
    leaves: dict[str, torch.Tensor] = field(default_factory=dict)
    ends: list[torch.Tensor] = field(default_factory=list)
    gradients: dict[tuple[int, ...], torch.Tensor] = field(default_factory=dict)

    @property
    def own_size(self) -> tuple[int, int, int]:
        """Size of the device's tokens, (b, tokens, hidden)."""
        shape = self.shape
        tokens = shape.seq_len // (shape.cp * shape.tp)
        return (shape.microbatch, tokens, shape.hidden)

    def weight(self, *size: int) -> torch.Tensor:
        """Return a trained matrix or vector."""
        return (self._random(*size) * WEIGHT_SCALE).requires_grad_()

    def arriving(self, name: str, *size: int) -> torch.Tensor:
        """Return the received tensor of this name, which requires a gradient."""
        if name not in self.leaves:
            self.leaves[name] = self._random(*size).requires_grad_()
        return self.leaves[name]

    def whole_shard(self, name: str, own: torch.Tensor) -> torch.Tensor:
        """Replace a gather of the tensor-parallel group's tokens."""
        if self.shape.tp == 1:
            return own
        self.ends.append(own)
        return self.arriving(
            name, own.shape[0], own.shape[1] * self.shape.tp, *own.shape[2:]
        )

    def own_tokens(self, name: str, partial: torch.Tensor) -> torch.Tensor:
        """Replace a reduce-scatter of the tensor-parallel group's tokens."""
        if self.shape.tp == 1:
            return partial
        self.ends.append(partial)
        own = partial.shape[1] // self.shape.tp
        return self.arriving(name, partial.shape[0], own, *partial.shape[2:])

    def whole_sequence(self, name: str, part: torch.Tensor) -> torch.Tensor:
        """Replace a gather of keys or values, (b, heads, tokens, width)."""
        if self.shape.cp == 1:
            return part
        self.ends.append(part)
        batch, heads, tokens, width = part.shape
        return self.arriving(name, batch, heads, tokens * self.shape.cp, width)

    def backward(self) -> None:
        """Run backward from all tensors that are sent, and from the unit's result."""
        torch.autograd.backward(self.ends, [self._gradient(end) for end in self.ends])

    def forget(self) -> None:
        """Drop the graph and gradients of received tensors; weights keep theirs."""
        self.ends.clear()
        for leaf in self.leaves.values():
            leaf.grad = None

    def _gradient(self, end: torch.Tensor) -> torch.Tensor:
        size = tuple(end.shape)
        if size not in self.gradients:
            random = torch.randn_like(end, requires_grad=False)
            # A loss has gradient 1; tiny gradients slow down CPUs (denormals).
            self.gradients[size] = random if size else torch.ones_like(random)
        return self.gradients[size]

    def _random(self, *size: int) -> torch.Tensor:
        return torch.randn(size, device=self.device, dtype=DTYPES[self.shape.dtype])
