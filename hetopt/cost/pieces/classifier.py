"""One class per sequence: a head on the mean of its tokens."""

from __future__ import annotations

import numpy as np

from hetopt.cost.pieces.head import Head
from hetopt.cost.shapes import Floats, Ints, Shape, logit_shard


class Classifier(Head):
    """Norm, mean over the tokens of a sequence, logits with a bias, and the loss."""

    collectives = (2, 0)
    profiled = ()

    @property
    def exchanged_tokens(self) -> int:
        """1: the tokens of a sequence are averaged first."""
        return 1

    def loss_rows(self, shape: Shape) -> Floats:
        """Return one row of logits per sequence."""
        return shape.microbatch.astype(np.float64)

    def parameters(self, tp: Ints) -> Floats:
        """Return the parameters of a head, and a bias."""
        return super().parameters(tp) + logit_shard(self.model, tp)

    def _input_elements(self, shape: Shape) -> Floats:
        """Return the elements of the tokens and of their means."""
        own, hidden = shape.own_tokens(self.tokens), self.block.hidden
        return own * hidden + self.loss_rows(shape) * hidden
