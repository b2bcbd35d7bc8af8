"""Logits of every token, and the loss."""

from __future__ import annotations

from typing import ClassVar

from hetopt.cost.pieces.operations import Operations, multiply
from hetopt.cost.pieces.piece import Piece
from hetopt.cost.pieces.profiled import Profiled
from hetopt.cost.shapes import Floats, Ints, Shape, logit_shard
from hetopt.problem.model import HEAD
from hetopt.problem.training import Recompute

#: Bytes that the loss moves per logit: the cast to fp32, the maximum, the sum of
#: exponentials and the softmax each read or write four bytes; ours, from counting
#: Megatron's vocabulary-parallel cross entropy.
LOSS_BYTES_FORWARD = 20
LOSS_BYTES_BACKWARD = 8


class Head(Piece):
    """Norm, logits and the loss in 32 bits."""

    collectives = (1, 1)
    profiled: ClassVar[tuple[Profiled, ...]] = (
        Profiled(
            unit=HEAD,
            sizes=lambda shape: (shape.shard_vocab,),
            place=("logits",),
            matrix_elements=lambda shape: shape.hidden * shape.shard_vocab,
            held_elements=lambda shape: 4 * shape.hidden,
            # Logits, and three copies in 32 bits: cast, logarithm of softmax,
            # gradient.
            held_bytes=lambda shape, element: (
                shape.tokens * shape.shard_vocab * (2 * element + 12)
            ),
        ),
    )

    def loss_rows(self, shape: Shape) -> Floats:
        """Return a row of logits per token."""
        return shape.all_tokens(self.tokens)

    def operations(self, shape: Shape, e: int) -> Operations:
        """Count the norm, the multiplication and the loss."""
        hidden, rows = self.block.hidden, self.loss_rows(shape)
        logits = logit_shard(self.model, shape.tp)
        norm = shape.own_tokens(self.tokens) * hidden * 2 * e
        return Operations.of(
            multiply(rows, hidden, logits, e),
            elementwise=norm + rows * logits * LOSS_BYTES_FORWARD,
            backward=2 * norm + rows * logits * LOSS_BYTES_BACKWARD,
            kernels=6,
        )

    def parameters(self, tp: Ints) -> Floats:
        """Return the matrix by tp; the norm replicated."""
        logits = logit_shard(self.model, tp)
        return self.block.hidden * logits + self.norm_parameters(tp)

    def kept_bytes(self, shape: Shape, e: int, recompute: Recompute) -> Floats:
        """Return the bytes of the inputs of norm and matrix, and an fp32 softmax."""
        own, rows = shape.own_tokens(self.tokens), self.loss_rows(shape)
        softmax = 4 * (rows * logit_shard(self.model, shape.tp))
        return own * self.block.hidden * 2 * e + softmax

    def gradient_width(self, tp: Ints) -> Floats:
        """Return the logits of a token."""
        return logit_shard(self.model, tp)
