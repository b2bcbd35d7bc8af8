"""Merging of several tokens of the previous block into one, by a matrix (Swin)."""

from __future__ import annotations

from hetopt.cost.pieces.operations import Operations, moving, multiply
from hetopt.cost.pieces.piece import Piece
from hetopt.cost.shapes import Floats, Ints, Shape
from hetopt.problem.training.choices import Recompute


class Merge(Piece):
    """The start of a block that has fewer tokens than the previous block."""

    collectives = (1, 0)

    @property
    def joined(self) -> int:
        """Width of the concatenated tokens that become one."""
        return self.block.merge * self.source_hidden

    def operations(self, shape: Shape, e: int) -> Operations:
        """Count concatenation, norm and the matrix, which is split like the MLP's."""
        tokens = shape.all_tokens(self.tokens)
        # Concatenation and the norm read and write the tokens.
        copied = shape.own_tokens(self.source_tokens) * self.source_hidden * 2 * e
        return Operations.of(
            multiply(tokens, self.joined, self.block.hidden / shape.tp, e),
            elementwise=(
                moving(copied),
                moving(copied, self.norm_kernel, self.joined),
            ),
        )

    def parameters(self, tp: Ints) -> Floats:
        """Return the matrix, without a bias, and the norm of concatenated tokens."""
        return self.joined * (self.block.hidden / tp + float(self.norm_vectors))

    def kept_bytes(self, shape: Shape, e: int, recompute: Recompute) -> Floats:
        """Return the bytes of the inputs of the norm and of the matrix."""
        inputs = self.input_bytes(shape, e)
        return inputs + inputs / e * self.input_element(e)

    def input_bytes(self, shape: Shape, e: int) -> Floats:
        """Return the bytes of the tokens that are merged."""
        return shape.own_tokens(self.source_tokens) * self.source_hidden * e

    def working_elements(self, shape: Shape) -> Floats:
        """Return the elements of the tokens before and after merging, with copies."""
        wide = (
            shape.all_tokens(self.source_tokens) * self.source_hidden
            + shape.all_tokens(self.tokens) * self.block.hidden / shape.tp
        )
        return self._input_elements(shape) + self._source_elements(shape) + wide
