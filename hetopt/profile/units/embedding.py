"""Look-up of tokens."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from hetopt.profile.units.edges import Edges
from hetopt.profile.units.parts import random_tokens


class Embedding:
    """Rows of the vocabulary's table; GPT adds learned positions."""

    def __init__(self, edges: Edges) -> None:
        shape = edges.shape
        self.edges = edges
        self.table = edges.weight(shape.shard_vocab, shape.hidden)
        self.ids = random_tokens(shape, edges.device)
        self.positions = None
        if not shape.gated:
            own = shape.seq_len // (shape.cp * shape.tp)
            self.positions = edges.weight(own, shape.hidden)

    def __call__(self) -> torch.Tensor:
        """Return the device's tokens; (b, tokens, hidden)."""
        rows = F.embedding(self.ids, self.table)
        own = self.edges.own_tokens("embedding output", rows)
        return own if self.positions is None else own + self.positions

    @staticmethod
    def inputs(edges: Edges) -> tuple[torch.Tensor, ...]:
        """Return nothing: the unit has its own token ids."""
        del edges
        return ()
