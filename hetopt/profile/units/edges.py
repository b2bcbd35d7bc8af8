"""What a device gets from others and sends to them, without the others.

A tensor that a collective would deliver begins as a leaf, a tensor that one would
take ends with a given gradient. So one device is enough and nothing communicates.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from hetopt.cost.shard_shape import ShardShape

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
WEIGHT_SCALE = 0.02


@dataclass(slots=True)
class Edges:
    """Makes tensors, and stands in for the other devices; see the module's head."""

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
