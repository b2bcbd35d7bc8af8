"""A whole layer."""

from __future__ import annotations

import torch

from hetopt.profile.units.attention import Attention
from hetopt.profile.units.edges import Edges
from hetopt.profile.units.mlp_down import MlpDown
from hetopt.profile.units.mlp_up import MlpUp
from hetopt.profile.units.parts import OwnTokens


class Layer(OwnTokens):
    """A transformer layer: its three blocks in one graph."""

    def __init__(self, edges: Edges) -> None:
        self.attention = Attention(edges)
        self.up = MlpUp(edges)
        self.down = MlpDown(edges)

    def __call__(self, own: torch.Tensor) -> torch.Tensor:
        """Return the device's tokens after the layer; (b, tokens, hidden)."""
        own = self.attention(own)
        return self.down(self.up(own), own)
