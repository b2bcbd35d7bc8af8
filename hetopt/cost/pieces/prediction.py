"""Parts of layers that predict further tokens, besides a layer (DeepSeek-V3, 2.2).

Each reads the output of the previous layer and the embedding of the next token. Both
are normalised, concatenated and projected to one vector, the input of its layer; the
layer's output has another norm. Megatron-core keeps all of them on one stage, with a
copy of the token table, and sends their outputs to the head with the last layer's.
"""

from __future__ import annotations

from hetopt.cost.pieces.embedding import TOKEN_ID_BYTES, Embedding
from hetopt.cost.pieces.operations import Operations, moving, multiply
from hetopt.cost.pieces.piece import Exchange
from hetopt.cost.shapes import Floats, Ints, Shape
from hetopt.problem.training.choices import Recompute

#: Norms of a prediction layer: of its two inputs, and of its output.
_NORMS = 3


class Prediction(Embedding):
    """The table's copy, look-ups, norms and projections of all prediction layers."""

    profiled = ()

    @property
    def layers(self) -> int:
        """Number of layers that predict further tokens."""
        return self.model.predictions

    def operations(self, shape: Shape, e: int) -> Operations:
        """Count look-ups, norms, concatenations and projections."""
        tokens, own = shape.all_tokens(self.tokens), shape.own_tokens(self.tokens)
        hidden = self.block.hidden
        projected = multiply(tokens, 2 * hidden, hidden / shape.tp, e)
        joined = own * 2 * hidden * 2 * e
        each = (
            *super().operations(shape, e).elementwise,
            *self.norms(own, e, _NORMS),
            moving(joined, backward=joined),
        )
        return Operations.of(
            *(projected,) * self.layers, elementwise=each * self.layers
        )

    def parameters(self, tp: Ints) -> Floats:
        """Return the table's shard, and every layer's projection and norms."""
        hidden = self.block.hidden
        each = 2 * hidden * hidden / tp + self.norm_parameters(tp, _NORMS)
        return super().parameters(tp) + self.layers * each

    def kept_bytes(self, shape: Shape, e: int, recompute: Recompute) -> Floats:
        """Return the bytes of both inputs, their concatenation, and the output."""
        own = shape.own_tokens(self.tokens)
        each = e + 2 * self.input_element(e)
        joined_and_output = own * self.block.hidden * each
        looked_up = own * self.block.hidden * (e + self.mask)
        inside = joined_and_output + looked_up
        return self.input_bytes(shape, e) + self.layers * inside

    def input_bytes(self, shape: Shape, e: int) -> Floats:
        """Return the bytes of token ids and of the layers' inputs."""
        own = shape.own_tokens(self.tokens) * self.block.hidden * e
        ids = shape.all_tokens(self.tokens) * TOKEN_ID_BYTES
        return self.layers * (own + ids)

    def gradient_width(self, tp: Ints) -> Floats:
        """Return the width of both inputs, concatenated."""
        return 2 * super().gradient_width(tp)

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """Exchanges of look-ups and projections, and of both inputs, concatenated."""
        tokens, hidden, layers = self.tokens, self.block.hidden, self.layers
        return (
            Exchange(tokens, hidden, 2 * layers, 0),
            Exchange(tokens, 2 * hidden, layers, layers),
        )
