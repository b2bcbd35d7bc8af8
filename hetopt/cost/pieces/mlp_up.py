"""The first matrix of the MLP (two for SwiGLU), and the activation."""

from __future__ import annotations

from dataclasses import replace

from hetopt.cost.pieces.operations import Operations, moving, multiply
from hetopt.cost.pieces.piece import Again, Piece
from hetopt.cost.pieces.profiled import Profiled
from hetopt.cost.shapes import Floats, Ints, Shape
from hetopt.problem.model.kinds import MLP_UP
from hetopt.problem.training.choices import Recompute


class MlpUp(Piece):
    """Norm, matrices and activation."""

    collectives = (1, 1)
    profiled = (
        Profiled(
            unit=MLP_UP,
            sizes=lambda shape: (shape.shard_ffn,),
            place=("inner",),
            matrix_elements=lambda shape: (
                shape.hidden * shape.shard_ffn * (1 + shape.gated)
            ),
            held_elements=lambda shape: 3 * shape.hidden + 4 * shape.shard_ffn,
        ),
    )

    @property
    def matrices(self) -> int:
        """Matrices that tokens are multiplied with."""
        return 2 if self.block.gated else 1

    def operations(self, shape: Shape, e: int) -> Operations:
        """Count the multiplication, the norm and the activation."""
        tokens, own = shape.all_tokens(self.tokens), shape.own_tokens(self.tokens)
        hidden, width, inner = self.block.hidden, self._width(shape.tp), self.matrices
        return Operations.of(
            multiply(tokens, hidden, inner * width, e),
            elementwise=(
                *self.norms(own, e, self.norms_before),
                moving(
                    tokens * width * e * (inner + 1),
                    "swiglu" if self.block.gated else "gelu",
                    width,
                ),
            ),
        )

    def parameters(self, tp: Ints) -> Floats:
        """Return matrices and biases, split by tp; the norm is replicated."""
        inner = self.gradient_width(tp)
        norms = self.norm_parameters(tp, self.norms_before)
        weights = self.block.hidden * inner + norms
        return weights + self.model.biases[2] * inner

    def kept_bytes(self, shape: Shape, e: int, recompute: Recompute) -> Floats:
        """Return the bytes of the inputs of norm, matrices and activation."""
        tokens, own = shape.all_tokens(self.tokens), shape.own_tokens(self.tokens)
        inner = tokens * self.block.ffn / shape.tp * e
        each = self.norms_before * e + self.input_element(e)
        inputs = own * self.block.hidden * each
        return inputs + inner * self.matrices

    def again(self, shape: Shape, e: int) -> dict[str, Again]:
        """Return the norm, and the MLP without it."""
        work, tokens = self.operations(shape, e), shape.all_tokens(self.tokens)
        inside = replace(work, elementwise=work.elementwise[-1:])
        freed = tokens * self.gradient_width(shape.tp) * e
        norm = self.norm_again(shape, e, self.input_element(e))
        return {**norm, "mlp": Again(inside, freed, exchanges=True)}

    def gradient_width(self, tp: Ints) -> Floats:
        """Return the width of the activation's input."""
        return self._width(tp) * self.matrices

    def working_elements(self, shape: Shape) -> Floats:
        """Return the elements of the input and of the gradients held at once.

        They are gradients of the activation's result and input, the latter twice if
        gated: those of its two halves, and of both concatenated.
        """
        tokens = shape.all_tokens(self.tokens)
        copies = 2 if self.block.gated else 1
        width = self._width(shape.tp) + copies * self.gradient_width(shape.tp)
        return self._input_elements(shape) + tokens * width

    def _width(self, tp: Ints) -> Floats:
        return self.block.ffn / tp
