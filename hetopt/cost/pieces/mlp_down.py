"""The second matrix of the MLP, and the residual."""

from __future__ import annotations

from dataclasses import replace

from hetopt.cost.pieces.operations import Operations, moving, multiply
from hetopt.cost.pieces.piece import Again, Piece
from hetopt.cost.pieces.profiled import Profiled
from hetopt.cost.shapes import Floats, Ints, Shape
from hetopt.problem.model.kinds import MLP_DOWN
from hetopt.problem.training.choices import Recompute


class MlpDown(Piece):
    """Matrix, norm if it comes last, dropout and residual."""

    collectives = (1, 0)
    profiled = (
        Profiled(
            unit=MLP_DOWN,
            sizes=lambda shape: (shape.shard_ffn,),
            place=("inner",),
            matrix_elements=lambda shape: shape.hidden * shape.shard_ffn,
            held_elements=lambda shape: 3 * shape.hidden + 2 * shape.shard_ffn,
        ),
    )

    def operations(self, shape: Shape, e: int) -> Operations:
        """Count the multiplication, dropout and residual."""
        tokens, own = shape.all_tokens(self.tokens), shape.own_tokens(self.tokens)
        hidden = self.block.hidden
        return Operations.of(
            multiply(tokens, self.gradient_width(shape.tp), hidden, e),
            elementwise=(self.residual(own, e), *self.norms(own, e, self.norms_after)),
        )

    def parameters(self, tp: Ints) -> Floats:
        """Return the matrix, split by tp; norm and bias, which are replicated."""
        hidden = self.block.hidden
        replicated = self.norm_parameters(tp, self.norms_after)
        replicated = replicated + float(self.model.biases[2] * hidden)
        return hidden * self.block.ffn / tp + replicated

    def kept_bytes(self, shape: Shape, e: int, recompute: Recompute) -> Floats:
        """Return the bytes of the inner activations, a norm's input and the mask."""
        own = shape.own_tokens(self.tokens)
        kept = own * self.block.hidden * (self.mask + self.norms_after * e)
        inner = shape.all_tokens(self.tokens) * self.block.ffn / shape.tp
        return kept + inner * self.input_element(e)

    def again(self, shape: Shape, e: int) -> dict[str, Again]:
        """Return the MLP without dropout and residual."""
        work, tokens = self.operations(shape, e), shape.all_tokens(self.tokens)
        inside = replace(work, elementwise=(moving(0 * tokens, kernels=0),))
        freed = tokens * self.gradient_width(shape.tp) * self.input_element(e)
        return {"mlp": Again(inside, freed, exchanges=True)}

    def input_bytes(self, shape: Shape, e: int) -> Floats:
        """Return the bytes of the inner activations."""
        return shape.all_tokens(self.tokens) * self.block.ffn / shape.tp * e

    def gradient_width(self, tp: Ints) -> Floats:
        """Return the width of the inner activations."""
        return self.block.ffn / tp
