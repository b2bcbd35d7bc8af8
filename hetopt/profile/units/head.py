"""Logits and loss."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from hetopt.profile.units.edges import Edges
from hetopt.profile.units.parts import Norm, OwnTokens, random_tokens


class Head(OwnTokens):
    """Norm, logits, and the loss in 32 bits."""

    def __init__(self, edges: Edges) -> None:
        shape = edges.shape
        self.edges = edges
        self.norm = Norm(edges)
        self.out = edges.weight(shape.shard_vocab, shape.hidden)
        self.targets = random_tokens(shape, edges.device).flatten()

    def __call__(self, own: torch.Tensor) -> torch.Tensor:
        """Return the mean loss of the device's share of the logits."""
        x = self.edges.whole_shard("head input", self.norm(own))
        logits = F.linear(x, self.out).flatten(0, 1)
        return F.cross_entropy(logits.float(), self.targets)
