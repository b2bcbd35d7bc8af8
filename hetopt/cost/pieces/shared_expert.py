"""Shared experts, which process all tokens besides the routed ones: one MLP."""

from __future__ import annotations

from hetopt.cost.pieces.operations import Operations, moving, multiply
from hetopt.cost.pieces.piece import Again, Piece
from hetopt.cost.shapes import Floats, Ints, Shape
from hetopt.problem.training.choices import Recompute


class SharedExpert(Piece):
    """Two multiplications, an activation, a gate if there is one, and the sum."""

    collectives = (2, 1)

    def operations(self, shape: Shape, e: int) -> Operations:
        """Count the multiplications, the activation, the gate and the sum.

        The router has read the input, which ranks may have gathered since.
        """
        tokens, own = shape.all_tokens(self.tokens), shape.own_tokens(self.tokens)
        hidden, width, inner = self.block.hidden, self._width(shape.tp), self.matrices
        products = [
            multiply(
                tokens,
                hidden,
                inner * width,
                e,
                again=shape.gathered_tokens(1) == 0,
            ),
            multiply(tokens, width, hidden, e),
        ]
        elementwise = [
            moving(
                tokens * width * e * (inner + 1),
                "swiglu" if self.block.gated else "gelu",
                width,
            ),
            moving(own * hidden * 3 * e, "add", hidden),
        ]
        if self._has_gate:
            products.append(multiply(own, hidden, 1, e, again=True))
            elementwise.append(moving(own * hidden * 2 * e))
        return Operations.of(*products, elementwise=tuple(elementwise))

    def parameters(self, tp: Ints) -> Floats:
        """Return matrices and biases, split by tp; last bias and gate replicated."""
        hidden, width, inner = self.block.hidden, self._width(tp), self.matrices
        weights = hidden * width * (inner + 1) + float(self._has_gate * hidden)
        return weights + self.model.biases[2] * (width * inner + hidden)

    def kept_bytes(self, shape: Shape, e: int, recompute: Recompute) -> Floats:
        """Return the bytes of the activation's input and result, and a gate's factor.

        The routed experts count the input, of which the router reads 16 bits.
        """
        tokens, own = shape.all_tokens(self.tokens), shape.own_tokens(self.tokens)
        each = self.matrices * e + self.input_element(e)
        inputs = self.copied_element + self._has_gate * e
        inside = tokens * self._width(shape.tp) * each
        return inside + own * self.block.hidden * inputs

    def again(self, shape: Shape, e: int) -> dict[str, Again]:
        """Return all of it, which is a part of the mixture."""
        freed = self.kept_bytes(shape, e, "none")
        whole = Again(self.operations(shape, e), freed, exchanges=True)
        return {"shared_experts": whole, "moe": whole}

    def gradient_width(self, tp: Ints) -> Floats:
        """Return the width of the activation's input."""
        return self._width(tp) * self.matrices

    @property
    def matrices(self) -> int:
        """Number of matrices before the activation."""
        return 2 if self.block.gated else 1

    @property
    def _has_gate(self) -> bool:
        experts = self.model.experts
        return experts is not None and experts.shared_gate

    def _width(self, tp: Ints) -> Floats:
        experts = self.model.experts
        assert experts is not None
        return experts.shared_ffn / tp
