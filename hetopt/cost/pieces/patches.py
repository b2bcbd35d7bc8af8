"""Projection of image patches to tokens; each device projects its own."""

from __future__ import annotations

import numpy as np

from hetopt.cost.pieces.operations import Operations, moving, multiply
from hetopt.cost.pieces.piece import Piece
from hetopt.cost.shapes import Floats, Ints, Shape
from hetopt.problem.training.choices import Recompute


class Patches(Piece):
    """The first unit of an image model."""

    collectives = (0, 0)

    def operations(self, shape: Shape, e: int) -> Operations:
        """Count the projection and the dropout."""
        own, hidden = shape.own_tokens(self.tokens), self.block.hidden
        elementwise = own * hidden * (2 * e + 1)
        return Operations.of(
            multiply(own, self.model.patch, hidden, e),
            elementwise=(moving(elementwise, kernels=2, backward=elementwise),),
        )

    def parameters(self, tp: Ints) -> Floats:
        """Return the projection, its bias and the position table, all replicated."""
        rows = self.model.patch + self.model.positions + 1
        return np.full(len(tp), float(self.block.hidden * rows))

    def kept_bytes(self, shape: Shape, e: int, recompute: Recompute) -> Floats:
        """Return the bytes of the patches and the dropout mask."""
        own = shape.own_tokens(self.tokens)
        return own * self.model.patch * e + own * self.block.hidden * self.mask

    def working_elements(self, shape: Shape) -> Floats:
        """Return the elements of tokens and patches."""
        own = shape.own_tokens(self.tokens)
        return own * (self.block.hidden + self.model.patch)
