"""A unit's shard that can be timed, and the class of every kind."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from hetopt.cost.shard_shape import ATTENTION_CORE, ShardShape
from hetopt.problem.model.kinds import (
    ATTENTION,
    EMBEDDING,
    HEAD,
    LAYER,
    MLP_DOWN,
    MLP_UP,
)
from hetopt.profile.units.attention import Attention
from hetopt.profile.units.core import Core
from hetopt.profile.units.edges import Edges
from hetopt.profile.units.embedding import Embedding
from hetopt.profile.units.head import Head
from hetopt.profile.units.layer import Layer
from hetopt.profile.units.mlp_down import MlpDown
from hetopt.profile.units.mlp_up import MlpUp

KINDS: dict[str, Any] = {
    LAYER: Layer,
    ATTENTION: Attention,
    MLP_UP: MlpUp,
    MLP_DOWN: MlpDown,
    EMBEDDING: Embedding,
    HEAD: Head,
    ATTENTION_CORE: Core,
}


class Unit(Protocol):
    """A unit that can be timed."""

    def forward(self) -> None:
        """Run the forward pass and keep tensors for backward."""
        ...

    def backward(self) -> None:
        """Run the backward pass."""
        ...


class ShardUnit:
    """One unit's shard with its inputs, ready to be timed.

    Parameters
    ----------
    shape
        Shape of the shard.
    device
        Device on which to run it.
    make
        Constructor of the unit from ``Edges``; by default the class of ``shape.unit``.
    """

    def __init__(
        self, shape: ShardShape, device: torch.device, make: Any = None
    ) -> None:
        self.shape = shape
        self.edges = Edges(shape, device)
        self.call = (make or KINDS[shape.unit])(self.edges)

    def forward(self) -> None:
        """Run the forward pass and keep tensors for backward."""
        self.edges.forget()
        self.edges.ends.append(self.call(*self.call.inputs(self.edges)))

    def backward(self) -> None:
        """Run the backward pass."""
        self.edges.backward()
