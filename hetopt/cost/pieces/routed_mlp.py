"""Routed experts: router, dispatch of tokens, experts, combination, residual.

With ``n`` tokens on a device (``microbatch * tokens / (cp * tp)``), ``k`` experts per
token, E experts of width ``f`` and a load of rho, the tokens of the fullest rank over
the even share, a device multiplies ``rho n k etp`` rows of ``f / etp`` columns, in
``E / ep`` groups. Tokens are sorted by expert before they are sent, and by a rank's own
experts afterwards if it has several; the results are sorted back.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hetopt.cost.pieces.dispatched import Dispatched
from hetopt.cost.pieces.operations import Elementwise, Operations, moving, multiply
from hetopt.cost.pieces.piece import Again, Piece
from hetopt.cost.shapes import Floats, Ints, Shape
from hetopt.problem.model.experts import Experts
from hetopt.problem.training.choices import Recompute

#: Kernels of the router besides its matrix: scores, the choice of the largest, the map
#: from tokens to experts.
_ROUTER_KERNELS = 3

#: Bytes of a router's score, which is in fp32.
_SCORE_BYTES = 4

#: Scores that are kept: before and after normalisation.
_KEPT_SCORES = 2


class RoutedMlp(Piece):
    """Norm, router, routed experts and residual."""

    collectives = (0, 0)

    @property
    def experts(self) -> Experts:
        """The model's experts."""
        experts = self.model.experts
        assert experts is not None
        return experts

    def operations(self, shape: Shape, e: int) -> Operations:
        """Count the router's and two grouped multiplications, and other kernels."""
        own, mixture = self._own(shape), self._mixture(shape, e)
        return replace(
            mixture,
            elementwise=(
                *self.norms(own, e, self.norms_before),
                *mixture.elementwise,
                self.residual(own, e),
                *self.norms(own, e, self.norms_after),
            ),
        )

    def _mixture(self, shape: Shape, e: int) -> Operations:
        """Count the router's and the experts' work, their activation last."""
        own, hidden, experts = self._own(shape), self.block.hidden, self.experts
        rows, groups = self._rows(shape), experts.number / shape.ep
        width, inner = self._width(shape), self.matrices
        each, groups = rows / groups, np.broadcast_to(groups, rows.shape)
        scores = own * experts.number * _SCORE_BYTES
        return Operations.of(
            multiply(own, hidden, experts.number, e),
            multiply(each, hidden, inner * width, e, groups=groups),
            multiply(each, width, hidden, e, groups=groups),
            elementwise=(
                moving(2 * _ROUTER_KERNELS * scores, kernels=_ROUTER_KERNELS),
                *self._reordered(shape, e),
                moving(
                    rows * width * e * (inner + 1),
                    "swiglu" if self.block.gated else "gelu",
                    width,
                ),
            ),
        )

    def again(self, shape: Shape, e: int) -> dict[str, Again]:
        """Return the norm, the experts' activation, and the mixture without the norm.

        The router and what sends tokens read the norm's result in 16 bits.
        """
        mixture, width = self._mixture(shape, e), self._width(shape)
        activation = Operations.of(elementwise=mixture.elementwise[-1:])
        scores, inside = self._inside_bytes(shape, e)
        acted = self._rows(shape) * width * self.input_element(e)
        return {
            **self.norm_again(shape, e, e),
            "moe_act": Again(activation, acted),
            "moe": Again(mixture, scores + inside, dispatches=True),
        }

    def parameters(self, tp: Ints) -> Floats:
        """Return the router and the norms, which are replicated on every rank."""
        experts = self.experts
        router = experts.number * (self.block.hidden + experts.router_bias)
        norms = self.norm_parameters(tp, self.norms_before + self.norms_after)
        return norms + float(router)

    def expert_parameters(self, shape: Shape) -> Floats:
        """Return matrices, split by ep and etp; last biases, split only by ep."""
        hidden, width, inner = self.block.hidden, self._width(shape), self.matrices
        each = hidden * width * (inner + 1)
        if self.model.biases[2]:
            each = each + width * inner + hidden
        return self.experts.number / shape.ep * each

    def kept_bytes(self, shape: Shape, e: int, recompute: Recompute) -> Floats:
        """Return the bytes of both inputs, of the router's scores, and of experts.

        Experts keep their input, and the activation's input and result. The result is
        weighted before the second matrix (Megatron-core 0.16), so experts need not
        keep their output.
        """
        norms = self.norms_before + self.norms_after
        kept = self._own(shape) * self.block.hidden * ((1 + norms) * e + self.mask)
        scores, inside = self._inside_bytes(shape, e)
        return kept + scores + inside

    def _inside_bytes(self, shape: Shape, e: int) -> tuple[Floats, Floats]:
        """Return the bytes of the router's scores, and of experts."""
        own, rows, hidden = self._own(shape), self._rows(shape), self.block.hidden
        scores = _KEPT_SCORES * _SCORE_BYTES * own * self.experts.number
        width, inputs = self._width(shape), self.input_element(e)
        inside = rows * ((hidden + width) * inputs + self.matrices * width * e)
        return scores, inside

    def working_elements(self, shape: Shape) -> Floats:
        """Return the elements of gradients of experts that are held at once.

        They are the gradients of the input and of the wider of input and inner tensor.
        """
        inside = self.matrices * self._width(shape)
        widest: Floats = np.maximum(self.block.hidden, inside)
        return self._rows(shape) * (self.block.hidden + widest)

    def dispatched(self, shape: Shape, e: int) -> Dispatched:
        """Return the messages sent before the experts, and again after them."""
        experts, dispatch = self.experts, self.kernels.dispatch
        groups = None
        if dispatch.node_dedup:
            groups = experts.number, experts.per_token
            if experts.groups:
                groups = experts.groups, experts.groups_per_token
        return Dispatched(
            token_bytes=self._own(shape) * self.block.hidden * e,
            copies=experts.per_token * dispatch.load,
            load=dispatch.load,
            groups=groups,
        )

    @property
    def matrices(self) -> int:
        """Number of matrices of an expert before the activation."""
        return 2 if self.block.gated else 1

    def _own(self, shape: Shape) -> Floats:
        return shape.own_tokens(self.tokens)

    def _sent(self, shape: Shape) -> Floats:
        """Return the copies of tokens that a rank receives, and sends back."""
        experts = self.experts
        return self._own(shape) * experts.per_token * self.kernels.dispatch.load

    def _rows(self, shape: Shape) -> Floats:
        """Return the rows of a device's experts: those of all ranks that split them."""
        return self._sent(shape) * shape.etp

    def _width(self, shape: Shape) -> Floats:
        return np.broadcast_to(self.experts.ffn / shape.etp, shape.tp.shape)

    def _reordered(self, shape: Shape, e: int) -> tuple[Elementwise, ...]:
        """Return the kernels that reorder tokens; backward moves as much as forward.

        Tokens are sorted by expert before they are sent (each is read once), and then
        by the rank's own experts, if it has several. The results are sorted back, and
        those of a token added up.
        """
        hidden, sent = self.block.hidden, self._sent(shape)
        several = self.experts.number > shape.ep
        of_own = np.where(several, 2 * self._rows(shape) * hidden * e, 0.0)
        moved = (self._own(shape) + sent) * hidden * e + of_own
        return (moving(moved, kernels=2, backward=moved),) * 2
