"""Logits of every token, and the loss."""

from __future__ import annotations

from typing import ClassVar

from hetopt.cost.pieces.operations import Operations, moving, multiply
from hetopt.cost.pieces.piece import Piece
from hetopt.cost.pieces.profiled import Profiled
from hetopt.cost.shapes import Floats, Ints, Shape, logit_shard
from hetopt.problem.model.kinds import HEAD
from hetopt.problem.training.choices import Recompute


class Head(Piece):
    """Norm, logits, and the loss in 32 bits."""

    collectives = (1, 1)
    profiled: ClassVar[tuple[Profiled, ...]] = (
        Profiled(
            unit=HEAD,
            sizes=lambda shape: (shape.shard_vocab,),
            place=("logits",),
            matrix_elements=lambda shape: shape.hidden * shape.shard_vocab,
            held_elements=lambda shape: 4 * shape.hidden,
            # Logits and their gradient, and three copies in 32 bits: cast, logarithm
            # of softmax, gradient.
            held_bytes=lambda shape, element: (
                shape.tokens * shape.shard_vocab * (2 * element + 12)
            ),
        ),
    )

    @property
    def exchanged_tokens(self) -> int:
        """Tokens with logits: those of the last layer and of prediction layers."""
        return self.tokens * (1 + self.model.predictions)

    def loss_rows(self, shape: Shape) -> Floats:
        """Return the rows of logits: per token, one and one per further prediction."""
        return shape.all_tokens(self.exchanged_tokens)

    def operations(self, shape: Shape, e: int) -> Operations:
        """Count the norm, the multiplication and the loss."""
        hidden, rows = self.block.hidden, self.loss_rows(shape)
        logits = logit_shard(self.model, shape.tp)
        norm, loss = self.norm(shape.own_tokens(self.tokens), e), self.kernels.loss
        # A division, a hyperbolic tangent and a product, each read and written.
        capped = 6 * e * self._caps
        return Operations.of(
            multiply(rows, hidden, logits, e),
            elementwise=(
                norm,
                moving(
                    rows * logits * (loss.forward + capped),
                    kernels=5 + 3 * self._caps,
                    backward=rows * logits * (loss.backward + capped),
                ),
            ),
        )

    def parameters(self, tp: Ints) -> Floats:
        """Return the matrix, split by tp, and the norm, replicated."""
        logits = logit_shard(self.model, tp)
        return self.block.hidden * logits + self.norm_parameters(tp)

    def kept_bytes(self, shape: Shape, e: int, recompute: Recompute) -> Floats:
        """Return the bytes of inputs of norm, matrix and cap, and those of the loss."""
        own = shape.own_tokens(self.tokens)
        inputs = 2 + self.model.predictions
        softmax = (self.kernels.loss.kept + e * self._caps) * self._logits(shape)
        return own * self.block.hidden * inputs * e + softmax

    def working_bytes(self, shape: Shape, e: int, recompute: Recompute) -> Floats:
        """Return the bytes of the input and those that the loss holds temporarily.

        Losses of further tokens are computed one after the other.
        """
        loss, times = self.kernels.loss, 1 + self.model.predictions
        passing = (loss.peak - loss.kept) * self._logits(shape) / times
        return e * self._input_elements(shape) + passing

    @property
    def _caps(self) -> int:
        """Number of caps of the logits: 0 or 1. Backward needs its tangent."""
        return int(self.model.architecture.logit_softcap is not None)

    def _logits(self, shape: Shape) -> Floats:
        return self.loss_rows(shape) * logit_shard(self.model, shape.tp)
